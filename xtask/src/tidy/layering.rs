//! Who may depend on whom, and that every dependency says why it is here.

use super::{Finding, Repo, Source};

/// Our crates, with those of ours that each may depend on.
const LAYERS: [(&str, &[&str]); 12] = [
    ("crates/core", &[]),
    ("crates/capture", &["haltwise-core"]),
    ("crates/document", &[]),
    ("crates/governor", &[]),
    ("crates/preload", &["haltwise-governor"]),
    ("crates/exec", &[]),
    ("crates/host", &["haltwise-core", "haltwise-governor"]),
    ("crates/lab", &["haltwise-core", "haltwise-governor"]),
    ("crates/experiments", &["haltwise-core", "haltwise-lab"]),
    (
        "crates/cli",
        &[
            "haltwise-core",
            "haltwise-capture",
            "haltwise-document",
            "haltwise-host",
        ],
    ),
    ("python", &["haltwise", "haltwise-capture"]),
    ("xtask", &["haltwise-core"]),
];

/// All that the core may depend on, tests aside.
const CORE_USES: [&str; 3] = ["pulp", "serde", "thiserror"];

/// How many dependencies may share one comment, when they are parts of one thing.
const SHARED: usize = 5;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo
        .sources
        .iter()
        .filter(|source| source.path.ends_with("Cargo.toml"))
    {
        if source.path == "Cargo.toml" {
            found.extend(reasons(source));
        } else {
            found.extend(layers(source));
        }
    }
    found
}

/// A dependency as a manifest names it.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    is_dev: bool,
}

fn dependencies(source: &Source) -> Vec<Dependency<'_>> {
    let mut section = "";
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        if text.starts_with('[') {
            section = text.trim_matches(['[', ']']);
        } else if section.ends_with("dependencies") && text.contains('=') {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            let is_dev = section.ends_with("dev-dependencies");
            found.push(Dependency { line, name, is_dev });
        }
    }
    found
}

fn layers(source: &Source) -> Vec<Finding> {
    let folder = source.path.trim_end_matches("/Cargo.toml");
    let allowed = LAYERS
        .iter()
        .find(|(owner, _)| *owner == folder)
        .map(|(_, allowed)| *allowed);
    let mut found = Vec::new();
    for Dependency { line, name, is_dev } in dependencies(source) {
        let ours = name == "haltwise" || name.starts_with("haltwise-");
        if let Some(allowed) = allowed
            && ours
            && !allowed.contains(&name)
        {
            found.push(source.finding(line, format!("{folder} must not know {name}")));
        }
        if folder == "crates/core" && !is_dev && !ours && !CORE_USES.contains(&name) {
            found.push(source.finding(line, format!("the core does without {name}")));
        }
    }
    found
}

/// In the workspace's list each dependency, or each small group of one kind, has a comment above.
fn reasons(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut listed = false;
    let mut since_comment = SHARED;
    for (line, text) in source.lines() {
        if text.starts_with('[') {
            listed = text == "[workspace.dependencies]";
            since_comment = SHARED;
        } else if text.trim().is_empty() {
            since_comment = SHARED;
        } else if text.starts_with('#') {
            since_comment = 0;
        } else if listed && !text.starts_with("haltwise") {
            if since_comment >= SHARED {
                let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
                found.push(source.finding(line, format!("say in a comment why {name} is here")));
            }
            since_comment += 1;
        }
    }
    found
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::findings;

    #[test]
    fn the_core_knows_nobody() {
        let core = |text: &str| findings(check, "crates/core/Cargo.toml", text).len();
        assert_eq!(core("[dependencies]\nserde.workspace = true\n"), 0);
        assert_eq!(core("[dependencies]\nrustix.workspace = true\n"), 1);
        assert_eq!(core("[dev-dependencies]\nproptest = \"1\"\n"), 0);
        assert_eq!(
            core("[dev-dependencies]\nhaltwise-capture.workspace = true\n"),
            1
        );
    }

    #[test]
    fn host_and_lab_never_meet_and_the_lab_stands_without_experiments() {
        let text = "[dependencies]\nhaltwise-experiments.workspace = true\n";
        assert_eq!(findings(check, "crates/lab/Cargo.toml", text).len(), 1);
        let text = "[build-dependencies]\nhaltwise-lab = { path = \"../lab\" }\n";
        assert_eq!(findings(check, "crates/host/Cargo.toml", text).len(), 1);
        let text = "[dependencies]\nhaltwise-host.workspace = true\n";
        assert_eq!(findings(check, "crates/lab/Cargo.toml", text).len(), 1);
        assert_eq!(findings(check, "crates/capture/Cargo.toml", text).len(), 1);
        assert_eq!(findings(check, "crates/cli/Cargo.toml", text).len(), 0);
    }

    #[test]
    fn a_dependency_needs_a_reason() {
        let list = |text: &str| {
            findings(
                check,
                "Cargo.toml",
                &format!("[workspace.dependencies]\n{text}"),
            )
            .len()
        };
        assert_eq!(list("# Why.\na = \"1\"\nb = \"1\"\n"), 0);
        assert_eq!(list("a = \"1\"\n"), 1);
        assert_eq!(list("# Why.\na = \"1\"\n\nb = \"1\"\n"), 1);
        assert_eq!(list("haltwise-core = { path = \"crates/core\" }\n"), 0);
    }
}
