//! A package: its tree, and the tree as an archive, a .deb and a .rpm. What packs is what each system packs with.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::licences;
use crate::{repo, say, tool};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
}

impl Package {
    /// Puts everything below a folder of its own, as it stands on a host.
    pub(super) fn stage(&self, built: &Path, trees: &Path) -> Result<PathBuf> {
        let tree = trees.join(self.name);
        if self.name == "haltwise" {
            let mut make = Command::new("make");
            make.arg("-C")
                .arg(repo::root())
                .args(["--silent", "install", "PREFIX=/usr"]);
            make.arg(format!("DESTDIR={}", tree.display()));
            tool::run(make.arg(format!("BUILT={}", built.display())))?;
        } else {
            let (bin, doc) = (tree.join("usr/bin"), self.documents(&tree));
            std::fs::create_dir_all(&bin)?;
            std::fs::create_dir_all(&doc)?;
            let mut strip = Command::new("strip");
            strip.arg("-o").arg(bin.join(self.name));
            tool::run(strip.arg(built.join(self.name)))?;
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                std::fs::copy(repo::root().join(licence), doc.join(licence))?;
            }
        }
        let documents = self.documents(&tree);
        std::fs::write(documents.join("copyright"), COPYRIGHT).context("write the copyright")?;
        let third = licences::of(self.name)?;
        std::fs::write(documents.join(THIRD), third).context("write licences")?;
        Ok(tree)
    }

    fn documents(&self, tree: &Path) -> PathBuf {
        tree.join("usr/share/doc").join(self.name)
    }

    /// The tree below `usr`, for hosts without packages: `tar -C /usr/local -xf`.
    pub(super) fn archive(&self, tree: &Path, out: &Path) -> Result<PathBuf> {
        let file = out.join(self.archive_name());
        tar(&file, &tree.join("usr"), ".")?;
        Ok(file)
    }

    pub(super) fn archive_name(&self) -> String {
        format!("{}-{VERSION}-x86_64-linux.tar.gz", self.name)
    }

    /// The symbols of a program, which gdb and perf find by its build id.
    pub(super) fn symbols(&self, built: &Path, out: &Path) -> Result<PathBuf> {
        let name = format!("{}.debug", self.name);
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--only-keep-debug", "--compress-debug-sections"]);
        tool::run(objcopy.arg(built.join(self.name)).arg(out.join(&name)))?;
        let file = out.join(format!("{}-{VERSION}-x86_64-linux-debug.tar.gz", self.name));
        tar(&file, out, &name)?;
        std::fs::remove_file(out.join(&name))?;
        Ok(file)
    }

    /// A package of Debian; nothing where `dpkg-deb` is missing.
    pub(super) fn deb(&self, tree: &Path, out: &Path, version: &str) -> Result<Option<PathBuf>> {
        let Some(program) = tool::find("dpkg-deb") else {
            say::skipped("the .deb: dpkg-deb is not installed");
            return Ok(None);
        };
        let control = tree.join("DEBIAN");
        std::fs::create_dir_all(&control)?;
        std::fs::write(control.join("control"), self.control(version))?;
        if self.name == "haltwise" {
            let script = control.join("prerm");
            std::fs::write(&script, STOP)?;
            std::fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        }
        let file = out.join(format!("{}_{version}_amd64.deb", self.name));
        let mut pack = Command::new(program);
        pack.args(["--root-owner-group", "-Zxz", "--build"])
            .arg(tree)
            .arg(&file);
        // Else it says what it packs.
        tool::ask(&mut pack)?;
        std::fs::remove_dir_all(&control)?;
        Ok(Some(file))
    }

    fn control(&self, version: &str) -> String {
        format!(
            "Package: {}\nVersion: {version}\nArchitecture: amd64\nSection: admin\nPriority: optional\n\
             Maintainer: {MAINTAINER}\nDescription: {}\n",
            self.name, self.about
        )
    }

    /// A package of RPM; nothing where `rpmbuild` is missing.
    pub(super) fn rpm(&self, tree: &Path, out: &Path) -> Result<Option<PathBuf>> {
        let Some(program) = tool::find("rpmbuild") else {
            say::skipped("the .rpm: rpmbuild is not installed (package rpm)");
            return Ok(None);
        };
        let work = out.join("tree").join(format!("{}.rpm", self.name));
        std::fs::create_dir_all(&work)?;
        let spec = work.join("spec");
        std::fs::write(&spec, self.spec(tree))?;
        let mut pack = Command::new(program);
        pack.args(["-bb", "--quiet", "--target=x86_64"]);
        pack.arg(format!("--define=_topdir {}", work.display()));
        pack.arg(format!("--define=_rpmdir {}", out.display()));
        pack.arg("--define=_rpmfilename %{NAME}-%{VERSION}-1.x86_64.rpm");
        // It says what it builds on stdout, whatever is asked of it.
        tool::ask(pack.arg(&spec))?;
        Ok(Some(
            out.join(format!("{}-{VERSION}-1.x86_64.rpm", self.name)),
        ))
    }

    fn spec(&self, tree: &Path) -> String {
        format!(
            "Name: {}\nVersion: {VERSION}\nRelease: 1\nSummary: {}\nLicense: MIT OR Apache-2.0\n\
             AutoReqProv: no\n%global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n\
             %description\n{}\n%install\ncp -a {}/. %{{buildroot}}/\n\
             %files\n%defattr(-,root,root)\n/usr/bin/*\n/usr/share/doc/*\n{}",
            self.name,
            self.about,
            self.about,
            tree.display(),
            if self.name == "haltwise" { SHARED } else { "" },
        )
    }
}

/// As LICENSE-MIT names who made it. There is no address that would reach them, and Debian wants one.
const MAINTAINER: &str = "The haltwise authors <haltwise@maintainers.invalid>";

/// Ends the service before its program goes; it is not enabled unless the administrator enabled it.
const STOP: &str = "#!/bin/sh\nset -e\nif [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then\n    \
                    systemctl disable --now haltwise-record.service haltwise-metrics.service haltwise-pilot.service haltwise-costs.timer || true\nfi\n";

const THIRD: &str = "THIRD-PARTY-LICENSES";

const SHARED: &str = "/usr/lib/haltwise/*\n/usr/lib/systemd/system/*\n/usr/share/haltwise/*\n/usr/share/man/man1/*\n/usr/share/bash-completion/completions/*\n\
                      /usr/share/fish/vendor_completions.d/*\n/usr/share/zsh/site-functions/*\n";

const COPYRIGHT: &str = "haltwise: MIT or Apache-2.0, at your choice; its BPF programs: MIT or GPL-2.0.\n\
                         The program contains libelf (LGPL-3.0+ or GPL-2.0+), zlib, libbpf (BSD-2-Clause or \
                         LGPL-2.1), glibc (LGPL-2.1+) and Rust crates with permissive licences: \
                         THIRD-PARTY-LICENSES has their texts. `cargo xtask dist` makes it from source, with other versions of these too.\n";

/// Packs `what` of a folder, so that the same files give the same bytes.
fn tar(file: &Path, folder: &Path, what: &str) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
    ]);
    tar.arg("-C").arg(folder).arg("-czf").arg(file).arg(what);
    tool::run(&mut tar)
}
