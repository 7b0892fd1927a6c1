//! `cargo xtask python`: builds the Python package as a wheel, installs it in an environment of its own in the build
//! directory, and runs its tests. What is missing on this machine is `skipped: reason`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{repo, say, tool};

/// What the tests need from `PyPI`.
const NEEDED: &str = "python/tests/requirements.txt";

/// Seeded captures: so many hosts, and halts of each VM.
const FLEET: [&str; 2] = ["200", "300"];

/// Builds and tests.
pub(crate) fn run() -> Result<()> {
    let root = repo::root();
    let home = home();
    let Some(environment) = installed(&root, &home, types)? else {
        return Ok(());
    };
    if tool::find("java").is_none() {
        say::skipped("Spark: java is not installed");
    }
    let program = ["build", "--quiet", "-p", "haltwise", "--bin", "haltwise"];
    tool::run(tool::cargo(&root).args(program))?;
    let fleet = fleet(&root, &home)?;
    let tests = [
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--durations=5",
        ".",
    ];
    let mut pytest = environment.python();
    pytest.current_dir(root.join("python/tests")).args(tests);
    pytest.arg("--basetemp").arg(home.join("tmp"));
    pytest.env("HALTWISE_FLEET", fleet);
    pytest.env(
        "HALTWISE_PROGRAM",
        repo::target_dir().join("debug/haltwise"),
    );
    tool::run(pytest.env("PYTHONDONTWRITEBYTECODE", "1"))
}

/// Where all of it lies.
pub(crate) fn home() -> PathBuf {
    repo::target_dir().join("python")
}

/// The environment with the package in it. `None`, after `skipped: reason`, as of [`environment`].
pub(crate) fn installed(
    root: &Path,
    home: &Path,
    before: impl FnOnce(&Path, &Environment) -> Result<()>,
) -> Result<Option<Environment>> {
    let Some(environment) = environment(root, home)? else {
        return Ok(None);
    };
    before(root, &environment)?;
    let wheel = wheel(root, home, &environment)?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--force-reinstall",
    ];
    tool::run(environment.python().args(pip).arg(wheel))?;
    Ok(Some(environment))
}

/// Python with what the tests need.
#[derive(Debug)]
pub(crate) struct Environment(PathBuf);

impl Environment {
    fn program(&self, name: &str) -> Command {
        Command::new(self.0.join("bin").join(name))
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> Command {
        let mut python = self.program("python");
        // Spark's workers run what is run here.
        python.env("PYSPARK_PYTHON", self.0.join("bin/python"));
        python
    }
}

/// Makes the environment, or brings it up to date. `None`, after `skipped: reason`, where this machine lacks Python or
/// a registry.
fn environment(root: &Path, home: &Path) -> Result<Option<Environment>> {
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
    let needed = std::fs::read_to_string(root.join(NEEDED)).context("read what tests need")?;
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
    let installed = tool::ask(environment.python().args(install).arg(root.join(NEEDED)));
    if let Err(error) = installed {
        say::skipped(&format!("the Python package: {error:#}"));
        return Ok(None);
    }
    std::fs::write(stamp, needed).context("note what is installed")?;
    Ok(Some(environment))
}

/// Lints of the native half: without its feature the crate is empty. Needs no Python.
pub(crate) fn clippy() -> Result<()> {
    let package = ["clippy", "-p", "haltwise-python", "--features=extension"];
    let mut clippy = tool::cargo(&repo::root());
    tool::run(clippy.args(package).args(["--", "-D", "warnings"]))
}

/// Types of the other half.
fn types(root: &Path, environment: &Environment) -> Result<()> {
    let mypy = ["--no-incremental", "--strict", "haltwise"];
    let mut checked = environment.program("mypy");
    tool::run(checked.current_dir(root.join("python")).args(mypy))
}

/// Builds the wheel.
fn wheel(root: &Path, home: &Path, environment: &Environment) -> Result<PathBuf> {
    let wheels = home.join("wheels");
    drop(std::fs::remove_dir_all(&wheels));
    let mut maturin = environment.program("maturin");
    maturin.current_dir(root.join("python"));
    // Other features of what both use make this build share nothing with the workspace's: the profile `demo` builds
    // faster.
    maturin.args([
        "build",
        "--quiet",
        "--profile",
        "demo",
        "--auditwheel",
        "skip",
        "--out",
    ]);
    maturin
        .arg(&wheels)
        .arg("--interpreter")
        .arg(environment.0.join("bin/python"));
    tool::run(&mut maturin)?;
    let built = std::fs::read_dir(&wheels).context("list wheels")?.next();
    Ok(built.context("maturin has built no wheel")??.path())
}

/// Captures of seeded hosts.
fn fleet(root: &Path, home: &Path) -> Result<PathBuf> {
    let fleet = home.join("fleet");
    drop(std::fs::remove_dir_all(&fleet));
    let example = [
        "run",
        "--quiet",
        "-p",
        "haltwise-capture",
        "--example",
        "seeded_captures",
        "--",
    ];
    tool::run(tool::cargo(root).args(example).arg(&fleet).args(FLEET))?;
    Ok(fleet)
}
