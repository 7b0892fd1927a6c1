//! The checkout: its root, its tracked files, its build directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::tool;

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("xtask lies in a folder of the repository")
        .to_path_buf()
}

/// Where cargo builds, and where we keep what can be made again.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Paths of all files that belong to the repository, relative to its root and in order: tracked
/// ones, and new ones that no `.gitignore` rule names.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let listed = tool::ask(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]));
    let listed = listed.or_else(|_| {
        // A source archive has no git folder: take what lies there.
        let mut find = Command::new("find");
        find.current_dir(root).args([".", "-type", "f"]);
        find.args(["-not", "-path", "*/.*", "-not", "-path", "./target/*"]);
        tool::ask(find.args(["-printf", "%P\\0"]))
    })?;
    let names = listed.split('\0').filter(|name| !name.is_empty());
    let mut files: Vec<String> = names.map(String::from).collect();
    files.retain(|name| root.join(name).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_archive_without_git_is_walked() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::create_dir_all(dir.path().join("target")).unwrap();
        std::fs::write(dir.path().join("a/b/c.rs"), "").unwrap();
        std::fs::write(dir.path().join("target/d.rs"), "").unwrap();
        assert_eq!(files(dir.path()).unwrap(), ["a/b/c.rs"]);
    }
}
