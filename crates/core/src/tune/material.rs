//! The halts of a capture, vCPU by vCPU, cut into the part that fits and the parts that judge.
//!
//! All of it lies in memory, 72 bytes for each halt. A capture that is too long for that gives every
//! n-th stretch of its time, see [`Gather::new`].

use std::collections::BTreeMap;

use super::candidates::Moves;
use super::sums::Wall;
use crate::event::{CeilingSource, Halt};
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::replay::arrivals::Follow;
use crate::replay::latency::{Latencies, Table};
use crate::replay::session::{SessionError, Survey};
use crate::replay::{Arrivals, Outcome, Sample, Seat};

/// What holds for all of a search.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The kernel whose parameters are sought.
    pub version: Version,
    /// Its port.
    pub arch: Arch,
    /// The parameters in force when recorded.
    pub in_force: Knobs,
    /// Whether waking earlier makes the next gap longer.
    pub arrivals: Arrivals,
    /// Wake-up latencies measured another time, for lengths of sleep that the capture lacks.
    pub elsewhere: Option<Latencies>,
    /// Seed of policies that draw, and of the bootstrap.
    pub seed: u64,
    /// Only the ceiling is sought, as a VM's own cap sets it; the other parameters stay as they are, and
    /// a VM's own ceiling is taken for one that can be moved.
    pub ceiling_only: bool,
}

impl Terms {
    /// The rule of that kernel.
    pub fn rule(&self) -> Rule {
        Rule::of(self.version, self.arch)
    }

    /// Which parameters may move.
    pub fn moves(&self) -> Moves {
        if self.ceiling_only {
            Moves::Ceiling
        } else {
            Moves::All
        }
    }

    /// What the parameters are there when nobody sets them.
    pub fn default_knobs(&self) -> Knobs {
        Knobs::defaults(self.version, self.arch)
    }
}

/// Into how many blocks of equal time the judging part is cut: enough for an interval, few enough that
/// a block is longer than what one halt does to the next.
pub const BLOCKS: usize = 50;

/// One vCPU.
#[derive(Debug)]
pub struct Seated {
    /// Which.
    pub seat: Seat,
    /// Its halts, in order.
    pub samples: Vec<Sample>,
    /// Its wake-up latencies.
    pub table: Table,
    /// How far its gaps follow its wake-ups.
    pub follow: Follow,
    /// The ceiling that was in force at its first halt, in nanoseconds.
    pub ceiling_ns: u32,
    /// A ceiling of its VM's own, which no module parameter reaches.
    pub own_ceiling_ns: Option<u32>,
    /// What was recorded.
    pub recorded: Outcome,
    /// Where the parts end, as places in `samples`: first the part that fits, then the blocks.
    pub ends: Vec<usize>,
}

impl Seated {
    /// The ceiling under a module parameter, in nanoseconds.
    pub fn ceiling_under(&self, param_halt_poll_ns: u32) -> u32 {
        self.own_ceiling_ns.unwrap_or(param_halt_poll_ns)
    }
}

/// All halts of a search.
#[derive(Debug)]
pub struct Material {
    /// What holds for all of it.
    pub terms: Terms,
    /// vCPU by vCPU.
    pub seats: Vec<Seated>,
    /// The time of the part that fits.
    pub fit_wall: Wall,
    /// The time of the part that judges.
    pub judged_wall: Wall,
    /// Halts that began before an earlier one of their vCPU, and were left out.
    pub out_of_order: u64,
    /// Halts of stretches that were left out, because there were too many.
    pub skipped: u64,
}

/// Takes halts in, in the second pass over a capture; the first was [`Survey`]'s.
#[derive(Debug)]
pub struct Gather<'a> {
    terms: Terms,
    survey: &'a Survey,
    keep: Keep,
    seats: BTreeMap<Seat, Seated>,
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
    /// All of them.
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

impl<'a> Gather<'a> {
    /// Before the first halt.
    pub fn new(terms: Terms, survey: &'a Survey, keep: Keep) -> Self {
        Self {
            terms,
            survey,
            keep,
            seats: BTreeMap::new(),
            out_of_order: 0,
            skipped: 0,
            first_ns: u64::MAX,
            last_ns: 0,
        }
    }

    /// Takes a halt. Fails where nobody knows what a wake-up of its vCPU costs.
    pub fn halt(&mut self, halt: &Halt) -> Result<(), SessionError> {
        self.first_ns = self.first_ns.min(halt.start_ns);
        self.last_ns = self.last_ns.max(halt.end_ns());
        if !self.keep.takes(halt.start_ns - self.first_ns) {
            self.skipped += 1;
            return Ok(());
        }
        let seat = Seat::of(halt);
        let seated = match self.seats.entry(seat) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(sit_down(seat, halt, &self.terms, self.survey)?)
            }
        };
        if seated
            .samples
            .last()
            .is_some_and(|last| halt.start_ns < last.start_ns)
        {
            self.out_of_order += 1;
            return Ok(());
        }
        let turn = seated.samples.len() as u64;
        let sample = Sample::new(halt, &seated.table, turn);
        seated.recorded.add_recorded(halt, &sample);
        seated.samples.push(sample);
        Ok(())
    }

    /// Cuts what was taken into its parts: the first half of the time fits, the rest judges.
    pub fn finish(self) -> Material {
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
        let mut seats: Vec<Seated> = self.seats.into_values().collect();
        let mut walls = [span_ns / 2, judged_ns].map(|span_ns| Wall {
            // A stretch that was left out takes its time with it.
            span_ns: span_ns / self.keep.every,
            halt_ns: 0,
            vcpus: seats.len() as u64,
        });
        for seated in &mut seats {
            let place =
                |end_ns: &u64| (seated.samples).partition_point(|sample| sample.start_ns < *end_ns);
            seated.ends = ends_ns.iter().map(place).collect();
            if let Some(last) = seated.ends.last_mut() {
                *last = seated.samples.len();
            }
            let (fit, judged) = seated.samples.split_at(seated.ends[0]);
            for (wall, samples) in walls.iter_mut().zip([fit, judged]) {
                let halt_ns: u64 = samples.iter().map(|sample| sample.halt_ns).sum();
                wall.halt_ns = wall.halt_ns.saturating_add(halt_ns);
            }
        }
        let [fit_wall, judged_wall] = walls;
        Material {
            terms: self.terms,
            seats,
            fit_wall,
            judged_wall,
            out_of_order: self.out_of_order,
            skipped: self.skipped,
        }
    }
}

fn sit_down(
    seat: Seat,
    first: &Halt,
    terms: &Terms,
    survey: &Survey,
) -> Result<Seated, SessionError> {
    let table = survey.table(seat, terms.elsewhere.as_ref());
    let own = first
        .ceiling_ns
        .filter(|_| first.ceiling_source == CeilingSource::Cap && !terms.ceiling_only);
    Ok(Seated {
        seat,
        samples: Vec::new(),
        table: table.ok_or(SessionError::NoLatency)?,
        follow: survey.follow(seat, terms.arrivals),
        ceiling_ns: first.ceiling_ns.unwrap_or(terms.in_force.halt_poll_ns),
        own_ceiling_ns: own,
        recorded: Outcome::default(),
        ends: Vec::new(),
    })
}

impl Material {
    /// Polling as recorded, in % of one CPU; what nobody recorded counts as none.
    pub fn recorded_poll_cpu_percent(&self) -> f64 {
        let polled_ns: u64 = self
            .seats
            .iter()
            .map(|seated| seated.recorded.poll_ns)
            .sum();
        let span_ns = self
            .fit_wall
            .span_ns
            .saturating_add(self.judged_wall.span_ns);
        100.0 * polled_ns as f64 / span_ns.max(1) as f64
    }

    /// Halts that are here.
    pub fn halts(&self) -> u64 {
        let lengths = self.seats.iter().map(|seated| seated.samples.len() as u64);
        lengths.sum()
    }
}
