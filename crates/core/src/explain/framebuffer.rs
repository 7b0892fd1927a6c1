//! Writes to video memory that is emulated byte by byte.
//!
//! Each access to the VGA window (0xa0000 to 0xbffff) or to a frame buffer that is not plain memory
//! exits, and the VMM does it. Sharing the page with the device model instead was 5 to 1000 times
//! faster (Intel Technology Journal 10(3), 2006). Elsewhere than in the VGA window it is a frame
//! buffer if most accesses fall into one contiguous run of at least 16 pages: 64 KiB, VGA's smallest
//! window. Registers of devices lie in fewer.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "emulated-framebuffer",
    title: "video memory emulated access by access",
    source: "Intel Technology Journal 10(3), 2006; handle_ept_misconfig, npf_interception",
    look: |evidence| evidence.each_about(SubKey::Mmio, of_guest),
};

/// Share of all accesses to emulated memory.
const DOMINANT: f64 = 0.5;

const PAGES: u64 = 16;

const PAGE: u64 = 4096;

const VGA: std::ops::RangeInclusive<u64> = 0xa0..=0xbf;

const LINEAR: Remedy = Remedy::new(
    Does::SparesExits,
    "A linear frame buffer or virtio-gpu: QEMU `-device virtio-vga`; in the guest a graphics \
     driver in place of VGA text mode, or a serial console.",
    "It holds from the VM's next start; a frame buffer takes host memory of the size of the screen.",
    "A guest without a driver for it shows no picture; a serial console exits for each character.",
);

/// A run of pages that follow each other, and what went to them.
#[derive(Default)]
struct Run {
    first: u64,
    last: u64,
    tally: Tally,
}

impl Run {
    fn is_video(&self) -> bool {
        self.is_vga() || self.last - self.first + 1 >= PAGES
    }

    fn is_vga(&self) -> bool {
        VGA.contains(&self.first) && VGA.contains(&self.last)
    }
}

fn runs(exits: &ExitAccount) -> Vec<Run> {
    let pages = grouped(exits, &[Kind::MmioRead, Kind::MmioWrite], |address| {
        address / PAGE
    });
    let mut runs: Vec<Run> = Vec::new();
    for (page, tally) in pages {
        match runs.last_mut() {
            Some(run) if run.last + 1 == page => {
                run.last = page;
                run.tally.fold(&tally);
            }
            _ => runs.push(Run {
                first: page,
                last: page,
                tally,
            }),
        }
    }
    runs
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let runs = runs(exits);
    let all = total(runs.iter().map(|run| run.tally.count));
    let run = runs.iter().max_by_key(|run| run.tally.count)?;
    let share = Share::of(run.tally.count, all)?;
    let per_s = guest.storm(run.tally.count)?;
    if !share.is_from(DOMINANT) || !run.is_video() {
        return None;
    }
    let time_ns = run.tally.time_ns();
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} of the accesses to emulated memory are within {:#x} to {:#x}: {}, {}; they {}.",
            percent(share.share),
            run.first * PAGE,
            run.last * PAGE + PAGE - 1,
            run.tally.count,
            rate(per_s),
            took(run.tally.time_ns()),
        ),
        cause: if run.is_vga() {
            "That is the VGA window: in text mode and planar modes every byte drawn is an exit to the \
             VMM."
        } else {
            "A run of pages as long as a frame buffer is emulated access by access instead of being \
             mapped as memory."
        }
        .to_owned(),
        remedies: vec![LINEAR],
        cost: (time_ns > 0).then(|| Cost::cpu(guest.per_s(time_ns))),
        sure: if run.is_vga() {
            Sure::Certain
        } else {
            Sure::Possible
        },
    })
}
