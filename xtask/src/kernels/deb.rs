//! Debian's stock cloud kernels: resolved, downloaded and unpacked by Debian's own tools.
//!
//! An unpacked kernel stays in the build directory and is used again without asking the network.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{say, tool};

/// A kernel that we test on, by the package that always points to its newest build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Series {
    /// What people call it: `6.1`.
    pub(crate) name: &'static str,
    /// Debian's package without a build number.
    package: &'static str,
}

/// All kernels that we test on, oldest first.
pub(crate) const SERIES: [Series; 2] = [
    Series {
        name: "6.1",
        package: "linux-image-cloud-amd64",
    },
    Series {
        name: "6.12",
        package: "linux-image-6.12-cloud-amd64",
    },
];

/// An unpacked kernel package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Its release, as `uname -r` says inside: `6.1.0-56-cloud-amd64`.
    pub(crate) release: String,
    /// The image that QEMU loads.
    pub(crate) image: PathBuf,
    /// The folder of its modules.
    pub(crate) modules: PathBuf,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.release)
    }
}

/// The kernel of a series, from `cache` if it is there, else through apt.
///
/// # Errors
/// Where apt does not know the package or cannot download it. For callers that is a reason to skip.
pub(crate) fn fetch(series: Series, cache: &Path, refresh: bool) -> Result<Kernel> {
    let home = cache.join(series.name);
    if !refresh && let Ok(kernel) = unpacked(&home) {
        return Ok(kernel);
    }
    let package = resolve(series.package)?;
    say::note(&format!("fetching {package}"));
    let fresh = cache.join(format!("{}.new", series.name));
    remove(&fresh)?;
    std::fs::create_dir_all(&fresh).with_context(|| format!("create {}", fresh.display()))?;
    tool::ask(
        Command::new("apt-get")
            .current_dir(&fresh)
            .args(["-q", "download", &package]),
    )?;
    let deb = only_file(&fresh, ".deb")?;
    tool::ask(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&fresh))?;
    std::fs::remove_file(&deb).with_context(|| format!("remove {}", deb.display()))?;
    unpacked(&fresh)?;
    remove(&home)?;
    std::fs::rename(&fresh, &home).with_context(|| format!("put {} in place", home.display()))?;
    unpacked(&home)
}

/// What the general package points to. Where apt has no lists yet, they are fetched once.
fn resolve(package: &str) -> Result<String> {
    let ask = || tool::ask(Command::new("apt-cache").args(["depends", "--important", package]));
    if let Some(image) = ask().ok().as_deref().and_then(image_of) {
        return Ok(image);
    }
    tool::ask(Command::new("apt-get").args(["-q", "update"]))
        .with_context(|| format!("apt does not know {package}, and its lists cannot be renewed"))?;
    let depends = ask()?;
    image_of(&depends).with_context(|| format!("{package} depends on no kernel image"))
}

/// The first kernel image that the output of `apt-cache depends` names.
fn image_of(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(String::from)
}

/// The kernel that lies unpacked in a folder.
fn unpacked(home: &Path) -> Result<Kernel> {
    let image = only_file(&home.join("boot"), "")?;
    let name = image
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let release = name
        .strip_prefix("vmlinuz-")
        .with_context(|| format!("{name} is no kernel"))?
        .to_string();
    // Debian 13 and later unpack to usr/lib.
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|dir| home.join(dir).join(&release))
        .into_iter()
        .find(|dir| dir.is_dir())
        .with_context(|| format!("{} has no modules of {release}", home.display()))?;
    Ok(Kernel {
        release,
        image,
        modules,
    })
}

/// The one file of a folder with this suffix; kernels' configuration and symbol tables aside.
fn only_file(dir: &Path, suffix: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let beside = name.starts_with("config-") || name.starts_with("System.map-");
        if path.is_file() && name.ends_with(suffix) && !beside {
            found.push(path);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        n => bail!(
            "{} holds {n} files *{suffix} where 1 was expected",
            dir.display()
        ),
    }
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
    fn the_general_package_names_an_image() {
        let depends = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(
            image_of(depends).as_deref(),
            Some("linux-image-6.1.0-56-cloud-amd64")
        );
        assert_eq!(image_of("linux-doc\n  Depends: linux-doc-6.1\n"), None);
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
