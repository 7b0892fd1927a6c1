//! Where `unsafe` may stand. Clippy sees to the comment above it.

use super::{Finding, Repo, Source};

/// The files that may hold it.
const ALLOWED: &str = include_str!("unsafe_files.txt");

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    check_against(repo, ALLOWED)
}

fn check_against(repo: &Repo, allowed: &str) -> Vec<Finding> {
    let allowed: Vec<&str> = allowed.lines().collect();
    let judge = |source: &Source| {
        let mut code = source.code().filter(|(_, code)| is_unsafe(code));
        let line = code.next().map(|(line, _)| line);
        let text = match (line, allowed.contains(&source.path.as_str())) {
            (Some(_), false) => "unsafe outside the files of xtask/src/tidy/unsafe_files.txt",
            (None, true) => "has no unsafe: take it off unsafe_files.txt",
            _ => return None,
        };
        Some(source.finding(line.unwrap_or(1), text.to_owned()))
    };
    let sources = repo.sources.iter().filter(|source| source.is_rust());
    sources.filter_map(judge).collect()
}

/// Whether a line has an unsafe block, function or impl.
fn is_unsafe(code: &str) -> bool {
    code.split(|char: char| !char.is_alphanumeric() && char != '_')
        .any(|word| word == "unsafe")
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
