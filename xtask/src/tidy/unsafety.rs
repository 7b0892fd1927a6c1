//! Where `unsafe` may stand, and what must stand above it.

use std::collections::BTreeSet;

use super::{Finding, Repo, Source};

/// The files that may hold it.
const ALLOWED: &str = include_str!("unsafe_files.txt");

/// All rules of this family.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    check_against(repo, ALLOWED)
}

fn check_against(repo: &Repo, allowed: &str) -> Vec<Finding> {
    let allowed: BTreeSet<&str> = allowed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|source| source.is_rust()) {
        let lines = unsafe_lines(source);
        let is_allowed = allowed.contains(source.path.as_str());
        match lines.first() {
            Some(line) if !is_allowed => found.push(source.finding(
                *line,
                "unsafe outside the files of xtask/src/tidy/unsafe_files.txt".into(),
            )),
            None if is_allowed => {
                found.push(source.finding(1, "has no unsafe: take it off unsafe_files.txt".into()));
            }
            _ => {}
        }
        found.extend(
            lines
                .into_iter()
                .filter(|line| !is_explained(source, *line))
                .map(|line| {
                    source.finding(
                        line,
                        "say above it: `// SAFETY:` and why it holds here".into(),
                    )
                }),
        );
    }
    found
}

/// Lines with an unsafe block, function or impl.
fn unsafe_lines(source: &Source) -> Vec<usize> {
    let is_unsafe = |code: &str| {
        code.split(|char: char| !char.is_alphanumeric() && char != '_')
            .any(|word| word == "unsafe")
    };
    source
        .code()
        .filter(|(_, code)| is_unsafe(code))
        .map(|(line, _)| line)
        .collect()
}

/// Whether the comment right above a line, or above the statement that it belongs to, explains it.
fn is_explained(source: &Source, line: usize) -> bool {
    let lines: Vec<&str> = source.text.lines().take(line).collect();
    let explains = |line: &&str| line.contains("// SAFETY:") || line.contains("/// # Safety");
    lines.iter().rev().take(12).any(explains)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::repo;

    fn found(text: &str) -> Vec<String> {
        let repo = repo(&[("a.rs", text)]);
        check_against(&repo, "# why\na.rs\n")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_listed_file_with_reasons_passes() {
        assert_eq!(found("// SAFETY: it lives.\nunsafe { a() }\n"), [""; 0]);
    }

    #[test]
    fn a_reason_is_needed() {
        assert_eq!(found("unsafe { a() }\n").len(), 1);
    }

    #[test]
    fn an_unlisted_file_is_refused() {
        let repo = repo(&[("b.rs", "// SAFETY: it lives.\nunsafe { a() }\n")]);
        assert_eq!(check_against(&repo, "").len(), 1);
    }

    #[test]
    fn the_list_shrinks() {
        assert_eq!(found("// says unsafe only here\n").len(), 1);
        let lint = repo(&[("b.rs", "#![forbid(unsafe_code)]\n")]);
        assert!(check_against(&lint, "").is_empty());
    }
}
