//! Words that no text of ours has: each has a common technical word in its place.

use std::fmt::Write as _;
use std::fs;

use super::home;

/// A word or phrase, and what stands for it.
const WORDS: &[(&str, &str)] = &[
    ("rung", "source"),
    ("the dearest", "most expensive"),
    ("foresaw", "predicted"),
    ("take back", "restore, revert"),
    ("and not by chance", "statistically significant"),
    (
        "against the kernel's own rule",
        "against KVM's halt polling algorithm",
    ),
    ("judging part", "validation half"),
    ("made all the same", "still printed"),
    ("may be given again", "may be repeated"),
    ("somebody else", "externally"),
    ("somebody", "a user, a process"),
    ("in silence", "without a trace event"),
    ("so often each second", "sampling frequency"),
    ("what came of it", "result"),
];

#[test]
fn help_has_none_of_the_words_with_a_plainer_one() {
    let mut wrong = String::new();
    for entry in fs::read_dir(home().join("expected/help")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (word, better) in WORDS {
            if text.to_lowercase().contains(word) {
                writeln!(wrong, "{}: {word}; better: {better}", path.display()).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
