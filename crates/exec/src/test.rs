//! Which program is meant, over made-up directories.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A wrapper, links to it and programs.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.program("libexec/haltwise-exec");
        host
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }

    fn program(&self, below: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, below).unwrap();
        path
    }

    fn link(&self, below: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path("libexec/haltwise-exec"), &path).unwrap();
        path
    }

    fn real(&self, called: &Path) -> Option<PathBuf> {
        let ours = self.path("libexec/haltwise-exec");
        let path = env::join_paths([self.path("local"), self.path("bin")]).unwrap();
        real(called, Some(&ours), &path)
    }
}

#[test]
fn a_diverted_program_is_meant_before_one_of_the_path() {
    let host = Host::new();
    let called = host.link("local/qemu-system-x86_64");
    assert_eq!(host.real(&called), None, "only the link itself is there");
    let in_path = host.program("bin/qemu-system-x86_64");
    assert_eq!(host.real(&called), Some(in_path));
    let diverted = host.program("local/qemu-system-x86_64.distrib");
    assert_eq!(host.real(&called), Some(diverted));
}

#[test]
fn a_copy_of_this_program_is_never_meant_by_a_link() {
    let host = Host::new();
    let called = host.link("local/kvm");
    host.link("bin/kvm");
    assert_eq!(host.real(&called), None);
    assert_eq!(host.real(Path::new("")), None);
}

#[test]
fn what_is_preloaded_already_stays() {
    let joined = |others: Option<&str>| preload(OsStr::new("/a.so"), others.map(OsString::from));
    assert_eq!(joined(None), "/a.so");
    assert_eq!(joined(Some("")), "/a.so");
    assert_eq!(joined(Some("/b.so /c.so")), "/a.so:/b.so /c.so");
}
