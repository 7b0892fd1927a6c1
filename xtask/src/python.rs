//! `cargo xtask python`: builds the Python package as a wheel, installs it in an environment of its own in the build
//! directory, and runs its tests. `cargo xtask test` runs those that need no more than pyarrow, on the library that is built
//! with the workspace. What is missing on this machine is `skipped: reason`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{repo, say, test_run, tool};

/// Packages from `PyPI` that the tests need: for every run of the tests, and for all tests.
const NEEDED: &str = "python/tests/requirements.txt";
const NEEDED_BY_ALL: &str = "python/tests/requirements-all.txt";

/// Seeded captures: so many hosts, and halts of each VM.
const FLEET: [&str; 2] = ["200", "300"];

/// Runs the tests that need little, on what was built with the workspace.
pub(crate) fn run() -> Result<()> {
    let root = repo::root();
    let home = home().join("short");
    let Some(environment) = environment(&root, NEEDED, &home)? else {
        return Ok(());
    };
    let package = home.join("package");
    drop(std::fs::remove_dir_all(&package));
    let own = package.join("haltwise");
    std::fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
    let link = |from: &Path, name: &OsStr| {
        let to = own.join(name);
        std::os::unix::fs::symlink(from, &to).with_context(|| format!("link {}", to.display()))
    };
    for file in std::fs::read_dir(root.join("python/haltwise")).context("list the package")? {
        let file = file?;
        link(&file.path(), &file.file_name())?;
    }
    let native = std::path::absolute(repo::target_dir().join("debug/lib_native.so"))?;
    link(&native, "_native.abi3.so".as_ref())?;
    let mut pytest = pytest(&root, &environment, &home);
    pytest.args(["-m", "not long", "test_answers.py", "test_tables.py"]);
    tool::run(pytest.env("PYTHONPATH", package))
}

fn pytest(root: &Path, environment: &Environment, home: &Path) -> Command {
    let tests = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"];
    let mut pytest = environment.python();
    pytest.current_dir(root.join("python/tests")).args(tests);
    pytest.arg("--basetemp").arg(home.join("tmp"));
    let program = std::path::absolute(repo::target_dir().join("debug/haltwise"));
    pytest.env("HALTWISE_PROGRAM", program.unwrap_or_default());
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    pytest
}

pub(crate) fn run_all() -> Result<()> {
    let root = repo::root();
    let home = home();
    let Some(environment) = environment(&root, NEEDED_BY_ALL, &home)? else {
        return Ok(());
    };
    let mypy = ["--no-incremental", "--strict", "haltwise"];
    let mut types = environment.program("mypy");
    tool::run(types.current_dir(root.join("python")).args(mypy))?;
    let wheel = wheel(&root, &home, &environment)?;
    let install = "-m pip install --quiet --no-deps --force-reinstall";
    tool::run(environment.python().args(install.split(' ')).arg(wheel))?;
    if tool::find("java").is_none() {
        say::skipped("Spark: java is not installed");
    }
    test_run::build()?;
    let fleet = home.join("fleet");
    drop(std::fs::remove_dir_all(&fleet));
    let mut example = tool::cargo("run --quiet -p haltwise-capture --example seeded_captures --");
    tool::run(example.arg(&fleet).args(FLEET))?;
    let mut pytest = pytest(&root, &environment, &home);
    pytest.args(["--durations=5", "."]);
    tool::run(pytest.env("HALTWISE_FLEET", fleet))
}

fn home() -> PathBuf {
    repo::target_dir().join("python")
}

#[derive(Debug)]
struct Environment(PathBuf);

impl Environment {
    fn program(&self, name: &str) -> Command {
        Command::new(self.0.join("bin").join(name))
    }

    fn python(&self) -> Command {
        let mut python = self.program("python");
        // Spark's workers run what is run here.
        python.env("PYSPARK_PYTHON", self.0.join("bin/python"));
        python
    }
}

/// Makes the environment, or brings it up to date. `None`, after `skipped: reason`, where this machine lacks Python or
/// a registry.
fn environment(root: &Path, needed: &str, home: &Path) -> Result<Option<Environment>> {
    let missing = |what: &str| {
        say::skipped(&format!("the Python package: {what} (tools/setup)"));
        Ok(None)
    };
    let Some(python) = tool::find("python3") else {
        return missing("python3 is not installed");
    };
    if tool::ask(Command::new(&python).args(["-c", "import venv, ensurepip"])).is_err() {
        return missing("python3-venv is not installed");
    }
    let environment = Environment(home.join("venv"));
    let list = root.join(needed);
    let needed = std::fs::read_to_string(&list).context("read what tests need")?;
    let stamp = environment.0.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == needed) {
        return Ok(Some(environment));
    }
    tool::ask(
        Command::new(python)
            .args(["-m", "venv"])
            .arg(&environment.0),
    )?;
    let install = ["-m", "pip", "install", "--quiet", "--requirement"];
    let installed = tool::ask(environment.python().args(install).arg(list));
    if let Err(error) = installed {
        say::skipped(&format!("the Python package: {error:#}"));
        return Ok(None);
    }
    std::fs::write(stamp, needed).context("note what is installed")?;
    Ok(Some(environment))
}

fn wheel(root: &Path, home: &Path, environment: &Environment) -> Result<PathBuf> {
    let wheels = home.join("wheels");
    drop(std::fs::remove_dir_all(&wheels));
    let mut maturin = environment.program("maturin");
    maturin.current_dir(root.join("python"));
    // Maturin builds with other flags, and so shares nothing with the workspace: the profile `demo` builds faster.
    let arguments = "build --quiet --profile demo --auditwheel skip --out";
    maturin.args(arguments.split(' ')).arg(&wheels);
    maturin
        .arg("--interpreter")
        .arg(environment.0.join("bin/python"));
    tool::run(&mut maturin)?;
    let built = std::fs::read_dir(&wheels).context("list wheels")?.next();
    Ok(built.context("maturin has built no wheel")??.path())
}
