//! The pilot on VMs of a stock QEMU: it sets a VM's ceiling and the host's parameters, leaves alone what others write, and is
//! killed at its steps; undo restores what was there, to the byte. `piloted.sh` judges values and exit codes, what
//! documents say is judged here.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::super::check::{Check, tell};
use super::super::guest::Left;
use super::super::reported::read;
use super::super::witness::Found;
use super::super::{Boot, Inside};
use super::CEILING_NS;

pub(in crate::kernels) const NAME: &str = "piloted";

/// A trial of 18 periods takes a minute, and there are some twenty.
const LIMIT: Duration = Duration::from_mins(45);

/// Of those with two, most are spoilt within so long a time.
const CPUS: u32 = 1;

/// The VM whose QEMU was started by haltwise-exec, and the one that follows the host's parameters.
const VMS: [&str; 2] = ["web1", "web2"];

/// When the pilot is killed in a trial, in seconds after it said what it tries.
const MOMENTS: [&str; 3] = ["0.3", "2.3", "9.1"];

#[derive(Debug, Deserialize)]
struct Status {
    steps: Vec<serde_json::Value>,
    theirs: Vec<serde_json::Value>,
    vms: Vec<Vm>,
}

#[derive(Debug, Deserialize)]
struct Vm {
    name: String,
    ceiling_ns: Option<u32>,
}

impl Status {
    fn ceiling_of(&self, vm: &str) -> Option<u32> {
        let of = self.vms.iter().find(|it| it.name == vm);
        of.and_then(|it| it.ceiling_ns)
    }
}

#[derive(Debug, Deserialize)]
struct Pilot {
    vms: Vec<Piloted>,
    decisions: Decisions,
}

#[derive(Debug, Deserialize)]
struct Decisions {
    kept: u64,
    hands_off: u64,
    failed: u64,
}

#[derive(Debug, Deserialize)]
struct Piloted {
    vm: String,
    state: String,
    predicted: Option<Interval>,
    measured: Option<Interval>,
}

#[derive(Debug, Deserialize)]
struct Interval {
    value: f64,
}

/// The emulated host and the check; `None` where QEMU's own files are missing.
pub(in crate::kernels) fn boot(inside: &Inside) -> Result<Option<Boot<'static>>> {
    let judge = |left: &Left| Ok(tell(NAME, &judge(&left.out_dir.join("piloted"))));
    let boot = super::booted(inside, Check::new(NAME, script(), LIMIT, judge))?;
    Ok(boot.map(|(guest, checks)| (guest.cpus(CPUS), checks)))
}

pub(super) fn script() -> String {
    let mut text = String::from(include_str!("host.sh"));
    text.push_str(&super::launched("", "initramfs", LIMIT));
    text.push_str(include_str!("piloted.sh"));
    for vm in VMS {
        // Formatting into a String cannot fail.
        let _ = writeln!(text, "piloted {vm} '{}'", MOMENTS.join(" "));
    }
    text.push_str("touch /run/over; for vm in web1 web2; do qmp $vm quit >/dev/null; done\nwait\nexit $failed\n");
    text
}

fn judge(dir: &Path) -> Found {
    let mut found = Found::default();
    for vm in VMS {
        if let Err(error) = judge_vm(dir, vm, &mut found) {
            found.disagree(format!("{vm}: {error:#}"));
        }
    }
    found
}

fn judge_vm(dir: &Path, vm: &str, found: &mut Found) -> Result<()> {
    let mut steps: Vec<String> = ["began", "said", "set", "keep", "kept"]
        .map(str::to_owned)
        .into();
    steps.extend(MOMENTS.map(|seconds| format!("at-{seconds}")));
    let mut in_force = 0;
    for step in &steps {
        let path = |what: &str| dir.join(format!("{step}-{vm}.{what}"));
        let status: Status = read(&path("status"))?;
        if !status.steps.is_empty()
            || !status.theirs.is_empty()
            || VMS
                .iter()
                .any(|vm| status.ceiling_of(vm) != Some(CEILING_NS))
        {
            found.disagree(format!("{step} {vm}: after undo: {status:?}"));
        }
        in_force += u64::from(is_set(&path("left")));
    }
    if in_force < 2 {
        found.disagree(format!(
            "{vm}: only {in_force} kills found a setting in force"
        ));
    }
    let kept: Status = read(&dir.join(format!("kept-{vm}.kept")))?;
    let pilot: Pilot = read(&dir.join(format!("kept-{vm}.json")))?;
    let of_vm = pilot.vms.iter().find(|it| it.vm == vm);
    let of_vm = of_vm.context("the pilot does not know it")?;
    let [Some(predicted), Some(measured)] = [&of_vm.predicted, &of_vm.measured] else {
        bail!("kept without a prediction or a measurement: {of_vm:?}");
    };
    let ceiling_ns = kept.ceiling_of(vm);
    let _ = write!(
        found.summary,
        "{vm}: {} kills, {in_force} of them with a setting in force; kept {ceiling_ns:?} ns, predicted {:+.0} %, measured {:+.0} %; ",
        steps.len() - 1,
        100.0 * predicted.value,
        100.0 * measured.value,
    );
    let is_kept = of_vm.state == "kept" && pilot.decisions.kept > 0 && pilot.decisions.failed == 0;
    if !is_kept || ceiling_ns.is_none_or(|ns| ns >= CEILING_NS) || measured.value > -0.02 {
        found.disagree(format!("{vm}: {pilot:?}, {kept:?}"));
    }
    if vm == VMS[1] {
        let foreign: Pilot = read(&dir.join("foreign.json"))?;
        if foreign.decisions.hands_off == 0 {
            found.disagree(format!("foreign: {foreign:?}"));
        }
    }
    Ok(())
}

/// Whether a baseline that a killed pilot left names what it set.
fn is_set(baseline: &Path) -> bool {
    #[derive(Deserialize)]
    struct Baseline {
        held: Vec<serde_json::Value>,
    }
    read(baseline).is_ok_and(|baseline: Baseline| !baseline.held.is_empty())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_baseline_without_entries_is_nothing_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("left");
        assert!(!is_set(&path));
        std::fs::write(&path, r#"{"schema": 1, "held": []}"#).unwrap();
        assert!(!is_set(&path));
        std::fs::write(&path, r#"{"schema": 1, "held": [{"ours": "0"}]}"#).unwrap();
        assert!(is_set(&path));
    }
}
