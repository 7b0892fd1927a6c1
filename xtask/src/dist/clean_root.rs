//! Tests of the packages in user spaces that have nothing of ours and none of our tools: the .deb is installed, run,
//! asked beside a VM, upgraded, removed and purged in Debian 11, 12 and 13, the archive's program is run there, and the
//! .rpm is asked by rpm's own tools.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::package::{Package, VERSION};
use crate::{say, tool};

/// Debian 11, 12 and 13: glibc 2.31, 2.36 and 2.41.
const RELEASES: [&str; 3] = ["bullseye", "bookworm", "trixie"];

/// Does it; says why where it cannot.
pub(super) fn check(package: &Package, out: &Path) -> Result<()> {
    rpm(package, out)?;
    let is_root = tool::ask(Command::new("id").arg("-u"))?.trim() == "0";
    let Some(bootstrap) = tool::find("mmdebstrap").filter(|_| is_root) else {
        say::skipped("clean roots of Debian: need root and mmdebstrap");
        return Ok(());
    };
    for release in RELEASES {
        let dir = tempfile::tempdir().context("a folder for the clean root")?;
        let host = dir.path().join("root");
        let mut fetch = Command::new(&bootstrap);
        fetch.args(["--quiet", "--variant=minbase", release]);
        if let Err(error) = tool::run(fetch.arg(&host)) {
            say::skipped(&format!("Debian {release}: {error:#}"));
            continue;
        }
        in_root(package, out, dir.path(), &host).with_context(|| format!("in Debian {release}"))?;
        say::note(&format!(
            "{release}: the archive's program runs; the .deb installed, ran, upgraded and purged, and left nothing; the \
             preloaded library loads"
        ));
    }
    Ok(())
}

fn in_root(package: &Package, out: &Path, dir: &Path, host: &Path) -> Result<()> {
    let newer = format!("{VERSION}+1");
    let tree = out.join("tree").join(package.name);
    let Some(upgrade) = package.deb(&tree, dir, &newer)? else {
        return Ok(());
    };
    let first = out.join(format!("{}_{VERSION}_amd64.deb", package.name));
    let archive = out.join(package.archive_name());
    for (from, to) in [
        (first.as_path(), "first.deb"),
        (upgrade.as_path(), "newer.deb"),
        (archive.as_path(), "archive.tar.gz"),
    ] {
        std::fs::copy(from, host.join(to)).with_context(|| format!("copy {to}"))?;
    }
    let before = files(host)?;
    let unpack = "mkdir /alone && tar -C /alone -xf /archive.tar.gz && /alone/bin/haltwise --version && rm -r /alone";
    let version = inside(host, unpack)?;
    ensure!(version.starts_with("haltwise "), "it says {version}");
    inside(host, "dpkg -i /first.deb >/dev/null && haltwise --version")?;
    // Whatever the dynamic linker says of the library, it says on stderr.
    let wrapped = "mount -t proc proc /proc; mkdir /link; ln -s /usr/lib/haltwise/haltwise-exec /link/printenv; \
                   LD_BIND_NOW=1 /link/printenv LD_PRELOAD 2>&1; rm -r /link; umount /proc";
    let preloaded = inside(host, wrapped)?;
    ensure!(
        preloaded.trim() == "/usr/lib/haltwise/libhaltwise_preload.so",
        "haltwise-exec started a program that says {preloaded}"
    );
    let doctor = inside(
        host,
        "mount -t proc proc /proc; haltwise status --check; umount /proc; true",
    )?;
    ensure!(
        doctor.contains("What can be recorded here"),
        "haltwise status --check says {doctor}"
    );
    answer(out, host)?;
    inside(host, "dpkg -i /newer.deb >/dev/null")?;
    let installed = inside(host, "dpkg-query -W -f '${Version}' haltwise")?;
    ensure!(installed == newer, "{installed} is installed, not {newer}");
    inside(
        host,
        "dpkg --remove haltwise >/dev/null && dpkg --purge haltwise 2>&1",
    )?;
    let left: Vec<String> = files(host)?.difference(&before).cloned().collect();
    if !left.is_empty() {
        bail!("after the purge there is still {left:?}");
    }
    Ok(())
}

/// First command of a newcomer, beside a VM: `haltwise` and nothing else. Without /dev, as in a container FROM scratch.
fn answer(out: &Path, host: &Path) -> Result<()> {
    if !Path::new("/dev/kvm").exists() {
        say::skipped("the first answer: no /dev/kvm");
        return Ok(());
    }
    let lab = out.join("tree/haltwise-lab/usr/bin/haltwise-lab");
    let run = ["run", "pingpong", "--gap", "fixed:200us", "--duration"];
    let mut vm = Command::new(lab);
    vm.args(run).args(["1m", "--name", "first"]);
    let mut vm = vm.stdout(Stdio::null()).spawn().context("start a VM")?;
    let began = Instant::now();
    let said = inside(
        host,
        "mount -t proc proc /proc; mount -t sysfs sysfs /sys; mkdir /kept; mv /dev /away; \
         TMPDIR=/kept haltwise; mv /away /dev; umount /sys /proc; rm -r /kept",
    );
    let elapsed = began.elapsed();
    drop(vm.kill());
    vm.wait().context("wait for the VM")?;
    let said = said?;
    ensure!(
        said.contains("VM in ") && said.contains("advice: "),
        "haltwise says {said}"
    );
    say::note(&format!("haltwise answered in {}", say::seconds(elapsed)));
    Ok(())
}

/// Whether rpm's own tools read the .rpm, and find in it the program that runs.
fn rpm(package: &Package, out: &Path) -> Result<()> {
    let tools = ["rpm", "rpm2cpio", "cpio"];
    if tools.into_iter().any(|name| tool::find(name).is_none()) {
        say::skipped("the .rpm is not read: needs rpm, rpm2cpio and cpio");
        return Ok(());
    }
    let file = out.join(format!("{}-{VERSION}-1.x86_64.rpm", package.name));
    let mut query = Command::new("rpm");
    let named = tool::ask(query.args(["-qp", "--nosignature"]).arg(&file))?;
    let expected = format!("{}-{VERSION}-1.x86_64", package.name);
    ensure!(named.trim() == expected, "rpm -qp says {named}");
    let dir = tempfile::tempdir().context("a folder for the .rpm")?;
    let mut unpack = Command::new("sh");
    unpack.args([
        "-c",
        "rpm2cpio \"$0\" >archive && cpio -id --quiet <archive",
    ]);
    let file = std::path::absolute(&file)?;
    tool::run(unpack.arg(file).current_dir(dir.path()))?;
    let program = dir.path().join("usr/bin").join(package.name);
    let version = tool::ask(Command::new(program).arg("--version"))?;
    ensure!(version.starts_with("haltwise "), "it says {version}");
    say::note("rpm reads the .rpm, and its program runs");
    Ok(())
}

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
    let mut find = Command::new("find");
    find.current_dir(host).args([".", "-xdev", "-type", "f"]);
    for own in ["./var/lib/dpkg/*", "./var/log/*"] {
        find.args(["-not", "-path", own]);
    }
    let listed = tool::ask(&mut find)?;
    Ok(listed.lines().map(String::from).collect())
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn packed(says: &str, out: &Path) -> Package {
        let package = Package {
            name: "haltwise-lab",
            about: "A program that says its version",
        };
        let tree = out.join("tree").join(package.name);
        let (bin, doc) = (tree.join("usr/bin"), tree.join("usr/share/doc"));
        for dir in [&bin, &doc.join(package.name)] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::fs::write(doc.join(package.name).join("copyright"), "ours\n").unwrap();
        let program = bin.join(package.name);
        std::fs::write(&program, format!("#!/bin/sh\necho {says}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(package.rpm(&tree, out).unwrap().is_some());
        package
    }

    #[test]
    fn an_rpm_is_read_by_rpms_own_tools_and_its_program_runs() {
        let tools = ["rpmbuild", "rpm", "rpm2cpio", "cpio"];
        if let Some(missing) = tools.into_iter().find(|name| tool::find(name).is_none()) {
            say::skipped(&format!("{missing} is not installed"));
            return;
        }
        for (says, is_right) in [("haltwise 0.1.0", true), ("something else", false)] {
            let out = tempfile::tempdir().unwrap();
            let package = packed(says, out.path());
            assert_eq!(rpm(&package, out.path()).is_ok(), is_right, "{says}");
        }
        let out = tempfile::tempdir().unwrap();
        let package = packed("haltwise", out.path());
        let file = format!("{}-{VERSION}-1.x86_64.rpm", package.name);
        std::fs::write(out.path().join(file), "no package").unwrap();
        assert!(rpm(&package, out.path()).is_err());
    }
}
