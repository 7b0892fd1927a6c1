//! Licences of all that a static program contains: of its crates, from their packages, and of the C libraries of Debian
//! that are linked in. Made of what cargo says, since everything is in its cache already; cargo-about would be one
//! more tool to install, with a list of its own to keep.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::TARGET;
use crate::{repo, tool};

/// Libraries that `cargo xtask dist` links in, by the package of Debian that has them.
const LIBRARIES: [&str; 3] = ["libelf-dev", "zlib1g-dev", "libc6-dev"];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

impl Package {
    fn texts(&self) -> Result<Vec<String>> {
        let folder = self
            .manifest_path
            .parent()
            .context("a manifest lies in a folder")?;
        let mut found = Vec::new();
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (name, names) = (
                name.to_uppercase(),
                ["LICEN", "COPYING", "NOTICE", "UNLICENSE"],
            );
            if path.is_file() && names.iter().any(|it| name.starts_with(it)) {
                let text =
                    std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
                let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
                found.push(text.trim().to_owned());
            }
        }
        found.sort();
        Ok(found)
    }
}

pub(super) fn of(program: &str) -> Result<String> {
    let packages = packages(program)?;
    let mut text = format!("What {program} contains beside its own code, and on which terms.\n");
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for package in &packages {
        let licence = package.license.as_deref().unwrap_or("see the text below");
        // Writing to a String cannot fail.
        let _written = write!(text, "\n{} {}: {licence}", package.name, package.version);
        let own = package.texts()?;
        if own.is_empty() {
            let authors = package.authors.join(", ");
            let from = package.repository.as_deref().unwrap_or_default();
            let _written = write!(
                text,
                "\n    {authors} {from} (its package has no text of the licence)"
            );
        }
        for one in own {
            texts.entry(one).or_default().push(package.name.clone());
        }
    }
    text.push('\n');
    for (licence, mut of) in texts {
        of.dedup();
        let _written = write!(
            text,
            "\n{:=<80}\n{}\n{:=<80}\n{licence}\n",
            "",
            of.join(", "),
            ""
        );
    }
    for library in LIBRARIES {
        let copyright = Path::new("/usr/share/doc").join(library).join("copyright");
        let copyright = std::fs::read_to_string(&copyright)
            .with_context(|| format!("read the licence of {library}"))?;
        let _written = write!(
            text,
            "\n{:=<80}\nDebian's {library}\n{:=<80}\n{copyright}",
            "", ""
        );
    }
    Ok(text)
}

/// The crates of other people that a program is linked from.
fn packages(program: &str) -> Result<Vec<Package>> {
    let tree = format!(
        "tree --edges=normal --prefix=none --format={{p}} --package={program} --target={TARGET}"
    );
    let tree = tool::ask(&mut tool::cargo(&tree))?;
    let said = tool::ask(&mut tool::cargo("metadata --format-version=1"))?;
    let metadata: Metadata =
        serde_json::from_str(&said).context("read what cargo metadata says")?;
    let is_linked = |package: &Package| {
        let line = format!("{} v{}", package.name, package.version);
        tree.lines()
            .any(|it| it == line || it.starts_with(&format!("{line} ")))
    };
    let is_ours = |package: &Package| package.manifest_path.starts_with(repo::root());
    let mut packages = metadata.packages;
    packages.retain(|package| is_linked(package) && !is_ours(package));
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    ensure!(
        !packages.is_empty(),
        "cargo tree names no crate of {program}"
    );
    Ok(packages)
}
