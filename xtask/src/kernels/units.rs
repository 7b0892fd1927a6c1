//! Our units under a systemd of this machine, which is the first process of a guest: `units/script.sh` judges.

use std::path::Path;

use anyhow::{Context, Result};

use super::check::{Check, Found};
use super::deb::Kernel;
use super::guest::Left;
use super::reported::text;
use super::{Boot, LIMIT, guest};
use crate::{repo, tool};

pub(super) const NAME: &str = "units";

const SCRIPT: &str = include_str!("units/script.sh");

const UNITS: [&str; 4] = [
    "haltwise-pilot.service",
    "haltwise-record.service",
    "haltwise-metrics.service",
    "haltwise-costs.service",
];

/// Targets that services wait for by default: there is nothing more to start here.
const TARGETS: [&str; 4] = ["sysinit", "basic", "network", "shutdown"];

/// Runs the script after systemd has started, and ends the guest.
const CHECK: &str = "[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /finish
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
";

const SYSTEMD: &str = "/lib/systemd/systemd";

/// The guest with systemd, and the check.
pub(super) fn boot(kernel: &Kernel) -> Result<Boot> {
    let systemctl = tool::find("systemctl").filter(|_| Path::new(SYSTEMD).exists());
    let systemctl = systemctl.context("units: systemd is not installed")?;
    let guest = guest(kernel)?;
    let root = &guest.root;
    root.program(SYSTEMD, Path::new(SYSTEMD))?;
    root.program("bin/systemctl", &systemctl)?;
    root.file("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")?;
    root.file("etc/group", "root:x:0:\n")?;
    root.file("etc/machine-id", "0123456789abcdef0123456789abcdef\n")?;
    let unit = |name: &str, text: &str| root.file(&format!("etc/systemd/system/{name}"), text);
    unit("check.service", CHECK)?;
    for target in TARGETS {
        unit(
            &format!("{target}.target"),
            "[Unit]\nDefaultDependencies=no\n",
        )?;
    }
    let contrib = repo::root().join("contrib");
    for name in UNITS {
        unit(name, &text(&contrib.join(name))?.replace("@BIN@", "/bin"))?;
    }
    root.program("etc/haltwise/pilot.toml", &contrib.join("pilot.toml"))?;
    let judge = |_: &Left| {
        let mut found = Found::default();
        found.say("started, confined, reloaded, watched, killed, acted, recorded");
        vec![(NAME, Ok(found))]
    };
    let check = Check::new(NAME, SCRIPT.to_owned(), 2 * LIMIT, judge);
    Ok((guest, vec![check]))
}
