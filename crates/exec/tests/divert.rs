//! A program that `dpkg-divert` has put aside, as docs/ceilings.md says for Proxmox VE, with a made-up package in a root
//! of its own: the link starts it, and starts the newer one once the package is upgraded.

#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.env_remove("LD_PRELOAD").output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A package whose only program says its version and what is preloaded.
fn package(dir: &Path, version: u32) -> PathBuf {
    let tree = dir.join(format!("tree{version}"));
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    let program = tree.join("usr/bin/kvm");
    let script = format!("#!/bin/sh\necho {version} $1 $LD_PRELOAD\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let control = format!(
        "Package: made-up-kvm\nVersion: {version}\nArchitecture: all\n\
         Maintainer: nobody <nobody@example.invalid>\nDescription: made up\n"
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    let file = dir.join(format!("{version}.deb"));
    let mut pack = Command::new("dpkg-deb");
    run(pack
        .args(["--root-owner-group", "-b"])
        .arg(&tree)
        .arg(&file));
    file
}

#[test]
fn a_diverted_program_is_started_and_upgraded() {
    for tool in ["dpkg", "dpkg-deb", "dpkg-divert"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: no {tool}");
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    let state = host.join("var/lib/dpkg");
    fs::create_dir_all(state.join("updates")).unwrap();
    fs::create_dir_all(state.join("info")).unwrap();
    fs::write(state.join("status"), "").unwrap();
    let root = format!("--root={}", host.display());
    let install = |version| {
        let mut dpkg = Command::new("dpkg");
        dpkg.args([&root, "--force-not-root", "--log=/dev/null", "-i"]);
        run(dpkg.arg(package(dir.path(), version)));
    };
    let divert = |act: &str| {
        let mut divert = Command::new("dpkg-divert");
        divert.args([&root, "--rename", "--divert", "/usr/bin/kvm.distrib"]);
        run(divert.args([act, "/usr/bin/kvm"]));
    };
    install(1);
    divert("--add");
    let (exec, library) = (dir.path().join("haltwise-exec"), dir.path().join("library"));
    fs::copy(env!("CARGO_BIN_EXE_haltwise-exec"), &exec).unwrap();
    let kvm = host.join("usr/bin/kvm");
    symlink(&exec, &kvm).unwrap();
    assert_eq!(run(Command::new(&kvm).arg("-x")), "1 -x");
    install(2);
    // No library: the dynamic linker says so on stderr, and starts the program all the same.
    fs::write(&library, "").unwrap();
    let mut with = Command::new(&kvm);
    let output = with.arg("-x").env("HALTWISE_PRELOAD", &library).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(said.trim(), format!("2 -x {}", library.display()));
    fs::remove_file(&kvm).unwrap();
    divert("--remove");
    assert_eq!(run(Command::new(&kvm).arg("-x")), "2 -x");
}
