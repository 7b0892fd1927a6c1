//! The output that pages of the book show for recordings in the repository is the program's output.
//!
//! A block that begins with `$ haltwise` is one command, run from the repository's root, and its output. A line
//! `…` stands for lines that the page leaves out; what lies between two of them stands in the output, in that
//! order. A block without such a line is the whole output, and `UPDATE_GOLDEN` writes it anew.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::{haltwise, home, updates};

/// Pages, and how many blocks each has at least.
const PAGES: [(&str, usize); 3] = [
    ("docs/questions.md", 3),
    ("docs/cases.md", 15),
    ("docs/guest.md", 3),
];

const LEFT_OUT: &str = "…";

fn root() -> PathBuf {
    home().join("../../../..")
}

struct Block<'a> {
    command: &'a str,
    output: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let fenced = page.split("```").skip(1).step_by(2);
    let of = |text| {
        let mut lines = str::lines(text).skip(1);
        let command = lines.next()?.strip_prefix("$ haltwise ")?;
        let output = lines.collect();
        Some(Block { command, output })
    };
    fenced.filter_map(of).collect()
}

/// The first line of a page's output that is not where it should be.
fn wrong<'a>(block: &Block<'a>, printed: &[&str]) -> Option<&'a str> {
    if block.output.is_empty() {
        return printed.first().map(|_| "");
    }
    let mut rest = printed;
    let mut parts = block.output.split(|line| *line == LEFT_OUT).peekable();
    let mut is_first = true;
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let at = match (is_first, is_last && !part.is_empty()) {
            (true, true) => (rest == part).then_some(0),
            (true, false) => rest.starts_with(part).then_some(0),
            (false, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            (false, false) => (0..=rest.len()).find(|at| rest[*at..].starts_with(part)),
        };
        let Some(at) = at else {
            let odd = part.iter().find(|line| !rest.contains(*line));
            return odd.or(part.first()).copied();
        };
        rest = &rest[at + part.len()..];
        is_first = false;
    }
    None
}

#[test]
fn outputs_in_the_book_are_what_is_printed() {
    let mut found = String::new();
    for (page, least) in PAGES {
        let path = root().join(page);
        let mut text = fs::read_to_string(&path).unwrap();
        let old = text.clone();
        let blocks = blocks(&old);
        assert!(blocks.len() >= least, "{page}: {}", blocks.len());
        for block in blocks {
            let words: Vec<&str> = block.command.split(' ').collect();
            let (output, _) = haltwise(&root(), &words);
            let printed: Vec<&str> = output.lines().collect();
            let Some(line) = wrong(&block, &printed) else {
                continue;
            };
            if updates() && !block.output.contains(&LEFT_OUT) {
                let of = |output: &str| format!("$ haltwise {}\n{output}", block.command);
                let was = of(&(block.output.join("\n") + "\n"));
                text = text.replacen(&was, &of(&output), 1);
            } else {
                writeln!(found, "{page}: {}: {line:?}\n{output}", block.command).unwrap();
            }
        }
        if text != old {
            fs::write(&path, text).unwrap();
        }
    }
    assert!(found.is_empty(), "\n{found}");
}
