//! The guest's root file system: a folder that busybox packs into an archive of the kernel's `newc` form.
//!
//! Nothing of the machine is changed and no root is needed: every file belongs to root inside.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::deb::Kernel;
use crate::tool;

#[derive(Debug)]
pub(crate) struct Initramfs(TempDir);

impl Initramfs {
    /// A root file system that has busybox and an init.
    pub(crate) fn new(init: &str) -> Result<Self> {
        let busybox = tool::find("busybox").context("busybox is not installed")?;
        let root = Self(tempfile::tempdir().context("create a folder for an initramfs")?);
        root.program("bin/busybox", &busybox)?;
        root.file("init", init)?;
        Ok(root)
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        let place = self.0.path().join(path.trim_start_matches('/'));
        let above = place.parent().context("a file lies in a folder")?;
        fs::create_dir_all(above).with_context(|| format!("create {}", above.display()))?;
        Ok(place)
    }

    /// Adds a file, which every user may execute, and the folders above it.
    pub(crate) fn file(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let place = self.place(path)?;
        fs::write(&place, bytes)
            .and_then(|()| fs::set_permissions(&place, Permissions::from_mode(0o755)))
            .with_context(|| format!("write {}", place.display()))
    }

    /// Adds a program of this machine together with the shared libraries that it asks for, each
    /// at the place where the program looks for it; or any other file.
    pub(crate) fn program(&self, path: &str, source: &Path) -> Result<()> {
        let bytes = fs::read(source).with_context(|| format!("read {}", source.display()))?;
        self.file(path, &bytes)?;
        if !bytes.starts_with(b"\x7fELF") {
            return Ok(());
        }
        // Debug information would fill the guest's memory. Without `strip` the program stays as it is.
        let _ = tool::ask(Command::new("strip").arg("-S").arg(self.place(path)?));
        // A static program makes ldd fail; then there is nothing to add.
        let libraries = tool::ask(Command::new("ldd").arg(source)).unwrap_or_default();
        for library in libraries.lines().filter_map(library) {
            if !self.place(library)?.exists() {
                let bytes = fs::read(library).with_context(|| format!("read {library}"))?;
                self.file(library, bytes)?;
            }
        }
        Ok(())
    }

    /// Adds modules of a kernel, with all that they depend on, and the order in which to load them. A module that the kernel
    /// has built in, or does not have, is left out: the guest sees what is there.
    pub(crate) fn modules(&self, kernel: &Kernel, names: &[&str]) -> Result<()> {
        let dependencies = kernel.dependencies()?;
        let mut order: Vec<&str> = Vec::new();
        for name in names {
            for file in load_order(&dependencies, name) {
                if !order.contains(&file) {
                    order.push(file);
                }
            }
        }
        let mut listed = String::new();
        for file in order {
            let name = module_name(file);
            let to = self.place(&format!("lib/modules/{name}.ko"))?;
            let to = File::create(&to).with_context(|| format!("create {}", to.display()))?;
            // Debian compresses modules from 6.12 on; what is not compressed is copied.
            let mut xz = Command::new("xz");
            xz.arg("-dcf").arg(kernel.modules.join(file));
            tool::ask(xz.stdout(to))?;
            listed.push_str(&name);
            listed.push('\n');
        }
        self.file("lib/modules/order", listed)
    }

    pub(crate) fn archive(&self, to: &Path) -> Result<()> {
        let to = File::create(to).with_context(|| format!("create {}", to.display()))?;
        let pack = "set -o pipefail; find . | busybox cpio -o -H newc -R 0:0";
        let mut busybox = Command::new("busybox");
        busybox.args(["sh", "-c", pack]).current_dir(self.0.path());
        tool::ask(busybox.stdout(to)).map(drop)
    }

    pub(crate) fn nested(&self, path: &str, other: &Self) -> Result<()> {
        other.archive(&self.place(path)?)
    }
}

/// The file that a line of `ldd` names: libraries with `=>`, the loader without.
fn library(line: &str) -> Option<&str> {
    let line = line.split_once("=>").map_or(line, |(_, path)| path);
    let path = line.split_whitespace().next()?;
    path.starts_with('/').then_some(path)
}

/// A module and all that it depends on, dependencies first, by the lines of a `modules.dep`.
fn load_order<'a>(dependencies: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = dependencies.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(file, _)| module_name(file) == name);
    found.map_or_else(Vec::new, |(file, needed)| {
        needed.split_whitespace().rev().chain([file]).collect()
    })
}

/// File names have `-` where the kernel has `_`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split_once(".ko").map_or(name, |(stem, _)| stem);
    stem.replace('-', "_")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn dependencies_come_first() {
        let listed =
            "arch/kvm-amd.ko.xz: arch/kvm.ko.xz lib/irqbypass.ko.xz\nlib/irqbypass.ko.xz:\n";
        let order = [
            "lib/irqbypass.ko.xz",
            "arch/kvm.ko.xz",
            "arch/kvm-amd.ko.xz",
        ];
        assert_eq!(load_order(listed, "kvm_amd"), order);
        assert_eq!(load_order(listed, "built_in"), [""; 0]);
    }
}
