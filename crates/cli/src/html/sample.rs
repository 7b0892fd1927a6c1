//! The halts that go into the file.
//!
//! The timeline goes down to single halts, and a file that people send should stay below 2 MB. So of a long
//! recording every n-th stretch of time is kept, whole, with all halts of all vCPUs in it. The page says how
//! many of how many these are. No figure is computed from them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Mode;
use haltwise_core::replay::sample::polled_ns;
use haltwise_core::replay::session::VcpuKey;
use haltwise_core::stats::total;

use crate::exit::Failure;
use crate::html::overview::{Gather, Overview};
use crate::reading::pass::{PassEnds, Sink};
use crate::reading::recording::Recording;
use crate::reading::select;

/// Halts that are kept, about: some 15 bytes each in the file.
const MOST: u64 = 32_000;

/// vCPUs whose halts are kept: those that halt most. Of more, each would have a handful.
const SEATS: usize = 256;

/// Stretches that are kept of a long recording: enough to see it at many times, few enough that each
/// holds hundreds of halts.
const STRETCHES: u64 = 48;

#[derive(Debug)]
pub(crate) struct Sampled {
    /// vCPU by vCPU, with its halts in order; those that could not be placed last.
    pub(crate) seats: Vec<(VcpuKey, Vec<Halt>)>,
    /// Stretches that were kept, in nanoseconds since the start: from, to.
    pub(crate) stretches: Vec<(u64, u64)>,
    /// vCPUs that are left out, for there are too many.
    pub(crate) seats_left_out: usize,
    pub(crate) halts: u64,
    pub(crate) of: u64,
}

impl Sampled {
    pub(crate) fn is_whole(&self) -> bool {
        self.halts == self.of
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
        let stretch_ns = match every {
            1 => u64::MAX,
            _ => (span_ns / (every * STRETCHES)).max(1),
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
        let mut seats: BTreeMap<(bool, VcpuKey), Vec<Halt>> = BTreeMap::new();
        for halt in self.kept.into_values().flatten() {
            let seat = VcpuKey::of(&halt);
            let halts = seats.entry((seat.vm.is_none(), seat)).or_default();
            // A halt that steps back in time belongs to no replay.
            if halts
                .last()
                .is_none_or(|last| halt.start_ns >= last.start_ns)
            {
                halts.push(halt);
            }
        }
        let seats = seats.into_iter().map(|((_, seat), halts)| (seat, halts));
        let mut seats: Vec<(VcpuKey, Vec<Halt>)> = seats.collect();
        let seats_left_out = seats.len().saturating_sub(SEATS);
        if seats_left_out > 0 {
            seats.sort_by_key(|(_, halts)| std::cmp::Reverse(halts.len()));
            seats.truncate(SEATS);
            seats.sort_by_key(|(seat, _)| (seat.vm.is_none(), *seat));
        }
        Sampled {
            halts: seats.iter().map(|(_, halts)| halts.len() as u64).sum(),
            seats,
            stretches: stretches.collect(),
            seats_left_out,
            of: self.of,
        }
    }
}

/// Takes the halts that are kept, and what vCPUs did over time.
#[derive(Debug)]
pub(crate) struct Sampling<'a> {
    only: Option<&'a [VmIndex]>,
    overview: Gather,
    /// `None` where there are no single halts.
    keep: Option<Keep>,
}

impl<'a> Sampling<'a> {
    /// Once it is known how long the recording is.
    pub(crate) fn new(recording: &Recording, only: Option<&'a [VmIndex]>) -> Self {
        let (start_ns, span_ns) = (recording.reported.start_ns, recording.reported.duration_ns);
        let places = recording.ledger.places();
        let places = places.filter(|(place, _)| select::is_among(only, place.vm));
        let halts = total(places.map(|(_, account)| account.halts));
        let full = recording.reported.mode == Mode::Full;
        Self {
            only,
            overview: Gather::new(start_ns, span_ns),
            keep: full.then(|| Keep::new(start_ns, span_ns, halts)),
        }
    }

    pub(crate) fn finish(
        self,
        recording: &Recording,
        ends: &PassEnds,
    ) -> Result<(Option<Sampled>, Overview), Failure> {
        // A table that broke off counts up to the break; the report has already said so.
        if !recording.damaged {
            ends.whole(Table::Halts)?;
        }
        let sampled = self
            .keep
            .map(|keep| keep.finish(recording.interval().end_ns));
        Ok((sampled, self.overview.finish()))
    }
}

impl Sink for Sampling<'_> {
    fn wants(&self, table: Table) -> bool {
        table == Table::Halts && self.keep.is_some()
    }

    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        if !select::is_among(self.only, halt.vm) {
            return;
        }
        if let Some(keep) = &mut self.keep {
            keep.halt(halt);
            self.overview.halt(halt);
        }
    }
}

/// Numbers packed for the page: seven bits to a byte, the lowest first (LEB128), and all of it in base64.
#[derive(Debug, Default)]
pub(crate) struct Packed(Vec<u8>);

impl Packed {
    pub(crate) fn number(&mut self, mut value: u64) {
        loop {
            let [low, ..] = (value & 0x7f).to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

/// A halt is five numbers: its start less the last halt's (the first one's: less the recording's), its gap, its wake-up
/// latency and the time that it polled, each in nanoseconds, and flags: bits 0 to 2 the wake source, then `waited`, and
/// whether the time polled is known rather than taken from the window.
pub(crate) fn packed(halts: &[Halt], start_ns: u64) -> String {
    let mut packed = Packed::default();
    let mut last_ns = start_ns;
    for halt in halts {
        let latency_ns = halt.wake_latency_ns.unwrap_or(0).min(halt.halt_ns);
        packed.number(halt.start_ns.saturating_sub(last_ns));
        packed.number(halt.halt_ns - latency_ns);
        packed.number(latency_ns);
        packed.number(polled_ns(halt));
        let flags = u64::from(halt.waited) | u64::from(halt.poll_ns.is_some()) << 1;
        packed.number(flags << 3 | u64::from(halt.wake.code()));
        last_ns = last_ns.max(halt.start_ns);
    }
    packed.text()
}

#[cfg(test)]
mod test;
