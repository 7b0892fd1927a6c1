//! The pilot on VMs of a stock QEMU: it sets a VM's ceiling and the host's parameters, leaves alone what others write, and is
//! killed at its steps; undo restores what was there, to the byte. `piloted.sh` judges values and exit codes, what
//! documents say is judged here.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::Boot;
use super::super::check::{Check, Found};
use super::super::deb::Kernel;
use super::super::guest::Left;
use super::super::reported::{list, read};
use super::CEILING_NS;

pub(in crate::kernels) const NAME: &str = "piloted";

/// A trial of 18 periods takes a minute, and there are some twenty.
const LIMIT: Duration = Duration::from_mins(45);

/// With two CPUs, most boots of this length are spoilt.
const CPUS: u32 = 1;

/// The VM whose QEMU was started by haltwise-exec, and the one that follows the host's parameters.
const VMS: [&str; 2] = ["web1", "web2"];

/// When the pilot is killed in a trial, in seconds after it said what it tries.
const MOMENTS: [&str; 3] = ["0.3", "2.3", "9.1"];

fn ceiling_of(status: &Value, vm: &str) -> Option<u64> {
    let of = list(status, "vms").iter().find(|it| it["name"] == vm);
    of.and_then(|it| it["ceiling_ns"].as_u64())
}

pub(in crate::kernels) fn boot(kernel: &Kernel) -> Result<Boot> {
    let judge = |left: &Left| {
        let dir = left.out_dir.join("piloted");
        VMS.map(|vm| (vm, judge(&dir, vm))).into()
    };
    let check = Check::new(NAME, script(), LIMIT, judge);
    let (mut guest, checks) = super::booted(kernel, check)?;
    guest.cpus = CPUS;
    Ok((guest, checks))
}

pub(super) fn script() -> String {
    let mut text = String::from(include_str!("piloted.sh"));
    for vm in VMS {
        // Formatting into a String cannot fail.
        let _ = writeln!(text, "piloted {vm} '{}'", MOMENTS.join(" "));
    }
    super::scripted("", "initramfs", LIMIT, &text)
}

fn judge(dir: &Path, vm: &str) -> Result<Found> {
    let mut found = Found::default();
    let mut steps: Vec<String> = ["began", "said", "set", "keep", "kept"]
        .map(str::to_owned)
        .into();
    steps.extend(MOMENTS.map(|seconds| format!("at-{seconds}")));
    let mut in_force = 0;
    for step in &steps {
        let path = |what: &str| dir.join(format!("{step}-{vm}.{what}"));
        let status: Value = read(&path("status"))?;
        let is_empty = |name: &str| status[name].as_array().is_some_and(Vec::is_empty);
        let follows = |vm: &&str| ceiling_of(&status, vm) == Some(u64::from(CEILING_NS));
        found.require(
            is_empty("steps") && is_empty("theirs") && VMS.iter().all(follows),
            format!("{step} {vm}: after undo: {status:?}"),
        );
        // The baseline that a killed pilot left names what it set; there is none where nothing was set.
        let left: Value = read(&path("left")).unwrap_or_default();
        in_force += u64::from(!list(&left, "held").is_empty());
    }
    found.require(
        in_force >= 2,
        format!("{vm}: only {in_force} kills found a setting in force"),
    );
    let kept: Value = read(&dir.join(format!("kept-{vm}.kept")))?;
    let pilot: Value = read(&dir.join(format!("kept-{vm}.json")))?;
    let of_vm = list(&pilot, "vms").iter().find(|it| it["vm"] == vm);
    let of_vm = of_vm.context("the pilot does not know it")?;
    let share = |what: &str| {
        let value = of_vm[what]["value"].as_f64();
        value.with_context(|| format!("kept and not {what}: {of_vm}"))
    };
    let (predicted, measured) = (share("predicted")?, share("measured")?);
    let decided = |what: &str| pilot["decisions"][what].as_u64();
    let ceiling_ns = ceiling_of(&kept, vm);
    found.say(format_args!(
        "{} kills, {in_force} of them with a setting in force; kept {ceiling_ns:?} ns, predicted {:+.0} %, measured {:+.0} %",
        steps.len() - 1,
        100.0 * predicted,
        100.0 * measured,
    ));
    let is_kept =
        of_vm["state"] == "kept" && decided("kept") > Some(0) && decided("failed") == Some(0);
    let is_lower = ceiling_ns.is_some_and(|ns| ns < u64::from(CEILING_NS));
    found.require(
        is_kept && is_lower && measured <= -0.02,
        format!("{vm}: {pilot}, {kept:?}"),
    );
    if vm == VMS[1] {
        let foreign: Value = read(&dir.join("foreign.json"))?;
        found.require(
            foreign["decisions"]["hands_off"].as_u64() > Some(0),
            format!("foreign: {foreign}"),
        );
    }
    Ok(found)
}
