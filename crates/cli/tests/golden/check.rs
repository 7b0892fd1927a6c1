//! `check` and `repair` on captures that are whole, cut and damaged.
//!
//! `damaged` was written once by a haltwise that makes checksums, and one bit of it flipped: it stays as it is, so that
//! its bytes are the same for ever.

use std::fs;
use std::path::Path;

use super::{compare, fits, flat, haltwise, home, ran, scenarios, schema, updates, write};

/// Text or JSON, with the exit code as the last line.
fn said(dir: &Path, arguments: &[&str]) -> String {
    let (text, code) = haltwise(dir, arguments);
    let text = match serde_json::from_str(&text) {
        Ok(json) => flat(&json, 0) + "\n",
        Err(_) => text,
    };
    format!("{text}(exit code {})\n", code.unwrap())
}

fn make_damaged() {
    let dir = home().join("damaged");
    if updates() && !dir.exists() {
        write(scenarios::named("lossy"), &dir);
        let path = dir.join("halts.parquet");
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 16;
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn checks_and_repairs_are_as_committed() {
    make_damaged();
    let mut wrong = String::new();
    let new = tempfile::tempdir().unwrap();
    let new = new.path().join("new");
    for (name, capture) in [
        ("transactional", "captures/transactional"),
        ("cut", "captures/cut"),
        ("damaged", "damaged"),
    ] {
        for json in [false, true] {
            let mut arguments = vec!["check", capture];
            arguments.extend(json.then_some("--json"));
            let text = said(&home(), &arguments);
            let form = if json { "json" } else { "txt" };
            let file = format!("check/{name}.{form}");
            if !json || name == "damaged" {
                wrong.extend(compare(&file, &text).err());
            }
            if !json {
                wrong.extend(fits(&file, &text).err());
            }
        }
        let output = new.to_str().unwrap();
        let text = said(&home(), &["check", capture, "--repair", output]);
        // The line is as long as the screen, whatever the directory is called.
        let text = text.replace(output, "NEW");
        let (head, rest) = text.split_once('\n').unwrap();
        let text = format!("== {}\n{rest}", head.trim_matches([' ', '=']));
        wrong.extend(compare(&format!("check/{name}-repaired.txt"), &text).err());
        let (_, code) = haltwise(&home(), &["check", output]);
        assert_eq!(code, Some(0), "{name}");
        fs::remove_dir_all(&new).unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_reading_verb_reports_the_damage() {
    for verb in [
        "report",
        "verify",
        "tune --policy usual",
        "tune",
        "report --findings",
    ] {
        let words: Vec<&str> = verb.split(' ').chain(["damaged"]).collect();
        let (code, out, err) = ran(&home(), &words);
        let text = out + &err;
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(code, 5, "{verb}: {text}");
        let words = words.join(" ");
        assert!(
            words.contains("do not match their checksum"),
            "{verb}: {text}"
        );
    }
}

#[test]
fn a_cut_capture_is_finished_in_place_if_nothing_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    write(scenarios::named("cut"), &dir.path().join("cap"));
    let (_, code) = haltwise(dir.path(), &["check", "cap"]);
    assert_eq!(code, Some(5));
    let (text, code) = haltwise(dir.path(), &["check", "cap", "--finish"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("cap: finished"), "{text}");
    let (_, code) = haltwise(dir.path(), &["check", "cap"]);
    assert_eq!(code, Some(0));
    let again = |capture: &Path| {
        let repair = ["check", capture.to_str().unwrap(), "--finish"];
        let (code, _, said) = ran(&home(), &repair);
        (Some(code), said)
    };
    let (code, said) = again(&dir.path().join("cap"));
    assert!(
        code == Some(1) && said.contains("nothing to repair"),
        "{said}"
    );
    let (code, said) = again(&home().join("damaged"));
    assert!(
        code == Some(1) && said.contains("name a new directory"),
        "{said}"
    );
}

#[test]
fn the_json_is_as_published() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let repair = [
        "check",
        "damaged",
        "--json",
        "--repair",
        new.to_str().unwrap(),
    ];
    for (name, arguments) in [("check", &repair[..3]), ("repair", &repair)] {
        let (text, _) = haltwise(&home(), arguments);
        schema::conforms(name, &serde_json::from_str(&text).unwrap());
    }
}
