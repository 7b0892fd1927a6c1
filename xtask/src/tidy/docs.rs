//! Documents: that what they link to exists, headings too, and that the book lists every page.

use super::{Finding, Repo, Source};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let pages = repo.sources.iter().filter(|source| source.is_prose());
    let mut found: Vec<Finding> = pages.flat_map(|page| dead_links(repo, page)).collect();
    if let Some(summary) = repo.source(SUMMARY) {
        found.extend(unlisted(repo, summary));
    }
    found
}

/// The book's table of contents, in mdBook's form.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages that the table of contents does not link to.
fn unlisted(repo: &Repo, summary: &Source) -> Vec<Finding> {
    let links: Vec<&str> = (summary.lines())
        .flat_map(|(_, text)| text.split("](").skip(1))
        .filter_map(|part| part.split([')', '#']).next())
        .collect();
    let pages = repo.sources.iter().filter(|source| source.is_prose());
    let pages = pages.filter_map(|page| page.path.strip_prefix("docs/"));
    let missing = pages.filter(|page| *page != "SUMMARY.md" && !links.contains(page));
    missing
        .map(|page| summary.finding(1, format!("does not list {page}")))
        .collect()
}

/// Relative links whose target, or whose heading in it, is not there.
fn dead_links(repo: &Repo, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        for part in text.split("](").skip(1) {
            let link = part.split([')', ' ']).next().unwrap_or_default();
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if link.is_empty() || elsewhere {
                continue;
            }
            let path = match target {
                "" => source.path.clone(),
                target => resolve(&source.path, target),
            };
            let page = repo.source(&path).filter(|page| page.is_prose());
            let has = |page: &Source| heading.is_empty() || anchors(page).any(|it| it == heading);
            if !exists(repo, &path) {
                found.push(source.finding(line, format!("links to {target}, which is not there")));
            } else if !page.is_none_or(has) {
                let text = format!("links to {link}, which is no heading there");
                found.push(source.finding(line, text));
            }
        }
    }
    found
}

/// Anchors of the headings of a page, as GitHub and mdBook generate them.
fn anchors(page: &Source) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let headings = page.lines().filter_map(move |(_, text)| {
        is_code ^= text.trim_start().starts_with("```");
        let heading = text.trim_start_matches('#').strip_prefix(' ')?;
        (!is_code && text.starts_with('#')).then_some(heading)
    });
    headings.map(|heading| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let plain: String = heading.trim().chars().filter(kept).collect();
        plain.to_lowercase().replace(' ', "-")
    })
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(repo: &Repo, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || repo
            .paths
            .iter()
            .any(|found| found == path || found.starts_with(&folder))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::repo;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let readme = [("README.md", "\n")];
        let all: Vec<_> = readme.iter().chain(files).copied().collect();
        check(&repo(&all)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let page = "# The `x` of A, B\n```\n# no heading\n```\n#!/bin/sh\n";
        for (text, wrong) in [
            ("[b](b.md#the-x-of-a-b) [c](../README.md)", ""),
            ("[x](https://example.org/#x) [y](../docs)", ""),
            ("## Here\n[up](#here)", ""),
            ("[c](c.md)", "c.md, which is not there"),
            ("[b](b.md#no-heading)", "is no heading there"),
            ("[b](b.md#binsh)", "is no heading there"),
            ("[b](#the-x-of-a-b)", "is no heading there"),
            ("[b](b.md#The-x-of-A-B)", "is no heading there"),
        ] {
            let found = found(&[("docs/a.md", &format!("{text}\n")), ("docs/b.md", page)]);
            assert_eq!(found.len(), usize::from(!wrong.is_empty()), "{text}");
            assert!(found.concat().ends_with(wrong), "{found:?}");
        }
    }

    #[test]
    fn the_book_lists_every_page() {
        let summary = ("docs/SUMMARY.md", "- [A](a.md)\n");
        assert_eq!(found(&[summary, ("docs/a.md", "\n")]), [""; 0]);
        let found = found(&[summary, ("docs/a.md", "\n"), ("docs/b.md", "\n")]);
        assert!(found.concat().ends_with("does not list b.md"), "{found:?}");
    }
}
