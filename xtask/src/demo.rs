//! `cargo xtask demo`: boot a lab VM, record every halt of it, print the report.
//!
//! Where this machine has no usable /dev/kvm, or does not let us record, the same loop runs inside
//! a stock kernel under emulation, and the demo says so.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{kernels, repo, say, tool};

/// The experiment: wakes that come soon, and wakes that come late.
const LAB: &str = "run pingpong --name demo --vcpus 2 --gap bimodal:0.7:30us:2ms --duration 5s";

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
        None if !args.emulated => here(),
        Some(reason) => {
            say::step(&format!(
                "{reason}: the demo runs inside a stock kernel, under emulation"
            ));
            say::note("times there are stretched some ten times; the rules are the kernel's own");
            emulated()
        }
        None => emulated(),
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

/// On this machine's own KVM.
fn here() -> Result<()> {
    let binaries = kernels::Binaries::beside_us()?;
    let out = repo::root().join("demo-out");
    let capture = out.join("capture");
    if capture.exists() {
        std::fs::remove_dir_all(&capture)
            .with_context(|| format!("remove the last demo's {}", capture.display()))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    say::step(&format!(
        "haltwise record -o demo-out/capture -- haltwise-lab {LAB}"
    ));
    let mut record = Command::new(&binaries.haltwise);
    record
        .current_dir(repo::root())
        .args(["record", "-o", "demo-out/capture", "--"]);
    record.arg(&binaries.lab).args(LAB.split(' '));
    tool::run(&mut record)?;
    say::step("haltwise report demo-out/capture");
    let mut report = Command::new(&binaries.haltwise);
    tool::run(
        report
            .current_dir(repo::root())
            .args(["report", "demo-out/capture"]),
    )
}

/// Inside a stock kernel.
fn emulated() -> Result<()> {
    let script = format!(
        "set -o pipefail\n\
         echo '==> haltwise record -o capture -- haltwise-lab {LAB}'\n\
         haltwise record -o capture -- haltwise-lab {LAB} 2>&1 | cat || exit 1\n\
         echo '==> haltwise report capture'\n\
         haltwise report capture\n"
    );
    let Some(run) = kernels::run_in_newest(&script)? else {
        bail!("the demo needs /dev/kvm and root, or qemu and a stock kernel")
    };
    let begin = run.console.find("==> haltwise").unwrap_or(0);
    let shown = &run.console[begin..];
    let end = shown.find("init: results").unwrap_or(shown.len());
    for line in shown[..end].lines() {
        say::line(line);
    }
    if run.exit_code != 0 {
        bail!("haltwise returned {}", run.exit_code);
    }
    say::step(&format!(
        "the capture is {}",
        run.out_dir.join("capture").display()
    ));
    Ok(())
}
