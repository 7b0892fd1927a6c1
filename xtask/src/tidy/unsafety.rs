//! Where `unsafe` may stand. Clippy sees to the comment above it.

use std::collections::BTreeSet;

use super::{Finding, Repo, Source};

/// The files that may hold it.
const ALLOWED: &str = include_str!("unsafe_files.txt");

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
        let is_allowed = allowed.contains(source.path.as_str());
        match first_unsafe(source) {
            Some(line) if !is_allowed => found.push(source.finding(
                line,
                "unsafe outside the files of xtask/src/tidy/unsafe_files.txt".into(),
            )),
            None if is_allowed => {
                found.push(source.finding(1, "has no unsafe: take it off unsafe_files.txt".into()));
            }
            _ => {}
        }
    }
    found
}

/// The first line with an unsafe block, function or impl.
fn first_unsafe(source: &Source) -> Option<usize> {
    let is_unsafe = |code: &str| {
        code.split(|char: char| !char.is_alphanumeric() && char != '_')
            .any(|word| word == "unsafe")
    };
    let mut code = source.code();
    Some(code.find(|(_, code)| is_unsafe(code))?.0)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::repo;

    #[test]
    fn an_unlisted_file_is_refused() {
        let repo = repo(&[("b.rs", "unsafe { a() }\n")]);
        assert_eq!(check_against(&repo, "").len(), 1);
    }

    #[test]
    fn the_list_shrinks() {
        let without = repo(&[("a.rs", "// says unsafe only here\n")]);
        assert_eq!(check_against(&without, "# why\na.rs\n").len(), 1);
        let lint = repo(&[("b.rs", "#![forbid(unsafe_code)]\n")]);
        assert!(check_against(&lint, "").is_empty());
    }
}
