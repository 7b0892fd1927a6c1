//! `cargo xtask demo`: the whole loop. Boots a lab VM under the ceiling in force, records every halt of
//! it, reports, seeks a better setting, proves it, and ends with one screen: before, predicted, after.
//!
//! Nothing of this machine is changed: the setting is a ceiling of the lab's own VM. Where this machine
//! has no usable /dev/kvm, or does not let us record, the loop runs inside a stock kernel under
//! emulation, with that kernel's own parameters, and the demo says so.

mod emulated;
mod here;
mod screen;
mod shell;

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{kernels, say, tool};

/// A server that has its answer at hand in seven cases of ten and waits for a disk in the others: the
/// ceiling in force polls through both.
const LOAD: &str = "pingpong --name demo --gap bimodal:0.7:20us:150us --host-wait spin";

/// What `cargo xtask demo` takes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Args {
    /// Use a stock kernel under emulation although this machine could do it itself
    #[arg(long)]
    emulated: bool,
}

/// Runs the demo.
pub(crate) fn run(args: Args) -> Result<()> {
    say::step("building haltwise and the lab");
    kernels::build()?;
    match obstacle() {
        None if !args.emulated => here::run(),
        Some(reason) => {
            say::step(&format!(
                "{reason}: the demo runs inside a stock kernel, under emulation"
            ));
            say::note("times there are stretched some ten times; the rules are the kernel's own");
            emulated::run()
        }
        None => emulated::run(),
    }
}

/// Why the demo cannot run on this machine itself.
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
