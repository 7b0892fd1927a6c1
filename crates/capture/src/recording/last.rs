//! The last `capture.json` of a recording whose disk is full: made to fit into the room that was kept for it.

use std::collections::BTreeSet;
use std::io;

use haltwise_core::recording::Roster;

use super::backlog::reduced;
use crate::info::{self, CaptureInfo, not_written};
use crate::table::Table;

/// Its text in at most `room` bytes: counts in fewer rows first, then without the VMs that came last, which are
/// counted as lost with their vCPUs. How the recording ended and what was lost is always there.
pub(super) fn fitted(mut info: CaptureInfo, room: u64) -> io::Result<Vec<u8>> {
    let fits = |info: &CaptureInfo| info::text(info).is_ok_and(|text| text.len() as u64 <= room);
    let counts = std::mem::take(&mut info.unwritten);
    info.unwritten = reduced(counts, |counts| {
        counts.clone_into(&mut info.unwritten);
        fits(&info)
    });
    if !fits(&info) {
        let whole = info.clone();
        // The first number of VMs with which it is too long.
        let (mut low, mut high) = (0, whole.roster.vms.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            info = with_first_vms(&whole, middle);
            if fits(&info) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        info = with_first_vms(&whole, low.saturating_sub(1));
    }
    info::text(&info)
}

/// The same with no more than so many VMs.
fn with_first_vms(whole: &CaptureInfo, vms: usize) -> CaptureInfo {
    let Roster { vms: all, vcpus } = &whole.roster;
    let kept = all.iter().take(vms).map(|vm| vm.index);
    let kept: BTreeSet<_> = kept.collect();
    let mut info = whole.clone();
    info.roster.vms.truncate(vms);
    info.roster.vcpus.retain(|vcpu| kept.contains(&vcpu.vm));
    let gone = [
        (Table::Vms, all.len() - info.roster.vms.len()),
        (Table::Vcpus, vcpus.len() - info.roster.vcpus.len()),
    ];
    for (table, rows) in gone {
        if rows > 0 {
            *info.lost.entry(not_written(table)).or_default() += rows as u64;
        }
    }
    info
}

#[cfg(test)]
mod test;
