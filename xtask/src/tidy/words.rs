//! Words: none that sell, no sentence of a comment that begins with a question, and no paths of one machine.

use super::{Finding, Repo, Source};

const WORDS: &str = include_str!("words.txt");

/// The files that must name what they forbid.
const OWN: [&str; 2] = ["xtask/src/tidy/words.rs", "xtask/src/tidy/words.txt"];

/// Where paths begin that only one machine has.
const MACHINE_PATHS: [&str; 4] = ["/home/", "/root/", "/Users/", "/tmp/"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let listed = WORDS.lines().filter(|word| !word.starts_with('#'));
    let private = repo.private_words.iter().map(String::as_str);
    let words = listed.chain(private).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|source| is_ours(source)) {
        found.extend(banned(source, &words));
        found.extend(questions(source));
        found.extend(machine_paths(source));
    }
    found
}

/// Prose and code that we wrote, rather than lists, data and what the kernel's authors wrote.
fn is_ours(source: &Source) -> bool {
    let script = source.path.starts_with("tools/") || source.path.starts_with(".ci/");
    let kind = source.is_rust()
        || source.is_c()
        || source.is_prose()
        || script
        || source.is_a("sh")
        || source.is_a("toml")
        || source.path == "Makefile";
    kind && !source.path.ends_with("vmlinux.h") && !OWN.contains(&source.path.as_str())
}

fn banned(source: &Source, words: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        let text = text.to_lowercase();
        for word in words {
            if begins_word(&text, word) {
                found.push(source.finding(line, format!("`{word}`: say it plainly")));
            }
        }
    }
    found
}

/// Comments that begin with the word of a question, or with `Of`, in the place of a subject. A line belongs to the one
/// before if that does not end a sentence.
fn questions(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut is_open = false;
    for (line, text) in source.lines().filter(|_| source.is_rust()) {
        let marks = ["/// ", "//! ", "// "];
        let comment = marks
            .iter()
            .find_map(|it| text.trim_start().strip_prefix(it));
        let first = comment.and_then(|comment| comment.split(' ').next());
        let is_question = matches!(first, Some("Of" | "What" | "Who" | "Whoever"));
        if is_question && !is_open {
            found.push(source.finding(line, "begin with the subject".to_owned()));
        }
        is_open = comment.is_some_and(|comment| !comment.ends_with(['.', ':', '!', '|']));
    }
    found
}

fn begins_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric())
    })
}

/// Paths of one machine. Tests may make up any.
fn machine_paths(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_test = ["/tests/", "/test.rs", "/fixtures/"]
        .iter()
        .any(|part| source.path.contains(part));
    if is_test || source.is_a("sh") {
        return found;
    }
    for (line, text) in source.lines().filter(|(line, _)| !source.is_test(*line)) {
        for path in MACHINE_PATHS {
            let begins = text.match_indices(path).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                before.is_none_or(|char| !char.is_alphanumeric() && !"./_-}".contains(char))
            });
            if begins {
                found.push(source.finding(line, format!("`{path}`: a path of one machine")));
            }
        }
    }
    found
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::findings;

    #[test]
    fn words_that_sell_and_paths_of_one_machine_are_refused() {
        let marked = "#[cfg(test)]\nmod test {\n    a(\"/tmp/x\");\n}\n";
        for (path, text, expected) in [
            ("README.md", "A seamlessly powerful tool.\n", 2),
            ("README.md", "An underpowered one.\n", 0),
            ("README.md", "Codename X.\n", 1),
            ("data.csv", "powerful\n", 0),
            ("docs/a.md", "look in /home/me/x\n", 1),
            ("docs/a.md", "below $DIR/tmp/x and a/home/b\n", 0),
            ("crates/a/src/b.rs", "a(\"/tmp/x\");\n", 1),
            ("crates/a/src/b.rs", marked, 0),
            ("crates/a/tests/b.rs", "a(\"/tmp/x\");\n", 0),
            ("a.rs", "/// What it is.\n// A sum\n// Of all.\n", 1),
        ] {
            assert_eq!(
                findings(check, path, text).len(),
                expected,
                "{path}: {text}"
            );
        }
    }
}
