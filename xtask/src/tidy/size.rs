//! Lines of Rust by crate and by feature, held to a budget that only falls.
//!
//! Comments and blank lines count, since they are read. Tests are the lines that [`Source`] marks as such.
//! `xtask/budget.txt` has the budget, and says which paths belong to which feature. A new capability has a budget of its
//! own, beside those of crates and features, until it is complete.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Finding, Repo, Source};

pub(super) const BUDGET: &str = "xtask/budget.txt";

/// Crates that a newcomer must know, and their features that can wait.
const NEWCOMER_CRATES: [&str; 5] = ["core", "capture", "host", "document", "cli"];
/// Kind of an entry that is not in the sums.
const CAPABILITY: &str = "capability";

const NEWCOMER_CAN_WAIT: [&str; 3] = ["pilot", "fleet", "guest"];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
}

impl Lines {
    fn of(source: &Source) -> Self {
        let product = source.code_without_tests().count();
        let tests = source.code().count() - product;
        Self { product, tests }
    }
}

impl std::ops::AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
    }
}

/// A line of the budget: what it is for, the lines allowed, and for a feature its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<'a> {
    kind: &'a str,
    name: &'a str,
    allowed: Lines,
    paths: Vec<&'a str>,
}

impl<'a> Entry<'a> {
    /// `crate core 36000 21000`, or `feature pilot 9000 5000 pilot crates/cli/src/proof`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next()?, words.next()?);
        let allowed = Lines {
            product: words.next()?.parse().ok()?,
            tests: words.next()?.parse().ok()?,
        };
        Some(Self {
            kind,
            name,
            allowed,
            paths: words.collect(),
        })
    }

    /// A path with a slash is the beginning of the file's; one without is the name of a folder or file.
    fn has(&self, file: &str) -> bool {
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        self.paths.iter().any(|path| {
            let begins = file.strip_prefix(path);
            let begins = begins.is_some_and(|rest| rest.starts_with(['/', '.']));
            begins || !path.contains('/') && stem.split('/').any(|part| part == *path)
        })
    }
}

fn entries(budget: &str) -> Vec<Entry<'_>> {
    budget.lines().filter_map(Entry::parse).collect()
}

fn allowed(budget: &str) -> Lines {
    let mut sum = Lines::default();
    for entry in entries(budget) {
        if entry.kind == "crate" {
            sum += entry.allowed;
        }
    }
    sum
}

fn crate_of(path: &str) -> &str {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split('/').next().unwrap_or(path)
}

/// Line counts by kind and name; and the files that belong to no entry.
#[derive(Debug, Default)]
struct Counted<'a> {
    lines: BTreeMap<(&'a str, &'a str), Lines>,
    newcomer: usize,
    homeless: Vec<&'a Source>,
}

impl Counted<'_> {
    fn of(&self, entry: &Entry) -> Lines {
        let lines = self.lines.get(&(entry.kind, entry.name));
        lines.copied().unwrap_or_default()
    }
}

fn count<'a>(repo: &'a Repo, entries: &[Entry<'a>]) -> Counted<'a> {
    let mut counted = Counted::default();
    for source in repo.sources.iter().filter(|source| source.is_rust()) {
        let lines = Lines::of(source);
        let own = crate_of(&source.path);
        let mut features = entries.iter().filter(|entry| entry.kind != "crate");
        let feature = features.find(|feature| feature.has(&source.path));
        let is_known = |entry: &Entry| entry.kind == "crate" && entry.name == own;
        if let Some(feature) = feature.filter(|_| entries.iter().any(is_known)) {
            if feature.kind == CAPABILITY {
                *counted.lines.entry((CAPABILITY, feature.name)).or_default() += lines;
                continue;
            }
            *counted.lines.entry(("crate", own)).or_default() += lines;
            let name = ("feature", feature.name);
            *counted.lines.entry(name).or_default() += lines;
            let waits = NEWCOMER_CAN_WAIT.contains(&feature.name);
            if NEWCOMER_CRATES.contains(&own) && !waits {
                counted.newcomer += lines.product;
            }
        } else {
            counted.homeless.push(source);
        }
    }
    counted
}

pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(budget) = repo.source(BUDGET) else {
        return Vec::new();
    };
    let entries = entries(&budget.text);
    let counted = count(repo, &entries);
    let mut found = Vec::new();
    for source in &counted.homeless {
        found.push(source.finding(1, format!("no crate and feature of {BUDGET} has this file")));
    }
    for entry in &entries {
        let (is, may) = (counted.of(entry), entry.allowed);
        if is.product > may.product || is.tests > may.tests {
            let text = format!(
                "{} {}: {} product and {} test lines, where {} and {} are allowed",
                entry.kind, entry.name, is.product, is.tests, may.product, may.tests
            );
            found.push(budget.finding(1, text));
        }
    }
    let mut newer = allowed(&budget.text);
    for earlier in &repo.earlier_budgets {
        let earlier = allowed(earlier);
        if newer.product > earlier.product || newer.tests > earlier.tests {
            let text = format!("the sums only fall: {newer:?} after {earlier:?}");
            found.push(budget.finding(1, text));
        }
        newer = earlier;
    }
    found
}

pub(super) fn table(repo: &Repo) -> String {
    let budget = repo.source(BUDGET).map_or("", |source| &source.text);
    let entries = entries(budget);
    let counted = count(repo, &entries);
    let mut text = String::new();
    for kind in ["crate", "feature", CAPABILITY] {
        let mut row = |name: &str, cells: [&dyn std::fmt::Display; 4]| {
            let [is, may, tests, may_tests] = cells;
            // Formatting into a String cannot fail.
            let _ = writeln!(text, "{name:<16}{is:>9}{may:>9}{tests:>9}{may_tests:>9}");
        };
        row(kind, [&"product", &"allowed", &"tests", &"allowed"]);
        let mut sum = [Lines::default(); 2];
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            let (is, may) = (counted.of(entry), entry.allowed);
            row(
                entry.name,
                [&is.product, &may.product, &is.tests, &may.tests],
            );
            sum[0] += is;
            sum[1] += may;
        }
        let [is, may] = sum;
        row("sum", [&is.product, &may.product, &is.tests, &may.tests]);
        text.push('\n');
    }
    let _ = write!(
        text,
        "what a newcomer must know ({} without {}): {} product lines",
        NEWCOMER_CRATES.join(", "),
        NEWCOMER_CAN_WAIT.join(", "),
        counted.newcomer
    );
    text
}

/// The budget with each number lowered to what there is, but for capabilities, which grow; none is raised.
pub(super) fn lowered(repo: &Repo) -> Option<String> {
    let budget = &repo.source(BUDGET)?.text;
    let entries = entries(budget);
    let counted = count(repo, &entries);
    let line = |line: &str| {
        let Some(entry) = Entry::parse(line).filter(|entry| entry.kind != CAPABILITY) else {
            return format!("{line}\n");
        };
        let is = counted.of(&entry);
        let product = is.product.min(entry.allowed.product);
        let tests = is.tests.min(entry.allowed.tests);
        let paths = entry.paths.join(" ");
        let line = format!(
            "{:<8}{:<16}{product:>7}{tests:>7}  {paths}",
            entry.kind, entry.name
        );
        format!("{}\n", line.trim_end())
    };
    Some(budget.lines().map(line).collect())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::repo;

    const FILES: [(&str, &str); 3] = [
        (
            "crates/core/src/pilot/a.rs",
            "//! A.\n\n#[cfg(test)]\nmod test {\n}\n",
        ),
        ("crates/core/src/b.rs", "//! B.\n"),
        ("crates/core/tests/pilot.rs", "//! C.\n//! D.\n"),
    ];

    fn with(budget: &str) -> Repo {
        let files = FILES.into_iter().chain([(BUDGET, budget)]);
        repo(&files.collect::<Vec<_>>())
    }

    const EXACT: &str = "crate core 3 5\nfeature pilot 2 5 pilot\nfeature rest 1 0 crates\n";

    #[test]
    fn what_is_within_the_budget_passes_and_a_line_more_does_not() {
        assert_eq!(check(&with(EXACT)), []);
        for less in ["core 2 5", "core 3 4", "pilot 1 5", "pilot 2 4", "rest 0 0"] {
            let name = less.split(' ').next().unwrap();
            let line = EXACT.lines().find(|line| line.contains(name)).unwrap();
            let numbers: Vec<&str> = line.split(' ').collect();
            let budget = EXACT.replace(&numbers[1..4].join(" "), less);
            assert_eq!(check(&with(&budget)).len(), 1, "{budget}");
        }
    }

    #[test]
    fn a_file_without_a_feature_or_a_crate_is_named() {
        let nowhere = "crate core 9 9\nfeature pilot 9 9 pilot\n";
        let found = check(&with(nowhere));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/core/src/b.rs");
        assert_eq!(check(&with("feature all 9 9 crates\n")).len(), 3);
    }

    #[test]
    fn a_capability_has_a_budget_beside_the_sums() {
        let own = format!("crate core 1 0\ncapability own 2 5 pilot\n{EXACT}");
        assert_eq!(check(&with(&own.replace("crate core 3 5\n", ""))), []);
        let less = own
            .replace("own 2 5", "own 2 4")
            .replace("crate core 3 5\n", "");
        assert_eq!(check(&with(&less)).len(), 1);
    }

    #[test]
    fn the_sums_only_fall() {
        let mut repo = with(EXACT);
        let more = EXACT.replace("core 3 5", "core 4 5");
        repo.earlier_budgets = vec![more.clone(), more];
        assert_eq!(check(&repo), []);
        repo.earlier_budgets = vec![EXACT.replace("core 3 5", "core 3 4")];
        assert_eq!(check(&repo).len(), 1);
    }

    #[test]
    fn numbers_are_lowered_and_never_raised() {
        let repo =
            with("# why\ncrate core 2 99\nfeature pilot 99 99 pilot\nfeature rest 9 9 crates\n");
        let lowered = lowered(&repo).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = lowered.lines().map(words).collect();
        let expected = [
            "# why",
            "crate core 2 5",
            "feature pilot 2 5 pilot",
            "feature rest 1 0 crates",
        ];
        assert_eq!(lines, expected);
    }
}
