//! Debian's stock cloud kernels, and packages of its backports: resolved, downloaded and unpacked by Debian's own tools.
//!
//! Unpacked packages stay in the build directory and are used again without network access.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{say, tool};

/// Common name of a kernel that we test on, and Debian's package that always points to its newest build.
pub(crate) type Series = (&'static str, &'static str);

/// All kernels that we test on, oldest first.
pub(crate) const SERIES: [Series; 2] = [
    ("6.1", "linux-image-cloud-amd64"),
    ("6.12", "linux-image-6.12-cloud-amd64"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Its release, as `uname -r` says inside: `6.1.0-56-cloud-amd64`.
    pub(crate) release: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// Which modules depend on which. A package that was only unpacked has no list of that yet.
    pub(crate) fn dependencies(&self) -> Result<String> {
        let list = self.modules.join("modules.dep");
        if !list.exists() {
            // The modules lie in lib/modules/RELEASE below it.
            let base = self.modules.ancestors().nth(3);
            let base = base.context("a kernel's modules have no base")?;
            let mut depmod = Command::new("busybox");
            depmod.args(["depmod", "-b"]).arg(base).arg(&self.release);
            tool::ask(&mut depmod)?;
        }
        std::fs::read_to_string(&list).with_context(|| format!("read {}", list.display()))
    }
}

/// The kernel of a series, from `cache` if it is there, else through apt.
///
/// # Errors
/// Where apt does not know the package or cannot download it. For callers that is a reason to skip.
pub(crate) fn fetch((name, package): Series, cache: &Path, refresh: bool) -> Result<Kernel> {
    let home = cache.join(name);
    if !refresh && let Ok(kernel) = unpacked(&home) {
        return Ok(kernel);
    }
    let package = resolve(package)?;
    say::note(&format!("fetching {package}"));
    replace(&home, |fresh| {
        tool::ask(apt("download", fresh).arg(&package))?;
        unpack(fresh)?;
        unpacked(fresh).map(drop)
    })?;
    unpacked(&home)
}

/// Unpacks the newest builds of packages in a suite, by the name of the release that is installed. apt keeps the lists for
/// that beside them: what it knows for the system stays as it is. What is unpacked is not installed: no service of it
/// starts.
///
/// # Errors
/// Where apt has no Debian among its sources, or cannot download from that one's archive, which keeps a release for some
/// years.
pub(crate) fn fetch_packages(
    suite: impl FnOnce(&str) -> String,
    packages: &[&str],
    home: &Path,
) -> Result<()> {
    let (uri, release) = archive()?;
    let suite = suite(&release);
    replace(home, |fresh| {
        let (list, lists) = (fresh.join("sources.list"), fresh.join("lists"));
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let source = format!("deb [signed-by={keys}] {uri} {suite} main\n");
        std::fs::write(&list, source).with_context(|| format!("write {}", list.display()))?;
        std::fs::create_dir_all(lists.join("partial"))
            .with_context(|| format!("create {}", lists.display()))?;
        let apt = |verb| {
            let mut apt = apt(verb, fresh);
            let cache = fresh.join("cache");
            for (name, path) in [
                ("Dir::Etc::SourceList", list.as_path()),
                ("Dir::Etc::SourceParts", Path::new("/dev/null")),
                ("Dir::State::Lists", &lists),
                ("Dir::Cache", &cache),
            ] {
                apt.arg("-o").arg(format!("{name}={}", path.display()));
            }
            apt
        };
        tool::ask(&mut apt("update"))?;
        // Named one by one: by `-t`, apt would not go below a version that is installed.
        let packages = packages.iter().map(|name| format!("{name}/{suite}"));
        tool::ask(apt("download").args(packages))?;
        remove(&lists)?;
        unpack(fresh)
    })
}

fn archive() -> Result<(String, String)> {
    asked("the release of Debian", || {
        let format = "$(REPO_URI) $(RELEASE) $(ORIGIN)";
        let sources = tool::ask(Command::new("apt-get").args([
            "indextargets",
            "--format",
            format,
            "Created-By: Packages",
        ]))?;
        let (uri, release) = debian_in(&sources).context("apt has no Debian among its sources")?;
        Ok((uri.to_owned(), release.to_owned()))
    })
}

/// The archive and the release of the first Debian among apt's sources: lines of an address, a release and an origin.
fn debian_in(sources: &str) -> Option<(&str, &str)> {
    sources.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (uri, release, origin) = (words.next()?, words.next()?, words.next()?);
        (origin == "Debian" && !release.contains('-')).then_some((uri, release))
    })
}

fn apt(verb: &str, dir: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    apt.current_dir(dir).args(["-q", verb]);
    apt
}

/// Fills a new folder beside `home`, and puts it in its place when it is whole.
fn replace(home: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fresh = home.with_extension("new");
    remove(&fresh)?;
    std::fs::create_dir_all(&fresh).with_context(|| format!("create {}", fresh.display()))?;
    fill(&fresh)?;
    remove(home)?;
    std::fs::rename(&fresh, home).with_context(|| format!("put {} in place", home.display()))
}

fn unpack(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let deb = entry?.path();
        if deb.extension().is_some_and(|extension| extension == "deb") {
            tool::ask(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(dir))?;
            std::fs::remove_file(&deb).with_context(|| format!("remove {}", deb.display()))?;
        }
    }
    Ok(())
}

fn resolve(package: &str) -> Result<String> {
    asked(package, || {
        let depends =
            tool::ask(Command::new("apt-cache").args(["depends", "--important", package]))?;
        let names = depends.lines().map(str::trim);
        let mut names = names.filter_map(|line| line.strip_prefix("Depends: "));
        let image = names.find(|name| name.starts_with("linux-image-"));
        let image = image.with_context(|| format!("{package} depends on no kernel image"))?;
        Ok(image.to_owned())
    })
}

/// Answer of apt. If apt has no lists yet, the lists are fetched once.
fn asked<T>(what: &str, ask: impl Fn() -> Result<T>) -> Result<T> {
    if let Ok(answer) = ask() {
        return Ok(answer);
    }
    tool::ask(Command::new("apt-get").args(["-q", "update"]))
        .with_context(|| format!("apt does not know {what}, and its lists cannot be renewed"))?;
    ask()
}

fn unpacked(home: &Path) -> Result<Kernel> {
    let boot = home.join("boot");
    let files = std::fs::read_dir(&boot).with_context(|| format!("list {}", boot.display()))?;
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let release = names.find_map(|name| name.strip_prefix("vmlinuz-").map(String::from));
    let release = release.with_context(|| format!("{} has no kernel", boot.display()))?;
    // Debian 13 and later unpack to usr/lib.
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|dir| home.join(dir).join(&release))
        .into_iter()
        .find(|dir| dir.is_dir())
        .with_context(|| format!("{} has no modules of {release}", home.display()))?;
    Ok(Kernel {
        image: boot.join(format!("vmlinuz-{release}")),
        release,
        modules,
    })
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_release_itself_is_found_among_apts_sources() {
        let sources = "https://other.example/apt stable Other\n\
                       http://deb.example/debian/ bookworm-updates Debian\n\
                       http://deb.example/debian/ bookworm Debian\n";
        let found = debian_in(sources);
        assert_eq!(found, Some(("http://deb.example/debian/", "bookworm")));
        assert_eq!(debian_in("http://deb.example/ubuntu/ noble Ubuntu\n"), None);
    }

    #[test]
    fn an_unpacked_kernel_is_found_and_half_of_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        std::fs::create_dir_all(at("boot")).unwrap();
        std::fs::write(at("boot/vmlinuz-6.1.0-1-cloud-amd64"), "").unwrap();
        std::fs::write(at("boot/config-6.1.0-1-cloud-amd64"), "").unwrap();
        let error = unpacked(home.path()).expect_err("no modules yet");
        assert!(error.to_string().contains("no modules"), "{error}");
        std::fs::create_dir_all(at("lib/modules/6.1.0-1-cloud-amd64")).unwrap();
        assert_eq!(
            unpacked(home.path()).unwrap().release,
            "6.1.0-1-cloud-amd64"
        );
    }
}
