//! The page's script and style: types, lints and format, by tools that `tools/setup` brings.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{repo, say, tool};

const TESTS: &str = "crates/cli/tests/page";

/// Path of a tool of the page's tests, if the tool is installed.
fn found(root: &Path, name: &str) -> Option<PathBuf> {
    let program = root.join(TESTS).join("node_modules/.bin").join(name);
    let is_there = program.exists() && tool::find("node").is_some();
    is_there.then_some(program)
}

pub(crate) fn lint() -> Result<()> {
    let root = repo::root();
    let (Some(types), Some(style)) = (found(&root, "tsc"), found(&root, "biome")) else {
        say::skipped("types and style of the page: node or node_modules are missing (tools/setup)");
        return Ok(());
    };
    for project in ["crates/cli/src/html/page", TESTS] {
        tool::run(
            Command::new(&types)
                .current_dir(&root)
                .args(["-p", project]),
        )?;
    }
    let home = root.join("crates/cli");
    tool::run(
        Command::new(style)
            .current_dir(home)
            .args(["ci", "--colors=off", "."]),
    )
}
