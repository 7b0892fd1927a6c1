//! In the command line no verb knows another: what two of them need lies in a module of its own, which knows
//! neither. Only the page of `report --html` and `now` show what several verbs say.

use std::collections::BTreeSet;

use super::{Finding, Repo, Source};

const CLI: &str = "crates/cli/src/";

/// What shows what several verbs say, and the verb that makes it.
const SHOWS_SEVERAL: [(&str, &str); 2] = [("html", "report"), ("now", "now")];

/// All rules of this family.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let verbs = verbs(repo);
    let sources = repo.sources.iter().filter(|source| source.is_rust());
    let mut found = Vec::new();
    for source in sources {
        if let Some(owner) = owner(&source.path) {
            found.extend(names(source, owner, &verbs));
        }
    }
    found
}

/// The verbs, as `verb.rs` lists them: `Report(report::Arguments)`.
fn verbs(repo: &Repo) -> BTreeSet<&str> {
    let list = repo.source("crates/cli/src/verb.rs");
    let lines = list.into_iter().flat_map(Source::code);
    let verbs = lines.filter_map(|(_, line)| {
        let (before, _) = line.split_once("::Arguments")?;
        before.rsplit(|c: char| !is_of_name(c)).next()
    });
    verbs.collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The module that a file belongs to: that of its folder, or of its verb. `None` for files that join all.
fn owner(path: &str) -> Option<&str> {
    let path = path.strip_prefix(CLI)?;
    let path = path.strip_prefix("verb/").unwrap_or(path);
    let module = path.split(['/', '.']).next()?;
    (module != "main" && module != "verb").then_some(module)
}

fn names(source: &Source, owner: &str, verbs: &BTreeSet<&str>) -> Vec<Finding> {
    let is_command_line = source.path.starts_with("crates/cli/src/verb/");
    let is_strange = |module: &str| match module {
        _ if module == owner => false,
        _ => match SHOWS_SEVERAL.iter().find(|(shows, _)| *shows == module) {
            Some((_, verb)) => owner != *verb || !is_command_line,
            None => shows_none(owner) && verbs.contains(module),
        },
    };
    let mut found = Vec::new();
    let mut in_group = false;
    for (line, text) in source.code() {
        let mut named: Vec<&str> = of(text, "crate::").collect();
        if is_command_line {
            named.extend(of(text, "super::"));
        }
        if in_group || text.contains("use crate::{") {
            let group = text.split_once("use crate::{").map_or(text, |(_, it)| it);
            named.extend(of_group(group));
            in_group = !text.contains("};");
        }
        for module in named.into_iter().filter(|module| is_strange(module)) {
            let text = format!(
                "{owner} must not know the verb {module}: what both need lies in a module of its own"
            );
            found.push(source.finding(line, text));
        }
    }
    found
}

fn shows_none(owner: &str) -> bool {
    SHOWS_SEVERAL.iter().all(|(shows, _)| *shows != owner)
}

/// The names that follow a prefix.
fn of<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(prefix).skip(1);
    parts.filter_map(|part| part.split(|c: char| !is_of_name(c)).next())
}

/// The first name of each part of a group.
fn of_group(group: &str) -> impl Iterator<Item = &str> {
    let parts = group.split(',').map(str::trim);
    parts.filter_map(|part| part.split(|c: char| !is_of_name(c)).next())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::repo;

    const LIST: &str =
        "enum Verb {\n    Tune(Box<tune::Arguments>),\n    Report(report::Arguments),\n}\n";

    fn findings(path: &str, text: &str) -> usize {
        check(&repo(&[("crates/cli/src/verb.rs", LIST), (path, text)])).len()
    }

    #[test]
    fn no_verb_knows_another() {
        let tune = "use crate::tune::view::View;\n";
        assert_eq!(findings("crates/cli/src/tune/text.rs", tune), 0);
        assert_eq!(findings("crates/cli/src/verb/tune.rs", tune), 0);
        assert_eq!(findings("crates/cli/src/report/build.rs", tune), 1);
        assert_eq!(findings("crates/cli/src/report.rs", tune), 1);
        assert_eq!(findings("crates/cli/src/verb/report.rs", tune), 1);
        let beside = "use super::tune::wanted;\n";
        assert_eq!(findings("crates/cli/src/verb/report.rs", beside), 1);
        assert_eq!(findings("crates/cli/src/report/text.rs", beside), 0);
    }

    #[test]
    fn a_group_is_looked_into() {
        let group = "use crate::{page, tune};\n";
        assert_eq!(findings("crates/cli/src/report.rs", group), 1);
        let long = "use crate::{\n    page,\n    tune::{self, text},\n};\nlet tune = 1;\n";
        assert_eq!(findings("crates/cli/src/report.rs", long), 1);
    }

    #[test]
    fn what_verbs_share_knows_none_of_them_but_the_page_does() {
        let tune = "let text = crate::tune::text::render();\n";
        assert_eq!(findings("crates/cli/src/reading/load.rs", tune), 1);
        assert_eq!(findings("crates/cli/src/html/content.rs", tune), 0);
        assert_eq!(findings("crates/cli/src/main.rs", tune), 0);
        assert_eq!(findings("crates/cli/src/now/build.rs", tune), 0);
        let now = "use crate::now::build;\n";
        assert_eq!(findings("crates/cli/src/verb/now.rs", now), 0);
        assert_eq!(findings("crates/cli/src/verb/report.rs", now), 1);
        let page = "use crate::html;\n";
        assert_eq!(findings("crates/cli/src/verb/report.rs", page), 0);
        assert_eq!(findings("crates/cli/src/report/text.rs", page), 1);
        assert_eq!(findings("crates/cli/src/reading.rs", page), 1);
    }
}
