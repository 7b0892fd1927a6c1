//! Messages and exit codes when a report cannot be made, or only in part.

use std::fs;
use std::process::Command;

use super::{ran, scenarios, write};

/// A capture named `cap` in a directory of its own.
fn capture() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(scenarios::named("transactional"), &dir.path().join("cap"));
    dir
}

/// The kernel ends a process that writes beyond its limit, unless it says that it will look at errors.
#[test]
fn a_limit_on_file_size_is_an_error() {
    let dir = capture();
    let script = "ulimit -f 1; exec \"$0\" report cap --html page.html";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_haltwise")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert!(!dir.path().join("page.html").exists());
}

#[test]
fn a_description_cannot_steer_the_terminal_through_an_error() {
    let dir = capture();
    let path = dir.path().join("cap/capture.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut info: serde_json::Value = serde_json::from_str(&text).unwrap();
    info["mode"] = "\u{1b}[2J\u{9b}31m\nhint: run this".into();
    fs::write(&path, info.to_string()).unwrap();
    let (code, _, err) = ran(dir.path(), &["report", "cap"]);
    assert_eq!(code, 5);
    let steers = |c: char| c.is_control() && c != '\n';
    assert!(!err.contains(steers), "{err:?}");
    assert!(!err.contains("\nhint: run this"), "{err:?}");
}
