//! A host full of VMs, and VMs with names of 100 kB.

use std::path::Path;

use haltwise_capture::recording::Recording;
use haltwise_core::event::{Facts, Observable, WakeSource};

use super::super::guest::Guest;
use super::super::{START_NS, info_of, knobs, scenarios};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// `vm-00` to `vm-63`.
    Plain,
    /// Sixteen of 100 kB each, with markup and marks that turn the writing about.
    Long,
}

/// Gaps of the VMs in turn: servers, batches, desktops, and those in between.
const GAPS: [&str; 4] = [
    "exp:40us",
    "uniform:3800us:4ms",
    "bimodal:0.8:15us:2ms",
    "exp:300us",
];

pub(super) fn write(dir: &Path, names: Names) {
    let count = match names {
        Names::Plain => 64,
        Names::Long => 16,
    };
    let fleet = scenarios::all()
        .into_iter()
        .find(|it| it.name == "fleet")
        .unwrap();
    let mut info = info_of(&fleet);
    info.knobs = knobs(START_NS, "200000");
    let template = fleet.roster.vms[0].clone();
    let mut facts = Facts::default();
    info.roster.vms.clear();
    info.roster.vcpus.clear();
    for vm in 0..count {
        let mut one = template.clone();
        one.index.0 = vm;
        one.key.pid.0 = 5_000 + vm;
        one.observable = Observable::Yes;
        one.name = match names {
            Names::Plain => format!("vm-{vm:02}"),
            Names::Long => format!("</script><b>{vm}\u{202e}\"'>{}", "x&y<z> ".repeat(14_000)),
        };
        info.roster.vms.push(one);
        let guest = Guest {
            vm,
            seed: 100 + u64::from(vm),
            gaps: GAPS[vm as usize % GAPS.len()],
            wakes: &[WakeSource::Timer, WakeSource::Device, WakeSource::Ipi],
            ..Guest::default()
        };
        guest.run(&mut facts);
    }
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts.windows.sort_by_key(|change| change.time_ns);
    facts.host = fleet.facts.host;
    let mut recording = Recording::create(dir, info).unwrap();
    recording.append(&facts).unwrap();
    recording.finish(fleet.ending.unwrap()).unwrap();
}
