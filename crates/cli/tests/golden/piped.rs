//! Captures that come through a pipe: packed by tar, read from stdin by every verb.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::home;

/// Runs haltwise in a directory with something on its stdin, where temporary files go to `temporary`; gives the exit
/// code, stdout and stderr.
pub(super) fn fed(
    dir: &Path,
    arguments: &[&str],
    stdin: &[u8],
    temporary: &Path,
) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(arguments)
        .current_dir(dir)
        .env("TMPDIR", temporary)
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may refuse its command line, or an archive, without reading to the end.
    drop(child.stdin.take().unwrap().write_all(stdin));
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

fn packed(name: &str) -> Vec<u8> {
    let packed = Command::new("tar")
        .args(["-C", "captures", "-cf", "-", name])
        .current_dir(home())
        .output()
        .unwrap();
    assert!(packed.status.success());
    packed.stdout
}

#[test]
fn every_verb_says_of_an_archive_what_it_says_of_the_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let archive = packed("fleet");
    for verb in [
        &["report", "--json"][..],
        &["report", "--findings", "--json"],
        &["tune", "--json"],
        &["tune", "--policy", "off", "--json"],
        &["verify", "--json"],
        &["top", "--once"],
        &["check"],
    ] {
        let (code, stdout, stderr) = fed(
            &home(),
            &[verb, &["-"]].concat(),
            &archive,
            temporary.path(),
        );
        let of_directory = [verb, &["captures/fleet"]].concat();
        let expected = super::haltwise(&home(), &of_directory);
        // The name of the capture, and headings as wide as that makes them.
        let named = |text: &str| {
            let text = text.replace("captures/fleet", "-");
            text.replace("\"fleet\"", "\"-\"").replace('=', "")
        };
        assert_eq!((Some(code), stderr.as_str()), (expected.1, ""), "{verb:?}");
        assert_eq!(named(&stdout), named(&expected.0), "{verb:?}");
    }
    let left = fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "nothing of it stays");
}

#[test]
fn what_is_no_archive_of_a_capture_is_refused_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let whole = packed("fleet");
    for (archive, says) in [
        (&b""[..], "the archive is empty"),
        (&b"halts"[..], "the archive cannot be read"),
        (&whole[..whole.len() / 2], "the archive cannot be read"),
    ] {
        let (code, stdout, stderr) = fed(&home(), &["report", "-"], archive, temporary.path());
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(
            stderr.contains("error: read a capture from stdin: "),
            "{stderr}"
        );
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }
}
