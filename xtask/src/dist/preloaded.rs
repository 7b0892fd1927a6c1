//! The library that is preloaded into VMMs: linked with an old glibc, since the glibc of the VMM's host loads it.
//! Debian 11's is taken from its packages; where they cannot be had, the library is linked with the glibc that is installed
//! here, and that is said.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::TARGET;
use crate::kernels::deb;
use crate::{repo, say, tool};

/// Debian 11, and its glibc.
const RELEASE: &str = "bullseye";
const GLIBC: (u32, u32) = (2, 31);
const PACKAGES: [&str; 3] = ["libc6", "libc6-dev", "libgcc-s1"];

pub(super) fn build() -> Result<()> {
    say::step("building the library that is preloaded");
    let mut cargo = tool::cargo("build --profile=dist --package=haltwise-preload --target");
    cargo.arg(TARGET);
    let old = old_glibc();
    if let Ok(old) = &old {
        cargo.env(
            "RUSTFLAGS",
            format!("-C link-arg=--sysroot={}", old.display()),
        );
    }
    tool::run(&mut cargo)?;
    let built = repo::target_dir().join(TARGET).join("dist");
    let library = built.join("libhaltwise_preload.so");
    let symbols = tool::ask(Command::new("objdump").arg("-T").arg(library))?;
    let (major, minor) = needs(&symbols).context("it needs no glibc")?;
    say::note(&format!("it needs glibc {major}.{minor}"));
    match old {
        Ok(_) => ensure!(
            (major, minor) <= GLIBC,
            "it was linked with an older glibc than it needs"
        ),
        Err(error) => say::skipped(&format!("an older glibc to link it with: {error:#}")),
    }
    Ok(())
}

/// The newest version of glibc of which it needs a symbol, by `objdump -T`.
fn needs(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1);
    let versions = versions.filter_map(|rest| {
        let end = rest.find(|it: char| it != '.' && !it.is_ascii_digit());
        let mut parts = rest[..end.unwrap_or(rest.len())].split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

fn old_glibc() -> Result<PathBuf> {
    let home = repo::target_dir().join("glibc");
    if !home.exists() {
        deb::fetch_packages(|_| RELEASE.to_owned(), &PACKAGES, &home)?;
        lead_within(&home, &home)?;
    }
    Ok(home)
}

/// Makes links that begin at the root begin at `home`. A linker takes no library that a link leads out to, and
/// would take the static one beside it.
fn lead_within(home: &Path, dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            lead_within(home, &path)?;
        } else if let Ok(to) = fs::read_link(&path)
            && let Ok(below) = to.strip_prefix("/")
        {
            fs::remove_file(&path)?;
            symlink(home.join(below), &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) malloc\n0 DF *UND* 0 (GLIBC_2.30) gettid\n\
                       0 DF *UND* 0 (GLIBC_2.14) memcpy\n0 DF *UND* 0 (GCC_3.0) _Unwind_Resume\n";
        assert_eq!(needs(symbols), Some((2, 30)));
        assert_eq!(needs("0 g DF .text 0 Base ioctl"), None);
    }

    #[test]
    fn links_lead_to_the_unpacked_files() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at("usr/lib")).unwrap();
        fs::create_dir_all(at("lib")).unwrap();
        fs::write(at("lib/libc.so.6"), "old").unwrap();
        symlink("/lib/libc.so.6", at("usr/lib/libc.so")).unwrap();
        symlink("libc.so", at("usr/lib/libdl.so")).unwrap();
        lead_within(home.path(), home.path()).unwrap();
        assert_eq!(fs::read_to_string(at("usr/lib/libdl.so")).unwrap(), "old");
    }
}
