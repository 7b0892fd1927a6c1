//! The .deb in a Debian 12 that has nothing of ours and none of our tools: installed, run, upgraded, purged.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::package::{Package, VERSION};
use crate::{say, tool};

/// Does it; says why where it cannot.
pub(super) fn check(package: &Package, out: &Path) -> Result<()> {
    let is_root = tool::ask(Command::new("id").arg("-u"))?.trim() == "0";
    let Some(bootstrap) = tool::find("mmdebstrap").filter(|_| is_root) else {
        say::skipped("a clean Debian: needs root and mmdebstrap");
        return Ok(());
    };
    let dir = tempfile::tempdir().context("a folder for the clean root")?;
    let host = dir.path().join("root");
    let mut fetch = Command::new(bootstrap);
    fetch.args(["--quiet", "--variant=minbase", "bookworm"]);
    tool::run(fetch.arg(&host))?;
    let newer = format!("{VERSION}+1");
    let tree = out.join("tree").join(package.name);
    let Some(upgrade) = package.deb(&tree, dir.path(), &newer)? else {
        return Ok(());
    };
    let first = out.join(format!("{}_{VERSION}_amd64.deb", package.name));
    for (from, to) in [
        (first.as_path(), "first.deb"),
        (upgrade.as_path(), "newer.deb"),
    ] {
        std::fs::copy(from, host.join(to)).with_context(|| format!("copy {to}"))?;
    }
    let before = files(&host)?;
    inside(&host, "dpkg -i /first.deb >/dev/null && haltwise version")?;
    let doctor = inside(
        &host,
        "mount -t proc proc /proc; haltwise doctor; umount /proc; true",
    )?;
    ensure!(
        doctor.contains("What can be recorded here"),
        "haltwise doctor says {doctor}"
    );
    inside(&host, "dpkg -i /newer.deb >/dev/null")?;
    let installed = inside(&host, "dpkg-query -W -f '${Version}' haltwise")?;
    ensure!(installed == newer, "{installed} is installed, not {newer}");
    inside(&host, "dpkg --purge haltwise >/dev/null")?;
    let left: Vec<String> = files(&host)?.difference(&before).cloned().collect();
    if !left.is_empty() {
        bail!("after the purge there is still {left:?}");
    }
    say::note("installed, run, upgraded and purged; nothing is left");
    Ok(())
}

/// Runs a line in the clean root.
fn inside(host: &Path, line: &str) -> Result<String> {
    let mut chroot = Command::new("chroot");
    chroot.arg(host).args(["sh", "-c", line]);
    chroot
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    tool::ask(&mut chroot)
}

/// Files of the root, but for what dpkg keeps of its own work.
fn files(host: &Path) -> Result<BTreeSet<String>> {
    let listed = tool::ask(Command::new("find").current_dir(host).args([
        ".",
        "-xdev",
        "-type",
        "f",
        "-not",
        "-path",
        "./var/lib/dpkg/*",
        "-not",
        "-path",
        "./var/log/*",
    ]))?;
    Ok(listed.lines().map(String::from).collect())
}
