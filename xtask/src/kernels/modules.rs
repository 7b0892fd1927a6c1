//! Which modules a guest needs, in the order in which they must be loaded.
//!
//! A package that was only unpacked has no `modules.dep`; each module says itself on which others
//! it depends, so that is where we read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::deb::Kernel;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// Its ELF file, not compressed.
    pub(crate) elf: Vec<u8>,
}

/// The wanted modules and all that they depend on, dependencies first. A wanted module that the
/// kernel has built in, or does not have, is left out: the guest sees what is there.
pub(crate) fn closure(kernel: &Kernel, wanted: &[&str]) -> Result<Vec<Module>> {
    let mut index = BTreeMap::new();
    index_dir(&kernel.modules, &mut index)?;
    let mut loaded = Vec::new();
    for name in wanted {
        add(&canonical(name), &index, &mut loaded, 0)?;
    }
    Ok(loaded)
}

fn add(
    name: &str,
    index: &BTreeMap<String, PathBuf>,
    loaded: &mut Vec<Module>,
    depth: usize,
) -> Result<()> {
    if depth > 16 {
        bail!("module {name} depends on itself");
    }
    let Some(path) = index.get(name) else {
        return Ok(());
    };
    if loaded.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let elf = read(path)?;
    for needed in depends(&elf) {
        add(&needed, index, loaded, depth + 1)?;
    }
    loaded.push(Module {
        name: name.to_string(),
        elf,
    });
    Ok(())
}

fn index_dir(dir: &Path, index: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            index_dir(&path, index)?;
            continue;
        }
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if let Some((name, "" | ".xz" | ".zst" | ".gz")) = file.split_once(".ko") {
            index.insert(canonical(name), path);
        }
    }
    Ok(())
}

/// File names write `-` where the kernel says `_`; both mean the same module.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// A module's ELF file. Debian compresses modules with xz from 6.12 on.
fn read(path: &Path) -> Result<Vec<u8>> {
    let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return std::fs::read(path).with_context(|| format!("read {}", path.display())),
    };
    let output = Command::new(unpacker)
        .arg("-dc")
        .arg(path)
        .output()
        .with_context(|| format!("start {unpacker} for {}", path.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{unpacker} cannot unpack {}: {}",
            path.display(),
            stderr.trim()
        );
    }
    Ok(output.stdout)
}

/// What a module's `.modinfo` says that it depends on.
fn depends(elf: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = elf.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let list = elf[start + KEY.len()..]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    String::from_utf8_lossy(list)
        .split(',')
        .filter(|name| !name.is_empty())
        .map(canonical)
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn kernel_with(modules: &[(&str, &[u8])]) -> (tempfile::TempDir, Kernel) {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("kernel/drivers");
        std::fs::create_dir_all(&dir).unwrap();
        for (name, elf) in modules {
            std::fs::write(dir.join(name), elf).unwrap();
        }
        let modules = home.path().to_path_buf();
        (
            home,
            Kernel {
                release: "1".into(),
                image: PathBuf::new(),
                modules,
            },
        )
    }

    fn names(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|module| module.name.as_str()).collect()
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let (_home, kernel) = kernel_with(&[
            (
                "kvm-amd.ko",
                b"\x7fELF\0license=GPL\0depends=kvm,ccp\0name=kvm_amd\0",
            ),
            ("kvm.ko", b"\x7fELF\0depends=irqbypass\0"),
            ("irqbypass.ko", b"\x7fELF\0depends=\0"),
            ("ccp.ko", b"\x7fELF no such key"),
        ]);
        let modules = closure(&kernel, &["kvm_amd", "kvm", "built-in"]).unwrap();
        assert_eq!(names(&modules), ["irqbypass", "kvm", "ccp", "kvm_amd"]);
    }

    #[test]
    fn a_circle_is_an_error() {
        let (_home, kernel) =
            kernel_with(&[("a.ko", b"\0depends=b\0"), ("b.ko", b"\0depends=a\0")]);
        let error = closure(&kernel, &["a"]).expect_err("a circle");
        assert!(error.to_string().contains("depends on itself"), "{error}");
    }

    #[test]
    fn a_torn_archive_is_an_error() {
        let (_home, kernel) = kernel_with(&[("a.ko.gz", b"not gzip")]);
        let error = closure(&kernel, &["a"]).expect_err("no gzip");
        assert!(error.to_string().contains("cannot unpack"), "{error}");
    }
}
