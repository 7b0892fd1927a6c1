//! `make install` and `make uninstall`, into a folder that stands for a host.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_haltwise");

/// Runs the Makefile's `target` for `host`.
fn make(target: &str, host: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Path::new(PROGRAM).parent().unwrap();
    let output = Command::new("make")
        .arg("-C")
        .arg(root)
        .arg(target)
        .arg(format!("DESTDIR={}", host.display()))
        .arg("PREFIX=/usr")
        .arg(format!("BUILT={}", built.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make {target}: {said}");
}

fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let path = path.strip_prefix(root).unwrap();
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Separately built files are installed if they are built.
fn for_vmms(installed: &BTreeSet<String>) {
    for name in ["haltwise-exec", "libhaltwise_preload.so"] {
        let is_built = Path::new(PROGRAM).with_file_name(name).exists();
        let file = format!("usr/lib/haltwise/{name}");
        assert_eq!(installed.contains(&file), is_built, "{file}");
    }
}

fn modes(host: &Path, installed: &BTreeSet<String>, theirs: &str) {
    for file in installed {
        let mode = fs::metadata(host.join(file)).unwrap();
        let mode = mode.permissions().mode() & 0o777;
        let is_program = file.starts_with("usr/bin/") || file.starts_with("usr/lib/haltwise/");
        let expected = if is_program { 0o755 } else { 0o644 };
        assert!(
            file == theirs || mode == expected,
            "{file} has mode {mode:o}"
        );
    }
}

/// The exposure of a unit by systemd's measure is at most half of the exposure of a service with all rights.
fn exposed(unit: &Path) {
    let seen = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--threshold=50"])
        .arg(unit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[seen.stdout, seen.stderr].concat()).into_owned();
    if said.contains("unrecognized option") {
        println!("skipped: this systemd-analyze looks at no unit that is not loaded");
        return;
    }
    assert!(seen.status.success(), "{said}");
}

/// The units run what is installed. That they start so, with the rights that they are given, is held by
/// `xtask/src/kernels/units.rs`.
fn units(host: &Path) {
    for name in ["record", "costs", "metrics", "pilot"] {
        let path = host.join(format!("usr/lib/systemd/system/haltwise-{name}.service"));
        let unit = fs::read_to_string(&path).unwrap();
        assert!(unit.contains("\nExecStart=/usr/bin/haltwise "), "{unit}");
        if name == "pilot" && has("systemd-analyze") {
            exposed(&path);
        }
    }
}

#[test]
fn what_is_installed_runs_and_goes_without_a_trace() {
    for program in ["make", "strip"] {
        if !has(program) {
            println!("skipped: without {program} nothing can be installed");
            return;
        }
    }
    let host = tempfile::tempdir().unwrap();
    let theirs = "usr/share/man/man1/haltwise-of-others.1";
    fs::create_dir_all(host.path().join(theirs).parent().unwrap()).unwrap();
    fs::write(host.path().join(theirs), "").unwrap();

    make("install", host.path());
    let installed = files(host.path());
    for file in [
        "usr/bin/haltwise",
        "usr/share/man/man1/haltwise.1",
        "usr/share/man/man1/haltwise-record.1",
        "usr/share/bash-completion/completions/haltwise",
        "usr/share/fish/vendor_completions.d/haltwise.fish",
        "usr/share/zsh/site-functions/_haltwise",
        "usr/lib/systemd/system/haltwise-record.service",
        "usr/lib/systemd/system/haltwise-metrics.service",
        "usr/lib/systemd/system/haltwise-pilot.service",
        "usr/share/haltwise/pilot.toml",
        "usr/lib/systemd/system/haltwise-costs.service",
        "usr/lib/systemd/system/haltwise-costs.timer",
        "usr/share/haltwise/haltwise.rules.yml",
        "usr/share/haltwise/haltwise.json",
        "usr/share/doc/haltwise/docs/tuning.md",
        "usr/share/doc/haltwise/docs/page.png",
        "usr/share/doc/haltwise/LICENSE-MIT",
        "usr/share/doc/haltwise/LICENSE-APACHE",
    ] {
        assert!(installed.contains(file), "{file} of {installed:#?}");
    }
    for_vmms(&installed);
    modes(host.path(), &installed, theirs);
    let program = host.path().join("usr/bin/haltwise");
    let built = fs::metadata(PROGRAM).unwrap().len();
    let stripped = fs::metadata(&program).unwrap().len();
    assert!(stripped < built, "{stripped} bytes of {built}");
    let version = Command::new(&program).arg("--version").output().unwrap();
    assert!(version.status.success());
    assert!(version.stdout.starts_with(b"haltwise "), "{version:?}");

    units(host.path());

    make("uninstall", host.path());
    assert_eq!(files(host.path()), BTreeSet::from([theirs.to_owned()]));
    assert!(!host.path().join("usr/share/doc/haltwise").exists());
}
