//! Which QEMU emulates a machine: the installed one, or Debian's backport of a later one.
//!
//! A kernel patches its own code, with a breakpoint in place meanwhile, whenever tracepoints get programs. QEMU before 8.1
//! can translate such code while another CPU changes it, and keep what it made of it ("accel/tcg: Always lock pages
//! before translation"): CPUs that stand still, stray breakpoints and corrupted stacks, in every third boot here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::deb;
use crate::{say, tool};

pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// The first version, major and minor, that locks pages before it translates them.
const SOUND: (u32, u32) = (8, 1);

/// Debian's packages that a machine without a display needs. What else they depend on is there with the installed QEMU.
const PACKAGES: [&str; 4] = [
    "qemu-system-x86",
    "qemu-system-common",
    "qemu-system-data",
    "seabios",
];

/// Where those packages keep what QEMU loads.
const DATA: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Emulator {
    program: PathBuf,
    /// Folders of its own files, where it does not know them.
    data: Vec<PathBuf>,
}

impl Emulator {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for dir in &self.data {
            command.arg("-L").arg(dir);
        }
        command
    }
}

/// A sound emulator: the installed one, the one in `cache`, or a new one through apt.
///
/// # Errors
/// Where none is installed and none can be fetched. For callers that is a reason to skip.
pub(crate) fn find(cache: &Path, refresh: bool) -> Result<Emulator> {
    let program = tool::find(PROGRAM)
        .with_context(|| format!("{PROGRAM} is not installed; run tools/setup"))?;
    let installed = Emulator {
        program,
        data: Vec::new(),
    };
    let version = version(&installed)?;
    if version >= SOUND {
        return Ok(installed);
    }
    let home = cache.join("qemu");
    if !refresh && let Ok(emulator) = unpacked(&home) {
        return Ok(emulator);
    }
    let (major, minor) = version;
    say::note(&format!(
        "QEMU {major}.{minor} may run code that is being patched: fetching a later one from Debian's backports"
    ));
    deb::fetch_packages(|own| format!("{own}-backports"), &PACKAGES, &home)?;
    unpacked(&home)
}

fn unpacked(home: &Path) -> Result<Emulator> {
    let emulator = Emulator {
        program: home.join("usr/bin").join(PROGRAM),
        data: DATA.map(|dir| home.join(dir)).into(),
    };
    let (major, minor) = version(&emulator)?;
    if (major, minor) < SOUND {
        bail!("Debian's backports have QEMU {major}.{minor} only");
    }
    Ok(emulator)
}

/// Its version, which it can only tell where all its libraries are there.
fn version(emulator: &Emulator) -> Result<(u32, u32)> {
    let said = tool::ask(Command::new(&emulator.program).arg("--version"))?;
    parse(&said).with_context(|| format!("no version of QEMU in `{said}`"))
}

/// Major and minor number in what `--version` prints.
fn parse(said: &str) -> Option<(u32, u32)> {
    let (_, rest) = said.split_once("version ")?;
    let mut numbers = rest.split(|char: char| !char.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn versions_as_qemu_prints_them() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright";
        assert_eq!(parse(debian), Some((7, 2)));
        assert_eq!(parse("QEMU emulator version 10.0.2\n"), Some((10, 0)));
        assert!(parse(debian) < Some(SOUND));
        assert!(parse("QEMU emulator version 8.0.5") < Some(SOUND));
        assert!(parse("QEMU emulator version 8.1.0") >= Some(SOUND));
        assert_eq!(parse("bash: no such file"), None);
    }
}
