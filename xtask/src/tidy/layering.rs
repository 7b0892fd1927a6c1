//! Which of our crates may depend on which, and on what the core may.

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

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let is_manifest = |source: &&Source| source.path.ends_with("/Cargo.toml");
    let manifests = repo.sources.iter().filter(is_manifest);
    manifests.flat_map(layers).collect()
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
}
