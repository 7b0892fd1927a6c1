//! VMs with names of 100 kB.

use std::path::Path;

use haltwise_core::event::{Facts, Observable, WakeSource};

use super::super::guest::Guest;
use super::super::many::GAPS;
use super::super::{in_order, info_of, record, scenarios};

/// Sixteen VMs, whose names have markup and marks that turn the writing about.
pub(super) fn write(dir: &Path) {
    let fleet = scenarios::named("fleet");
    let mut info = info_of(&fleet);
    let template = fleet.roster.vms[0].clone();
    let mut facts = Facts::default();
    info.roster.vms.clear();
    info.roster.vcpus.clear();
    for vm in 0..16 {
        let mut one = template.clone();
        one.index.0 = vm;
        one.key.pid.0 = 5_000 + vm;
        one.observable = Observable::Yes;
        one.name = format!("</script><b>{vm}\u{202e}\"'>{}", "x&y<z> ".repeat(14_000));
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
    in_order(&mut facts);
    facts.host = fleet.facts.host;
    record(dir, info, &facts, fleet.ending);
}
