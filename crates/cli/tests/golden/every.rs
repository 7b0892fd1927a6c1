//! Every reading verb on every capture: what must hold whatever a text says. Exit codes and last lines
//! are one committed table; the words, the width and the order of bytes are laws.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::words::found;
use super::{compare, fits, home, ran, scenarios};

/// A verb with its options, and how it is named in the table.
const VERBS: [(&str, &[&str]); 9] = [
    ("report", &[]),
    ("report", &["--vcpus"]),
    ("report", &["--exits"]),
    ("report", &["--profile"]),
    ("report", &["--findings"]),
    ("tune", &[]),
    ("tune", &["--policy", "off"]),
    ("verify", &[]),
    ("top", &["--once"]),
];

/// Commands are for pasting and errors for searching: they stay on their line.
fn wrapped(text: &str) -> String {
    let whole = |line: &&str| {
        ["haltwise ", "error: ", "hint: "]
            .iter()
            .any(|it| line.trim_start().starts_with(it))
    };
    let lines: Vec<&str> = text.lines().filter(|line| !whole(line)).collect();
    lines.join("\n")
}

fn forbidden(text: &str) -> Vec<&'static str> {
    found(text).into_iter().map(|(word, _)| word).collect()
}

/// Output of a verb on stdout, or on stderr if the verb refuses, and its exit code.
fn said(arguments: &[&str]) -> (String, i32) {
    let (code, out, err) = ran(&home(), arguments);
    (out + &err, code)
}

#[test]
fn every_verb_ends_as_committed_on_every_capture_and_in_plain_words() {
    let (mut table, mut wrong) = (String::new(), String::new());
    for scenario in scenarios::all() {
        let capture = format!("captures/{}", scenario.name);
        for (verb, options) in VERBS {
            let (text, code) = said(&[&[verb, &capture], options].concat());
            let asked = [&[verb], options, &[scenario.name]].concat().join(" ");
            wrong.extend(fits(&asked, &wrapped(&text)).err());
            for word in forbidden(&text) {
                writeln!(wrong, "{asked}: {word}").unwrap();
            }
            let last = text.trim_end().lines().last().unwrap_or_default();
            writeln!(table, "{asked}: {code}: {}", last.trim()).unwrap();
        }
    }
    wrong.extend(compare("every.txt", &table).err());
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// A narrow screen is enough, and a report uses all of a wide one.
#[test]
fn every_text_keeps_to_its_width() {
    const DIFF: (&str, &[&str]) = ("diff", &["captures/lossy", "--rows", "all"]);
    for width in [60, 132] {
        let columns = width.to_string();
        for name in ["fleet", "hostile-names", "over-committed", "transactional"] {
            let capture = format!("captures/{name}");
            for (verb, options) in VERBS.into_iter().chain([DIFF]) {
                let words = [&[verb, &capture], options, &["--width", &columns]].concat();
                let text = wrapped(&said(&words).0);
                let widest = text.lines().map(UnicodeWidthStr::width).max();
                assert!(widest <= Some(width), "{words:?}: {text}");
                let is_used = widest == Some(width) || options != ["--vcpus"];
                assert!(is_used, "{words:?}: {text}");
            }
        }
    }
}
