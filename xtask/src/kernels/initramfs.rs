//! The guest's root file system: an archive in the kernel's `newc` form, built in memory.
//!
//! Nothing of the machine is changed and no root is needed: every file belongs to root inside.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::deb::Kernel;
use super::modules;
use crate::tool;

/// A tree of files, by path without a leading slash.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;

impl Initramfs {
    pub(crate) fn dir(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            self.entries
                .entry(path[..end].to_string())
                .or_insert((DIRECTORY, Vec::new()));
        }
        self.entries
            .entry(path.to_string())
            .or_insert((DIRECTORY, Vec::new()));
    }

    /// Adds a file, which everybody may execute, and the folders above it.
    pub(crate) fn file(&mut self, path: &str, bytes: Vec<u8>) {
        let path = path.trim_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.dir(above);
        }
        self.entries.insert(path.to_string(), (EXECUTABLE, bytes));
    }

    /// Adds a program of this machine together with the shared libraries that it asks for, each
    /// at the place where the program looks for it.
    pub(crate) fn program(&mut self, path: &str, source: &Path) -> Result<()> {
        self.file(path, stripped(source)?);
        // A static program makes ldd fail; then there is nothing to add.
        let Ok(text) = tool::ask(Command::new("ldd").arg(source)) else {
            return Ok(());
        };
        for library in libraries(&text) {
            if !self.entries.contains_key(library.trim_matches('/')) {
                let bytes = std::fs::read(&library).with_context(|| format!("read {library}"))?;
                self.file(&library, bytes);
            }
        }
        Ok(())
    }

    /// Adds modules of a kernel, with all that they depend on, and the order in which to load them.
    pub(crate) fn modules(&mut self, kernel: &Kernel, names: &[&str]) -> Result<()> {
        let mut order = String::new();
        for module in modules::closure(kernel, names)? {
            order.push_str(&module.name);
            order.push('\n');
            self.file(&format!("lib/modules/{}.ko", module.name), module.elf);
        }
        self.file("lib/modules/order", order.into_bytes());
        Ok(())
    }

    /// The archive as the kernel reads it.
    pub(crate) fn archive(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for (inode, (name, (mode, bytes))) in (1..).zip(&self.entries) {
            write_entry(&mut out, inode, name, *mode, bytes)?;
        }
        write_entry(&mut out, 0, "TRAILER!!!", 0, &[])?;
        Ok(out)
    }
}

/// One entry: a header of hexadecimal fields, the name, the bytes; each padded to four.
/// The form is described in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.
fn write_entry(out: &mut Vec<u8>, inode: u32, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let size = u32::try_from(bytes.len()).with_context(|| format!("{name} is too large"))?;
    let name_size = u32::try_from(name.len() + 1).context("a name is too long")?;
    let links = if mode == DIRECTORY { 2 } else { 1 };
    out.extend_from_slice(b"070701");
    // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), name size, check
    for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(bytes);
    pad(out);
    Ok(())
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// A program's bytes without debug information, which would fill the guest's memory. Where there
/// is no `strip`, the program goes as it is.
fn stripped(source: &Path) -> Result<Vec<u8>> {
    let whole = std::fs::read(source).with_context(|| format!("read {}", source.display()))?;
    if !whole.starts_with(b"\x7fELF") {
        return Ok(whole);
    }
    // strip seeks in its output, so it needs a file.
    let name = source
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let lean = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
    let done = tool::ask(
        Command::new("strip")
            .arg("-S")
            .arg("-o")
            .arg(&lean)
            .arg(source),
    );
    let bytes = done.ok().and_then(|_| std::fs::read(&lean).ok());
    // Where strip failed there may be nothing to remove.
    let _ = std::fs::remove_file(&lean);
    Ok(bytes.unwrap_or(whole))
}

/// The files that `ldd` names: libraries with `=>`, the loader without.
fn libraries(ldd: &str) -> Vec<String> {
    ldd.lines()
        .filter_map(|line| {
            let line = line.split_once("=>").map_or(line, |(_, path)| path).trim();
            let path = line.split_whitespace().next()?;
            path.starts_with('/').then(|| path.to_string())
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(text),
            [
                "/lib/x86_64-linux-gnu/libelf.so.1",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }

    #[test]
    fn an_entry_has_the_form_of_newc() {
        let mut tree = Initramfs::default();
        tree.file("/a/b", b"hello".to_vec());
        let archive = tree.archive().unwrap();
        assert_eq!(archive.len() % 4, 0);
        let text = String::from_utf8_lossy(&archive);
        // Folder first, then the file with its mode and its size of 5, then the trailer.
        let file = text
            .find("070701000000020000")
            .expect("second entry is inode 2");
        assert!(text.find("070701000000010000").unwrap() < file);
        assert_eq!(&text[file + 14..file + 22], "000081ed");
        assert_eq!(&text[file + 54..file + 62], "00000005");
        assert_eq!(&text[file + 110..file + 114], "a/b\0");
        assert!(text.contains("hello\0\0\0") && text.contains("TRAILER!!!"));
    }

    #[test]
    fn a_shell_script_is_not_stripped() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("x");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(stripped(&script).unwrap(), b"#!/bin/sh\n");
    }
}
