//! Halts on their way into memory, in the same pass over a capture that learns what wake-ups take.
//!
//! Missing data of a halt is known only when all halts have been seen: a wake-up latency that was not
//! recorded is owed until the end. A capture that is too long for memory is passed over twice, and gives
//! every n-th stretch of its time, see [`Keep`].

use std::collections::BTreeMap;

use super::inputs::{BLOCKS, Inputs, Recorded, RecordedPoll, Terms, VcpuInput};
use super::wall::Wall;
use crate::event::{CeilingSource, Halt};
use crate::replay::cost::MILLI;
use crate::replay::session::{Common, SessionError, Survey};
use crate::replay::{Sample, VcpuKey};
use crate::stats::total;

#[derive(Debug)]
pub struct Gather {
    keep: Keep,
    keeps_recorded: bool,
    /// Boxed, since a map keeps half of its room free.
    seats: BTreeMap<VcpuKey, Box<Taken>>,
    out_of_order: u64,
    skipped: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Which stretches of time are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Length of a stretch in nanoseconds.
    pub stretch_ns: u64,
    /// Every how many-th is taken, from the first.
    pub every: u64,
}

impl Keep {
    pub const ALL: Self = Self {
        stretch_ns: u64::MAX,
        every: 1,
    };

    /// So that of `halts` over `span_ns` about `most` are left.
    pub fn at_most(most: u64, halts: u64, span_ns: u64) -> Self {
        if halts <= most {
            return Self::ALL;
        }
        Self {
            // A thousand stretches: each part has many of them.
            stretch_ns: (span_ns / 1_000).max(1),
            every: halts.div_ceil(most.max(1)),
        }
    }

    fn takes(&self, since_start_ns: u64) -> bool {
        (since_start_ns / self.stretch_ns).is_multiple_of(self.every)
    }
}

#[derive(Debug)]
struct Taken {
    samples: Vec<Sample>,
    recorded: Recorded,
    polls: Vec<RecordedPoll>,
    /// Halts whose wake-up latency is to be taken from a table: their places in order, and the classes of their sleeps.
    owed: Vec<(usize, usize)>,
    /// The ceiling at the first halt, and whether it is its VM's own.
    ceiling_ns: Option<u32>,
    is_own: bool,
    first_window_ns: Option<u32>,
}

impl Gather {
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            keeps_recorded: false,
            seats: BTreeMap::new(),
            out_of_order: 0,
            skipped: 0,
            first_ns: u64::MAX,
            last_ns: 0,
        }
    }

    /// The same that also keeps what was recorded of each halt: 4 bytes more.
    #[must_use]
    pub fn with_recorded(self) -> Self {
        Self {
            keeps_recorded: true,
            ..self
        }
    }

    pub fn halt(&mut self, halt: &Halt) {
        self.first_ns = self.first_ns.min(halt.start_ns);
        self.last_ns = self.last_ns.max(halt.end_ns());
        if !self.keep.takes(halt.start_ns - self.first_ns) {
            self.skipped += 1;
            return;
        }
        let seat = VcpuKey::of(halt);
        let taken = self
            .seats
            .entry(seat)
            .or_insert_with(|| Box::new(Taken::new(halt)));
        let last = taken.samples.last();
        if last.is_some_and(|last| halt.start_ns < last.start_ns) {
            self.out_of_order += 1;
        } else {
            taken.halt(halt);
            let poll = self.keeps_recorded.then(|| RecordedPoll::of(halt));
            taken.polls.extend(poll);
        }
    }

    /// Pays what is owed, and cuts what was taken into its parts: the first half of the time fits, the rest
    /// judges. `survey` has seen all halts of the capture, and goes vCPU by vCPU, as what it says comes. Fails where
    /// the cost of a wake-up of a vCPU is not known.
    pub fn finish(self, terms: Terms, mut survey: Survey) -> Result<Inputs, SessionError> {
        let common = survey.common(terms.elsewhere.as_ref());
        self.cut(terms, |seat, taken, terms| {
            let seated = taken.register(seat, terms, &survey, &common);
            survey.forget(seat);
            seated
        })
    }

    /// The same of a stretch of a capture, whose survey others need too.
    pub fn finish_stretch(self, terms: Terms, survey: &Survey) -> Result<Inputs, SessionError> {
        let common = survey.common(terms.elsewhere.as_ref());
        self.cut(terms, |seat, taken, terms| {
            taken.register(seat, terms, survey, &common)
        })
    }

    fn cut(
        self,
        terms: Terms,
        mut register: impl FnMut(VcpuKey, Box<Taken>, &Terms) -> Result<VcpuInput, SessionError>,
    ) -> Result<Inputs, SessionError> {
        let span_ns = self.last_ns.saturating_sub(self.first_ns);
        let split_ns = self.first_ns.saturating_add(span_ns / 2);
        let judged_ns = span_ns - span_ns / 2;
        let blocks = BLOCKS as u64;
        let ends_ns: Vec<u64> = (0..=blocks)
            .map(|n| {
                let part = u128::from(judged_ns) * u128::from(n) / u128::from(blocks);
                split_ns.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
            })
            .collect();
        let seats = (self.seats.into_iter()).map(|(seat, taken)| register(seat, taken, &terms));
        let seats: Vec<VcpuInput> = seats.collect::<Result<_, _>>()?;
        let mut walls = [span_ns / 2, judged_ns].map(|span_ns| Wall {
            // A stretch that was left out takes its time with it.
            span_ns: span_ns / self.keep.every,
            halt_ns: 0,
            vcpus: seats.len() as u64,
        });
        for seated in &seats {
            let (fit, judged) = seated.samples.split_at(seated.end(ends_ns[0]));
            for (wall, samples) in walls.iter_mut().zip([fit, judged]) {
                let halt_ns = total(samples.iter().map(Sample::halt_ns));
                wall.halt_ns = wall.halt_ns.saturating_add(halt_ns);
            }
        }
        let [fit_wall, judged_wall] = walls;
        Ok(Inputs {
            terms,
            seats,
            ends_ns,
            fit_wall,
            judged_wall,
            out_of_order: self.out_of_order,
            skipped: self.skipped,
        })
    }
}

impl Taken {
    fn new(first: &Halt) -> Self {
        Self {
            samples: Vec::new(),
            recorded: Recorded::default(),
            polls: Vec::new(),
            owed: Vec::new(),
            ceiling_ns: first.ceiling_ns,
            is_own: first.ceiling_source == CeilingSource::Cap,
            first_window_ns: first.window_ns,
        }
    }

    fn halt(&mut self, halt: &Halt) {
        let (sample, owed) = Sample::without_table(halt);
        self.recorded.halt(halt);
        let at = self.samples.len();
        self.owed.extend(owed.map(|slept_class| (at, slept_class)));
        self.samples.push(sample);
    }

    fn register(
        mut self,
        seat: VcpuKey,
        terms: &Terms,
        survey: &Survey,
        common: &Common,
    ) -> Result<VcpuInput, SessionError> {
        let table = survey.table(seat, common);
        let table = table.ok_or(SessionError::NoLatency)?;
        for &(at, slept_class) in &self.owed {
            self.samples[at].settle(table.at(slept_class, at as u64).0);
        }
        let own = self
            .ceiling_ns
            .filter(|_| self.is_own && !terms.ceiling_only);
        Ok(VcpuInput {
            seat,
            samples: self.samples,
            table,
            follow: survey.follow(seat, terms.arrivals),
            ceiling_ns: self.ceiling_ns.unwrap_or(terms.in_force.halt_poll_ns),
            own_ceiling_ns: own,
            first_window_ns: self.first_window_ns,
            weight_milli: (seat.vm).and_then(|vm| terms.weights_milli.get(&vm).copied()),
            stands_for_milli: MILLI,
            recorded: self.recorded,
            polls: self.polls,
        })
    }
}
