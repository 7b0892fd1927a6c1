//! Words that no text of ours has: each has a common technical word in its place.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::home;

/// A word or phrase, and what stands for it. Words are whole: `tell` is not found in `satellite`.
const WORDS: &[(&str, &str)] = &[
    ("rung", "source"),
    ("the dearest", "most expensive"),
    ("foresaw", "predicted"),
    ("take back", "restore, revert"),
    ("by chance", "statistically significant"),
    (
        "against the kernel's own rule",
        "against KVM's halt polling algorithm",
    ),
    ("rule has it", "matches KVM's algorithm"),
    ("judging", "validation, evaluating"),
    ("made all the same", "still printed"),
    ("may be given again", "may be repeated"),
    ("nobody", "no user, no process, none"),
    ("somebody", "a user, a process, externally"),
    ("stranger", "another user, untrusted"),
    ("by whom", "source unknown"),
    ("in silence", "without a trace event"),
    ("so often each second", "sampling frequency"),
    ("what came of it", "result"),
    ("what this rests on", "basis"),
    ("what it buys", "wake-up latency"),
    ("x best", "x oracle"),
    ("in vain", "failed"),
    ("cut for another task", "preempted"),
    ("turned back", "woken before schedule()"),
    ("tell", "report, show, distinguish; not recorded"),
    ("tells", "reports, shows, distinguishes; not recorded"),
    ("told", "reported, specified; distinguished"),
    ("binds", "applies to"),
    ("clairvoyant", "oracle (lower bound)"),
    ("seek", "search, find"),
    ("awake", "in C0, running"),
    ("anew", "again"),
    ("meanwhile", "during"),
    ("beforehand", "in advance"),
    ("of late", "recently"),
    ("witness", "cross-check"),
    ("as much than", "as much as"),
    ("no vm that was found", "unknown VM"),
];

/// Where a word of the list is a name: a policy, a value of a field, a field.
const NAMES: &[&str] = &[", leader, clairvoyant]"];

#[test]
fn what_is_printed_has_none_of_the_words_with_a_plainer_one() {
    let mut texts = Vec::new();
    files(&home().join("expected"), "txt", &mut texts);
    assert!(texts.len() > 40, "{}", texts.len());
    check(&texts, str::to_owned);
    let mut transcripts = Vec::new();
    files(&home().join("transcripts"), "txt", &mut transcripts);
    assert!(transcripts.len() > 15, "{}", transcripts.len());
    check(&transcripts, without_json);
}

/// Names of JSON stay.
fn without_json(text: &str) -> String {
    let prose = text.lines();
    let prose = prose.filter(|line| !line.trim_start().starts_with(['"', '{']));
    prose.collect::<Vec<_>>().join("\n")
}

#[test]
fn documentation_has_none_of_the_words_with_a_plainer_one() {
    let root = home().join("../../../..");
    let mut pages = vec![root.join("README.md")];
    files(&root.join("docs"), "md", &mut pages);
    assert!(pages.len() > 10, "{}", pages.len());
    // Made from a kept run of the lab, with its words.
    pages.retain(|page| !page.ends_with("experiments.md"));
    check(&pages, without_code);
}

/// All files below a directory whose names end so.
fn files(dir: &Path, ends: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ends, into);
        } else if path.extension().is_some_and(|it| it == ends) {
            into.push(path);
        }
    }
}

fn without_code(page: &str) -> String {
    page.split('`').step_by(2).collect()
}

fn check(files: &[PathBuf], prose: fn(&str) -> String) {
    let mut wrong = String::new();
    for path in files {
        let mut text = prose(&fs::read_to_string(path).unwrap());
        for name in NAMES {
            text = text.replace(name, "");
        }
        for (word, better) in found(&text) {
            writeln!(wrong, "{}: {word}; better: {better}", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The words of the list that a text has, whatever its case and line breaks.
pub(super) fn found(text: &str) -> Vec<(&'static str, &'static str)> {
    let apart = |c: char| !c.is_alphanumeric() && c != '\'' && c != '_' && c != '-';
    let words: Vec<String> = text.split(apart).map(str::to_lowercase).collect();
    let plain = words.iter().filter(|word| !word.is_empty());
    let plain: Vec<&str> = plain.map(String::as_str).collect();
    let line = format!(" {} ", plain.join(" "));
    let has = |phrase: &str| line.contains(&format!(" {phrase} "));
    let all = WORDS.iter().copied();
    all.filter(|(phrase, _)| has(phrase)).collect()
}

#[test]
fn a_word_is_found_whole_whatever_its_case_and_line() {
    assert_eq!(found("Nothing was TOLD,\n  it seems")[0].0, "told");
    assert_eq!(found("polled in\n vain")[0].0, "in vain");
    assert_eq!(found("an intellectual satellite, untold"), []);
}
