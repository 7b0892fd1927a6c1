//! Messages and exit codes when a report cannot be made, or only in part.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use super::{compare, home, ran, scenarios, write};

/// A capture of its own for each test, named `cap`, in a directory of its own.
fn capture(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(scenarios::named(name), &dir.path().join("cap"));
    dir
}

/// Runs the command lines of `refused.txt`. Some have control characters, as names of files may, written as escapes.
#[test]
fn refusals_are_as_committed() {
    let mut all = String::new();
    let expected = fs::read_to_string(home().join("expected/refused.txt")).unwrap();
    for shown in expected
        .lines()
        .filter_map(|line| line.strip_prefix("$ haltwise "))
    {
        let line = shown
            .replace(r"\u{1b}", "\u{1b}")
            .replace(r"\u{7}", "\u{7}");
        let (code, out, err) = ran(&home(), &line.split(' ').collect::<Vec<_>>());
        assert!(code == 1 || out.is_empty(), "{line}: {out}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!err.contains(steers), "{err:?}");
        writeln!(all, "$ haltwise {shown}\n{out}{err}(exit code {code})\n").unwrap();
    }
    assert!(!all.is_empty(), "there are no commands");
    assert_eq!(compare("refused.txt", &all), Ok(()));
}

/// The kernel ends a process that writes beyond its limit, unless it says that it will look at errors.
#[test]
fn a_limit_on_file_size_is_an_error() {
    let dir = capture("transactional");
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
fn a_capture_of_a_newer_schema() {
    let dir = capture("transactional");
    let path = dir.path().join("cap/capture.json");
    let json = fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json["schema"] = 99.into();
    json.as_object_mut().unwrap().remove("crc32");
    fs::write(&path, json.to_string()).unwrap();
    let (code, out, err) = ran(dir.path(), &["report", "cap"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("written by a newer haltwise (schema 99"),
        "{err}"
    );
    assert!(err.contains("\nhint: "), "{err}");
}

/// Change to the bytes of a file.
type Damage = fn(&mut Vec<u8>);

/// `capture.json` as no recorder leaves it, and what is said of that.
const DAMAGED: [(Damage, &str); 6] = [
    (|bytes| bytes.truncate(bytes.len() / 2), "EOF while parsing"),
    (Vec::clear, "EOF while parsing"),
    (|bytes| bytes.fill(0), "EOF while parsing"),
    (|bytes| bytes.extend(b"junk"), "trailing characters"),
    (
        |bytes| bytes.splice(.., *b"\x7fELF junk").for_each(drop),
        "expected value",
    ),
    (
        |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replacen("\"schema\": 1", "\"schema\": 3", 1).into();
        },
        "do not match their checksum",
    ),
];

#[test]
fn a_capture_whose_description_is_damaged_beyond_reading() {
    for (harm, what) in DAMAGED {
        let dir = capture("transactional");
        let path = dir.path().join("cap/capture.json");
        let mut bytes = fs::read(&path).unwrap();
        harm(&mut bytes);
        fs::write(&path, bytes).unwrap();
        for line in [
            "report cap",
            "check cap",
            "tune cap",
            "check cap --repair new",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let (code, out, err) = ran(dir.path(), &words);
            assert_eq!((code, out.as_str()), (5, ""), "{line}: {err}");
            assert!(err.starts_with("error: read cap/capture.json: "), "{err}");
            assert!(err.contains(what) && err.contains("\nhint: "), "{err}");
        }
    }
}

#[test]
fn what_follows_a_whole_description_is_damage() {
    for more in [&[0; 3][..], &[0; 5000], b" ", b"   \0 ", b"\n\n"] {
        let dir = capture("transactional");
        let path = dir.path().join("cap/capture.json");
        let bytes = [&fs::read(&path).unwrap(), more].concat();
        fs::write(&path, bytes).unwrap();
        let (code, out, err) = ran(dir.path(), &["check", "cap", "--json"]);
        assert_eq!(code, 5, "{more:?}: {out}{err}");
        let checked: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(checked["capture_json"], "damaged", "{more:?}");
        let (code, out, _) = ran(dir.path(), &["report", "cap"]);
        assert_eq!(code, 5, "{more:?}");
        assert!(out.contains("capture.json"), "{more:?}: {out}");
    }
}

#[test]
fn a_description_cannot_steer_the_terminal_through_an_error() {
    let dir = capture("transactional");
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

/// Rows that can be read are reported beside a note on the others; without any halt there is nothing to report.
#[test]
fn a_table_that_is_cut_is_named() {
    for (name, table, kept, says) in [
        (
            "transactional",
            "halts.parquet",
            (0.5, 0),
            &["error: read table halts: cap/halts.parquet: ", "\nhint: "][..],
        ),
        (
            "transactional",
            "window_changes.parquet",
            (0.5, 0),
            &["table window_changes cannot be read", "18.8 k halts/s"],
        ),
        (
            "cut",
            "halts.arrows",
            (1.0, 100),
            &[
                "table halts has a torn tail",
                "the recording was not finished",
            ],
        ),
    ] {
        let dir = capture(name);
        let path = dir.path().join("cap").join(table);
        let bytes = fs::read(&path).unwrap();
        let (part, less) = kept;
        let length = (bytes.len() as f64 * part) as usize - less;
        fs::write(path, &bytes[..length]).unwrap();
        let (code, out, err) = ran(dir.path(), &["report", "cap"]);
        assert_eq!((code, out.is_empty()), (5, !err.is_empty()), "{table}");
        for part in says {
            assert!((out.clone() + &err).contains(part), "{table}: {out}{err}");
        }
    }
}

#[test]
fn a_vm_by_name_and_by_process_is_the_same() {
    let by = |vm| ran(&home(), &["report", "captures/fleet", "--vm", vm]);
    let (code, by_name, _) = by("db");
    assert_eq!(code, 0);
    assert!(by_name.contains("== VM db (") && !by_name.contains("== VM web-1 ("));
    assert_eq!(by("4811").1, by_name);
}

#[test]
fn a_guests_capture_has_no_price_of_its_host() {
    let (code, _, said) = ran(&home(), &["calibrate", "recorded/inside"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("of a guest's own idle CPUs"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(["report", "captures/fleet", "--json"])
        .current_dir(home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
