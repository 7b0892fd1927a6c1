//! VMs with names of 100 kB.

use std::path::Path;

use haltwise_core::event::{Facts, WakeSource};

use super::super::guest::Guest;
use super::super::many::GAPS;
use super::super::{in_order, record, scenarios};

/// Sixteen VMs, whose names have markup and marks that turn the writing about.
pub(super) fn write(dir: &Path) {
    let fleet = scenarios::named("fleet");
    let name = |vm| format!("</script><b>{vm}\u{202e}\"'>{}", "x&y<z> ".repeat(14_000));
    let info = super::info_of_vms(16, name);
    let mut facts = Facts::default();
    for vm in 0..16 {
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
