//! The halts that go into the file.
//!
//! A browser replays some ten thousand halts between two frames, and a file that people send should
//! stay below 2 MB. So of a long recording every n-th stretch of time is kept, whole, with all halts of
//! all vCPUs in it: a rule that goes from halt to halt needs its halts one after the other. The page
//! says how many of how many these are.

use std::collections::BTreeMap;

use haltwise_capture::capture::Capture;
use haltwise_core::event::Halt;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Mode;
use haltwise_core::replay::session::{Seat, SessionError};

use self::playable::Playable;
use super::overview::{Gather, Overview};
use crate::exit::Failure;
use crate::replay::play::{Clock, each_halt};
use crate::report::recording::Recording;
use crate::tune::seek::Sought;

pub(crate) mod packed;
pub(crate) mod playable;

/// Halts that are kept, about: some 15 bytes each in the file.
const MOST: u64 = 32_000;

/// vCPUs whose halts are kept: those that halt most. Of more, each would have a handful.
const SEATS: usize = 256;

/// Stretches that are kept of a long recording: enough to see it at many times, few enough that each
/// holds hundreds of halts.
const STRETCHES: u64 = 48;

/// The halts that are kept.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// vCPU by vCPU; those that could not be placed last.
    pub(crate) seats: Vec<SampledSeat>,
    /// Stretches that were kept, in nanoseconds since the start: from, to.
    pub(crate) stretches: Vec<(u64, u64)>,
    /// vCPUs that are left out, for there are too many.
    pub(crate) seats_left_out: usize,
    /// How many halts these are.
    pub(crate) halts: u64,
    /// Of how many.
    pub(crate) of: u64,
    /// What can be replayed of them; `None` if nothing was recommended either.
    pub(crate) playable: Option<Playable>,
}

/// The halts of one vCPU.
#[derive(Debug)]
pub(crate) struct SampledSeat {
    /// Whose.
    pub(crate) seat: Seat,
    /// In order.
    pub(crate) halts: Vec<Halt>,
}

impl Sampled {
    /// Whether every halt is here.
    pub(crate) fn is_whole(&self) -> bool {
        self.halts == self.of
    }

    /// Takes what a replay needs from the search.
    pub(crate) fn make_playable(&mut self, sought: &Sought) -> Result<(), Failure> {
        self.playable = Playable::new(self, sought)?;
        Ok(())
    }
}

/// Which stretches are kept, and what is in them.
#[derive(Debug)]
struct Keep {
    start_ns: u64,
    stretch_ns: u64,
    every: u64,
    kept: BTreeMap<u64, Vec<Halt>>,
    halts: u64,
    of: u64,
}

impl Keep {
    fn new(start_ns: u64, span_ns: u64, halts: u64) -> Self {
        let every = halts.div_ceil(MOST).max(1);
        let stretch_ns = if every == 1 {
            u64::MAX
        } else {
            (span_ns / (every * STRETCHES)).max(1)
        };
        Self {
            start_ns,
            stretch_ns,
            every,
            kept: BTreeMap::new(),
            halts: 0,
            of: 0,
        }
    }

    fn halt(&mut self, halt: &Halt) {
        self.of += 1;
        let since_ns = halt.start_ns.saturating_sub(self.start_ns);
        let stretch = since_ns / self.stretch_ns;
        // Where everything happens within one stretch, its beginning must do.
        if !stretch.is_multiple_of(self.every) || self.halts >= 2 * MOST {
            return;
        }
        self.kept.entry(stretch).or_default().push(*halt);
        self.halts += 1;
        if self.halts > MOST + MOST / 2 && self.kept.len() > 1 {
            self.thin();
        }
    }

    /// Halts came more densely here than on average: every other stretch goes.
    fn thin(&mut self) {
        self.every = self.every.saturating_mul(2);
        let every = self.every;
        self.kept.retain(|stretch, _| stretch.is_multiple_of(every));
        let lengths = self.kept.values().map(|halts| halts.len() as u64);
        self.halts = lengths.sum();
    }

    fn finish(self, end_ns: u64) -> Sampled {
        let span_ns = end_ns.saturating_sub(self.start_ns);
        let stretch = |n: u64| {
            let from = n.saturating_mul(self.stretch_ns).min(span_ns);
            (from, from.saturating_add(self.stretch_ns).min(span_ns))
        };
        // Stretches without a halt were looked at as well.
        let last = span_ns.saturating_sub(1) / self.stretch_ns;
        let stretches = (0..=last / self.every).map(|n| stretch(n * self.every));
        let mut seats: BTreeMap<(bool, Seat), Vec<Halt>> = BTreeMap::new();
        for halt in self.kept.into_values().flatten() {
            let seat = Seat::of(&halt);
            let halts = seats.entry((seat.vm.is_none(), seat)).or_default();
            // A halt that steps back in time belongs to no replay.
            if halts
                .last()
                .is_none_or(|last| halt.start_ns >= last.start_ns)
            {
                halts.push(halt);
            }
        }
        let seats = seats.into_iter();
        let mut seats: Vec<SampledSeat> = seats
            .map(|((_, seat), halts)| SampledSeat { seat, halts })
            .collect();
        let seats_left_out = seats.len().saturating_sub(SEATS);
        if seats_left_out > 0 {
            seats.sort_by_key(|one| std::cmp::Reverse(one.halts.len()));
            seats.truncate(SEATS);
            seats.sort_by_key(|one| (one.seat.vm.is_none(), one.seat));
        }
        Sampled {
            halts: seats.iter().map(|seat| seat.halts.len() as u64).sum(),
            seats,
            stretches: stretches.collect(),
            seats_left_out,
            of: self.of,
            playable: None,
        }
    }
}

/// Reads the capture once: the halts that are kept, and what vCPUs did over time.
pub(crate) fn read(
    capture: &Capture,
    recording: &Recording,
    only: Option<&[VmIndex]>,
) -> Result<(Option<Sampled>, Overview), Failure> {
    let span_ns = recording.end_ns.saturating_sub(recording.start_ns);
    let mut overview = Gather::new(recording.start_ns, span_ns);
    if recording.mode != Mode::Full {
        return Ok((None, overview.finish()));
    }
    let wanted =
        |vm: Option<VmIndex>| only.is_none_or(|vms| vm.is_some_and(|vm| vms.contains(&vm)));
    let places = recording
        .ledger
        .places()
        .filter(|(place, _)| wanted(place.vm));
    let halts = places.map(|(_, account)| account.halts).sum();
    let mut keep = Keep::new(recording.start_ns, span_ns, halts);
    let mut clock = Clock::start(capture);
    let read = each_halt(capture, &mut clock, "sampling", |halt| {
        if wanted(halt.vm) {
            keep.halt(halt);
            overview.halt(halt);
        }
        Ok::<(), SessionError>(())
    });
    // What broke off counts up to there; the report has said so already.
    if !recording.damaged {
        read?;
    }
    Ok((Some(keep.finish(recording.end_ns)), overview.finish()))
}

#[cfg(test)]
mod test;
