//! An hour of ten VMs with two vCPUs each, of half a dozen kinds: what a page is measured with.

use std::path::Path;

use haltwise_capture::recording::Recording;
use haltwise_core::event::{Facts, Halt, HostSample, WakeSource};

use super::super::guest::Guest;
use super::super::{START_NS, scenarios};

const HOUR_NS: u64 = 3_600_000_000_000;

/// Pieces that the hour is written in: memory holds one.
const PIECES: u64 = 120;

const GAPS: [&str; 6] = [
    "exp:40us",
    "exp:120us",
    "bimodal:0.8:15us:2ms",
    "uniform:900us:1100us",
    "exp:300us",
    "uniform:3800us:4ms",
];

/// Writes a capture with about so many halts.
pub(super) fn write(dir: &Path, halts: u64) {
    let info = super::info_of_vms(10, |vm| format!("tenant-{vm}"));
    let mut recording = Recording::create(dir, info).unwrap();
    let piece_ns = HOUR_NS / PIECES;
    let each = halts / PIECES / 20;
    for piece in 0..PIECES {
        recording.append(&facts(piece, piece_ns, each)).unwrap();
    }
    recording.finish(scenarios::ending(HOUR_NS)).unwrap();
}

/// A piece of the hour: each vCPU halts so often at its beginning, in one run, and then sleeps.
fn facts(piece: u64, piece_ns: u64, each: u64) -> Facts {
    let from_ns = START_NS + piece * piece_ns;
    let mut all = Facts::default();
    for place in 0..20_u32 {
        let guest = Guest {
            vm: place / 2,
            vcpu: place % 2,
            seed: piece * 100 + u64::from(place),
            gaps: GAPS[place as usize / 2 % GAPS.len()],
            wakes: &[WakeSource::Device, WakeSource::Timer, WakeSource::Ipi],
            from_ns,
            until_ns: from_ns + piece_ns,
            ..Guest::default()
        };
        let mut facts = Facts::default();
        guest.run_for(&mut facts, each);
        // Spread over the piece: the gaps stay, the guest runs for longer in between.
        let span_ns = facts.halts.last().map_or(1, Halt::end_ns) - from_ns;
        let pause_ns = (piece_ns.saturating_sub(span_ns) / each.max(1)).saturating_sub(1);
        for (n, halt) in (0..).zip(&mut facts.halts) {
            halt.start_ns += n * pause_ns;
        }
        all.halts.extend(facts.halts);
    }
    all.halts.sort_by_key(|halt| halt.start_ns);
    all.host = vec![HostSample {
        time_ns: from_ns,
        cpus: 4,
        busy_ns: piece * piece_ns,
        total_ns: 4 * piece * piece_ns,
        cpu_pressure_ns: Some(0),
        recorder_cpu_ns: piece,
        recorder_rss_bytes: 1 << 20,
        ..HostSample::default()
    }];
    all
}
