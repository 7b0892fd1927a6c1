//! `cargo xtask tidy`: the rules of this repository that no compiler knows.
//!
//! Each rule family is a pure function from the repository's files to findings, and has a test for
//! each rule that shows it failing. `cargo test` runs them on the repository itself.

mod docs;
mod layering;
mod purity;
mod size;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{repo, say, tool};
use source::Source;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

impl Source {
    fn finding(&self, line: usize, text: String) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            text,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Repo {
    sources: Vec<Source>,
    /// Paths of all files, also of those that are not text.
    paths: Vec<String>,
    /// Words that this checkout's owner keeps out of the repository.
    private_words: Vec<String>,
    /// Versions of the budget that commits have, the last two, newest first.
    earlier_budgets: Vec<String>,
}

impl Repo {
    fn load(root: &Path) -> Result<Self> {
        let paths = repo::files(root)?;
        let mut sources = Vec::new();
        for path in &paths {
            // Files that are not text hold nothing for us.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                sources.push(Source::new(path, &text));
            }
        }
        mark_test_files(&mut sources);
        let listed = std::fs::read_to_string(root.join(".git/info/banned-words"));
        let private_words = listed
            .unwrap_or_default()
            .lines()
            .map(String::from)
            .collect();
        Ok(Self {
            sources,
            paths,
            private_words,
            earlier_budgets: earlier_budgets(root),
        })
    }

    fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

/// An archive without git has none.
fn earlier_budgets(root: &Path) -> Vec<String> {
    let git = |args: &[&str]| tool::ask(Command::new("git").current_dir(root).args(args));
    let commits = git(&["log", "-2", "--format=%H", "--", size::BUDGET]).unwrap_or_default();
    let version = |commit| git(&["show", &format!("{commit}:{}", size::BUDGET)]).ok();
    commits.lines().filter_map(version).collect()
}

/// Marks the files of modules that their parents declare for tests only, and those below them.
fn mark_test_files(sources: &mut [Source]) {
    let mut names = Vec::new();
    for source in sources.iter() {
        let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
        let root = stem
            .strip_suffix("lib")
            .or_else(|| stem.strip_suffix("main"));
        let folder = root.map_or(format!("{stem}/"), String::from);
        let files = source.test_modules();
        names.extend(files.map(|name| format!("{folder}{name}.rs")));
    }
    let is_of = |path: &str, name: &String| {
        let below = name.strip_suffix(".rs").unwrap_or(name);
        let rest = path.strip_prefix(below);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    for source in sources
        .iter_mut()
        .filter(|source| names.iter().any(|name| is_of(&source.path, name)))
    {
        source.mark_as_test();
    }
}

type Rule = fn(&Repo) -> Vec<Finding>;

const RULES: [Rule; 5] = [
    size::check,
    purity::check,
    layering::check,
    words::check,
    docs::check,
];

fn findings(repo: &Repo) -> Vec<Finding> {
    let mut found: Vec<Finding> = RULES.iter().flat_map(|rule| rule(repo)).collect();
    found.sort();
    found
}

pub(crate) fn run() -> Result<()> {
    refuse(&findings(&Repo::load(&repo::root())?))
}

fn refuse(found: &[Finding]) -> Result<()> {
    for finding in found {
        say::note(&finding.to_string());
    }
    if !found.is_empty() {
        bail!("{} findings", found.len());
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct SizeArgs {
    /// Lower the budget to what there is; no number is raised
    #[arg(long)]
    lower: bool,
}

/// Prints how many lines there are and may be, by crate and by feature.
pub(crate) fn size(args: SizeArgs) -> Result<()> {
    let root = repo::root();
    let repo = Repo::load(&root)?;
    if args.lower {
        let budget = size::lowered(&repo).context("there is no budget")?;
        std::fs::write(root.join(size::BUDGET), budget).context("write the budget")?;
        return size(SizeArgs { lower: false });
    }
    say::line(&size::table(&repo));
    refuse(&size::check(&repo))
}

#[cfg(test)]
mod fixture {
    use super::*;

    pub(crate) fn repo(files: &[(&str, &str)]) -> Repo {
        Repo {
            sources: files
                .iter()
                .map(|(path, text)| Source::new(path, text))
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).to_string()).collect(),
            private_words: vec!["codename".into()],
            earlier_budgets: Vec::new(),
        }
    }

    pub(crate) fn findings(rule: Rule, path: &str, text: &str) -> Vec<String> {
        rule(&repo(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_file_is_a_test_where_its_parent_says_so() {
        let text = "#[cfg(test)]\nmod b;\nmod c;\n";
        let mut repo = fixture::repo(&[
            ("x/src/lib.rs", text),
            ("x/src/a.rs", text),
            ("x/src/b.rs", "1\n"),
            ("x/src/a/b.rs", "1\n"),
            ("x/src/a/c.rs", "1\n"),
        ]);
        mark_test_files(&mut repo.sources);
        let is_code = |source: &&Source| source.code_without_tests().count() > 0;
        let code: Vec<_> = repo
            .sources
            .iter()
            .filter(is_code)
            .map(|s| s.path.as_str())
            .collect();
        assert_eq!(code, ["x/src/lib.rs", "x/src/a.rs", "x/src/a/c.rs"]);
    }

    #[test]
    fn the_repository_is_tidy() {
        let repo = Repo::load(&repo::root()).expect("the checkout can be read");
        let found: Vec<String> = findings(&repo).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "cargo xtask tidy:\n{}", found.join("\n"));
    }
}
