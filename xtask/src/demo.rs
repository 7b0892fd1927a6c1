//! `cargo xtask demo`: boots a lab VM under a ceiling of 200 us, records every halt of it, predicts from that
//! recording alone what the recommended ceiling would do, gives the VM that ceiling, and measures it.
//!
//! Nothing of this machine is changed: the setting is a ceiling of the lab's own VM. Where this machine
//! has no usable /dev/kvm, or does not let us record, a loop of the same kind runs inside a stock kernel under
//! emulation, with that kernel's own parameters, and the demo says so.

mod emulated;
mod fleet;
mod here;
mod screen;
mod shell;

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{say, tool};

/// What is built: this program too, so that one call of cargo builds what they share once.
const PACKAGES: &str = "--package=haltwise --package=haltwise-lab --package=xtask";

/// What `cargo xtask demo` takes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Args {
    /// Use a stock kernel under emulation although this machine could do it itself
    #[arg(long)]
    emulated: bool,
    /// Show what a fleet should set instead, from made-up hosts
    #[arg(long, conflicts_with = "emulated")]
    fleet: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.fleet {
        return fleet::run();
    }
    say::step("building haltwise and the lab");
    let shell = shell::Shell::new(PACKAGES)?;
    match obstacle() {
        None if !args.emulated => here::run(&shell),
        Some(reason) => {
            say::step(&format!(
                "{reason}: the demo runs inside a stock kernel, under emulation"
            ));
            say::note("times there are stretched some ten times; the rules are the kernel's own");
            emulated::run(&shell)
        }
        None => emulated::run(&shell),
    }
}

fn obstacle() -> Option<String> {
    let kvm = Path::new("/dev/kvm");
    if !kvm.exists() {
        return Some("there is no /dev/kvm here".into());
    }
    if let Err(error) = std::fs::File::options().read(true).write(true).open(kvm) {
        return Some(format!("/dev/kvm cannot be used here ({error})"));
    }
    let is_root = tool::ask(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    (!is_root).then(|| "recording needs root".into())
}
