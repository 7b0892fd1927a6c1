//! Transcripts of every verb, each in a directory of its own with the committed captures (`agree/transcript.rs` runs them).
//! Text fits a screen, commands to paste apart; JSON is laid out by [`flat`], and has the fields of its published schema.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haltwise_capture::files::Directory;
use haltwise_capture::ring::RingInfo;
use serde_json::Value;

use super::schema::conforms;
use super::{
    diff, exits, explain, fits, flat, guest_tune, home, profile, scenarios, tune, updates, verify,
    write,
};
use crate::transcript::Shell;

/// Part of a line that prints JSON, and the schema of that.
const SCHEMAS: [(&str, &str); 15] = [
    ("fleet add", "costs"),
    ("--findings", "explain"),
    ("--exits", "exits"),
    ("--profile", "profile"),
    ("--policy", "replay"),
    ("--history", "ledger"),
    ("--repair", "repair"),
    ("--capture", "now"),
    ("haltwise check", "check"),
    ("haltwise diff", "diff"),
    ("haltwise report", "report"),
    ("haltwise top", "top"),
    ("haltwise tune captures", "tune"),
    ("haltwise tune two-vms", "tune"),
    ("haltwise verify", "verify"),
];

/// Text as it is; JSON in few lines.
fn kept(line: &str, out: String) -> String {
    if let Ok(json @ Value::Object(_)) = serde_json::from_str(&out) {
        if let Some((_, schema)) = SCHEMAS.iter().find(|(part, _)| line.contains(part)) {
            conforms(schema, &json);
        }
        return flat(&json, 0) + "\n";
    }
    if !line.contains(['|', '>']) && !line.contains("--folded") {
        let is_command = |line: &&str| line.contains("haltwise ");
        let sentences: Vec<&str> = out.lines().filter(|line| !is_command(line)).collect();
        fits(line, &sentences.join("\n")).unwrap();
    }
    out
}

/// Makes what the words name, where the last of them says.
fn make(home: &Path, words: &[&str]) {
    let dir = home.join(words.last().unwrap());
    match words {
        ["guests", ceiling, gaps @ .., _] => tune::record(&dir, ceiling, gaps),
        ["disturbed", _] => tune::disturbed(&dir),
        ["capped", _] => tune::capped(&dir),
        ["diff", load, kernel, _] => diff::write(&dir, load, kernel),
        ["exits", kind, _] => exits::write(&dir, kind),
        ["profile", scenario, exits, lost, _] => {
            profile::write(&dir, scenario, *exits == "exits", *lost == "lost");
        }
        ["findings", kind, _] => explain::write(&dir, kind),
        ["guest", governor, busy, steal, _] => guest_tune::write(&dir, governor, [busy, steal]),
        ["traced", kernel, cap, times, _] => {
            fs::write(dir, verify::traced(kernel, cap, times)).unwrap();
        }
        ["ring", _] => {
            let info = RingInfo {
                first: 1,
                oldest: 1,
                ..RingInfo::default()
            };
            info.write(&Directory::open(&dir).unwrap()).unwrap();
        }
        [scenario, _] => write(scenarios::named(scenario), &dir),
        _ => panic!("{words:?}"),
    }
}

fn transcript(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["captures", "recorded", "prove", "damaged"] {
        symlink(home().join(folder), dir.path().join(folder)).unwrap();
    }
    let samples = home().join("../../../capture/tests/import/samples");
    symlink(samples, dir.path().join("samples")).unwrap();
    let shell = Shell {
        dir: dir.path(),
        before: "COST='--switch-cpu 10us --wake-latency 20us'; ESC=$(printf '\\033'); BEL=$(printf '\\007'); ",
        make,
        kept,
    };
    updates();
    let file = home().join("transcripts").join(name).with_extension("txt");
    shell.run(&file).unwrap_or_else(|wrong| panic!("{wrong}"));
}

macro_rules! transcripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            transcript(stringify!($name));
        })*

        #[test]
        fn each_is_run() {
            let files = fs::read_dir(home().join("transcripts")).unwrap();
            assert_eq!(files.count(), [$(stringify!($name)),*].len());
        }
    };
}

transcripts!(check diff errors exits findings fleet guest hostile import now piped profile prove recorded refused replay report top tune verify);
