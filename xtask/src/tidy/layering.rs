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
    ("xtask", &[]),
];

const CORE_USES: [&str; 3] = ["pulp", "serde", "thiserror"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let is_manifest = |source: &&Source| source.path.ends_with("/Cargo.toml");
    let manifests = repo.sources.iter().filter(is_manifest);
    manifests.flat_map(layers).collect()
}

/// Lines and names of dependencies in a manifest, and whether only tests have them.
fn dependencies(source: &Source) -> Vec<(usize, &str, bool)> {
    let mut section = "";
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        if text.starts_with('[') {
            section = text.trim_matches(['[', ']']);
        } else if section.ends_with("dependencies") && text.contains('=') {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push((line, name, section.ends_with("dev-dependencies")));
        }
    }
    found
}

fn layers(source: &Source) -> Vec<Finding> {
    let folder = source.path.trim_end_matches("/Cargo.toml");
    let layer = LAYERS.iter().find(|(owner, _)| *owner == folder);
    let mut found = Vec::new();
    for (line, name, is_dev) in dependencies(source) {
        let ours = name == "haltwise" || name.starts_with("haltwise-");
        if let Some((_, allowed)) = layer
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
    fn each_crate_knows_those_below_it() {
        for (folder, section, name, expected) in [
            ("core", "dependencies", "serde", 0),
            ("core", "dependencies", "rustix", 1),
            ("core", "dev-dependencies", "proptest", 0),
            ("core", "dev-dependencies", "haltwise-capture", 1),
            ("lab", "dependencies", "haltwise-experiments", 1),
            ("lab", "dependencies", "haltwise-host", 1),
            ("capture", "dependencies", "haltwise-host", 1),
            ("cli", "dependencies", "haltwise-host", 0),
            ("host", "build-dependencies", "haltwise-lab", 1),
        ] {
            let manifest = format!("crates/{folder}/Cargo.toml");
            let text = format!("[{section}]\n{name}.workspace = true\n");
            let found = findings(check, &manifest, &text);
            assert_eq!(found.len(), expected, "{folder}: {name}");
        }
    }
}
