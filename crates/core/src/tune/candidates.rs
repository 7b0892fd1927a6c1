//! The settings that can be reached through the module parameters, and their neighbours.
//!
//! Off, every fixed threshold (`grow` 1, `grow_start` at the ceiling, `shrink` 1) and toggling
//! (`grow_start` at the ceiling, another `shrink`) are members like all others.

use std::ops::RangeInclusive;

use super::inputs::{Inputs, Terms, VcpuInput};
use super::search::{self, Aim, Found};
use super::stage::{Entry, Player};
use crate::kvm::knobs::GROW_START;
use crate::kvm::rule::{GrowStart, WindowOf};
use crate::kvm::{Knobs, Rule};

/// Ceilings of the grid in nanoseconds: a third to a quarter apart, round as people write them.
pub const CEILINGS_NS: [u32; 24] = [
    0, 5_000, 8_000, 10_000, 12_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000,
    75_000, 100_000, 125_000, 150_000, 200_000, 250_000, 300_000, 400_000, 500_000, 600_000,
    750_000, 1_000_000,
];

/// First windows of the grid in nanoseconds; the ceiling itself comes to them.
const FIRST_WINDOWS_NS: [u32; 6] = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000];

/// Factors of growth. 1 stays at the first window; 0 would freeze every window where it stands.
const GROWS: [u32; 3] = [1, 2, 4];

/// Divisors of shrinking: at once to 0, never, by half, to a quarter.
const SHRINKS: [u32; 4] = [0, 1, 2, 4];

/// No ceiling is sought above this, in nanoseconds: longer polls burn a CPU for most of the time.
pub const LONGEST_NS: u32 = 1_000_000;

/// Shortest ceiling and first window that are sought, in nanoseconds.
pub const SHORTEST_NS: u32 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// It has a window that adapts, and with it `grow` and `shrink`.
    pub adapts: bool,
    pub grow_start: bool,
    pub polls: bool,
}

/// A setting among which one is chosen: parameters of KVM, or of a guest's governor.
pub trait Candidate: Copy + PartialEq + Send + Sync {
    /// Settings of one piece of work at least, where there are as many.
    const FEWEST: usize;

    /// The setting in force, and the default.
    fn named(terms: &Terms) -> [Self; 2];

    /// Settings that a search looks at first.
    fn grid(terms: &Terms) -> Vec<Self>;

    /// Settings around the best that were found for an aim. `steps` are factors for times.
    fn around(inputs: &Inputs, found: &[Found<Self>], aim: &Aim, steps: &[f64]) -> Vec<Self>;

    /// Settings before the first halt of a vCPU.
    fn player(terms: &Terms, seated: &VcpuInput, entries: &[Entry<Self>]) -> Player;

    /// Key that distinguishes and orders settings, the ceiling first.
    fn key(&self) -> [u32; 5];

    /// Whether the feature that the parameters control is there at all.
    fn applies(terms: &Terms) -> bool;

    /// Whether two do the same, as far as parameters can tell.
    fn is_same(&self, other: &Self, terms: &Terms) -> bool;

    fn changes(&self, from: &Self, terms: &Terms) -> u32;

    fn is_off(&self) -> bool {
        self.key()[0] == 0
    }
}

impl Candidate for Knobs {
    // All of a piece share one look at each halt.
    const FEWEST: usize = 256;

    fn named(terms: &Terms) -> [Self; 2] {
        [terms.in_force, terms.default_knobs()]
    }

    fn grid(terms: &Terms) -> Vec<Self> {
        let mut first = grid(terms);
        let named = Self::named(terms).into_iter();
        first.extend(named.take(if terms.ceiling_only { 1 } else { 2 }));
        first
    }

    fn around(inputs: &Inputs, found: &[Found], aim: &Aim, steps: &[f64]) -> Vec<Self> {
        let terms = &inputs.terms;
        let best = search::best(found, aim, inputs, search::AROUND).into_iter();
        let mut around: Vec<Self> = best
            .flat_map(|best| neighbours(terms, &best.knobs, steps))
            .collect();
        if !terms.ceiling_only && Reach::of(terms.rule()).grow_start {
            around.extend(around_fixed(inputs, found, aim, steps));
        }
        around
    }

    fn player(terms: &Terms, seated: &VcpuInput, entries: &[Entry]) -> Player {
        Player::new(terms, seated, entries)
    }

    fn key(&self) -> [u32; 5] {
        let [ceiling_ns, grow_start] = [self.halt_poll_ns, self.grow_start];
        [ceiling_ns, grow_start, self.grow, self.shrink, 0]
    }

    fn applies(terms: &Terms) -> bool {
        Reach::of(terms.rule()).polls
    }

    fn is_same(&self, other: &Self, terms: &Terms) -> bool {
        Reach::of(terms.rule()).is_same(self, other)
    }

    fn changes(&self, from: &Self, terms: &Terms) -> u32 {
        Reach::of(terms.rule()).changes(self, from)
    }
}

impl Reach {
    pub fn of(rule: Rule) -> Self {
        Self {
            adapts: rule.window == WindowOf::Vcpu,
            grow_start: rule.grow_start == GrowStart::Param,
            polls: rule.window != WindowOf::NoPolling,
        }
    }

    /// Whether two settings do the same on this kernel, as far as parameters can tell.
    pub fn is_same(&self, a: &Knobs, b: &Knobs) -> bool {
        let adapts = !self.adapts || (a.grow, a.shrink) == (b.grow, b.shrink);
        let starts = !self.grow_start || a.grow_start == b.grow_start;
        let off = a.halt_poll_ns == 0 && b.halt_poll_ns == 0;
        off || (a.halt_poll_ns == b.halt_poll_ns && adapts && starts)
    }

    pub fn changes(&self, a: &Knobs, b: &Knobs) -> u32 {
        let ceiling = u32::from(a.halt_poll_ns != b.halt_poll_ns);
        let pair = u32::from(a.grow != b.grow) + u32::from(a.shrink != b.shrink);
        let start = u32::from(a.grow_start != b.grow_start);
        ceiling + if self.adapts { pair } else { 0 } + if self.grow_start { start } else { 0 }
    }
}

/// The whole grid. Where a parameter makes no difference it is as in force.
pub fn grid(terms: &Terms) -> Vec<Knobs> {
    let (reach, in_force) = (Reach::of(terms.rule()), &terms.in_force);
    if terms.ceiling_only {
        return CEILINGS_NS.map(|ns| with_ceiling(in_force, ns)).to_vec();
    }
    let mut grid = Vec::new();
    for ceiling_ns in CEILINGS_NS.into_iter().filter(|_| reach.polls) {
        if ceiling_ns == 0 || !reach.adapts {
            grid.push(with_ceiling(in_force, ceiling_ns));
            continue;
        }
        let first = FIRST_WINDOWS_NS.into_iter().filter(|&ns| ns < ceiling_ns);
        let (starts, grows) = if reach.grow_start {
            (first.collect(), GROWS)
        } else {
            (vec![in_force.grow_start], [2, 4, AT_ONCE])
        };
        for grow_start in starts {
            for grow in grows {
                let with = |shrink| Knobs::of([ceiling_ns, grow, grow_start, shrink]);
                grid.extend(SHRINKS.map(with));
            }
        }
        if reach.grow_start {
            grid.extend([fixed(ceiling_ns), toggle(ceiling_ns, in_force)]);
        }
    }
    grid
}

/// A factor that takes the first window of old kernels to any ceiling in one step.
const AT_ONCE: u32 = LONGEST_NS / GROW_START;

/// A setting with another ceiling, in nanoseconds.
pub fn with_ceiling(knobs: &Knobs, halt_poll_ns: u32) -> Knobs {
    Knobs {
        halt_poll_ns,
        ..*knobs
    }
}

/// A window of one length, from the first short halt on.
pub fn fixed(ceiling_ns: u32) -> Knobs {
    Knobs::of([ceiling_ns, 1, ceiling_ns, 1])
}

/// The same on any kernel that polls: where there is no `grow_start`, a factor takes the window to the
/// ceiling at once.
pub fn threshold(reach: Reach, in_force: &Knobs, ceiling_ns: u32) -> Knobs {
    match reach {
        _ if ceiling_ns == 0 || !reach.adapts => with_ceiling(in_force, ceiling_ns),
        _ if reach.grow_start => fixed(ceiling_ns),
        _ => Knobs::of([ceiling_ns, AT_ONCE, in_force.grow_start, 1]),
    }
}

/// All or nothing, by the last halt.
pub fn toggle(ceiling_ns: u32, in_force: &Knobs) -> Knobs {
    let shrink = Some(in_force.shrink).filter(|&divisor| divisor != 1);
    // Whatever the factor, the ceiling is the end.
    let grow = in_force.grow.max(1);
    Knobs::of([ceiling_ns, grow, ceiling_ns, shrink.unwrap_or(0)])
}

/// Settings around one, each a step away. `steps` are factors for times.
pub fn neighbours(terms: &Terms, around: &Knobs, steps: &[f64]) -> Vec<Knobs> {
    let reach = Reach::of(terms.rule());
    if around.halt_poll_ns == 0 || !reach.polls {
        return Vec::new();
    }
    let mut found = Vec::new();
    let is_at_ceiling = around.grow_start >= around.halt_poll_ns;
    let scaled = |ns, step| scaled(ns, step, SHORTEST_NS..=LONGEST_NS);
    for &step in steps {
        let ceiling_ns = scaled(around.halt_poll_ns, step);
        let moved = with_ceiling(around, ceiling_ns);
        if !reach.grow_start || terms.ceiling_only {
            found.push(moved);
            continue;
        }
        let grow_start = scaled(around.grow_start, step);
        let with = |of: Knobs, grow_start| Knobs { grow_start, ..of };
        let first_ns = if is_at_ceiling {
            ceiling_ns
        } else {
            grow_start
        };
        found.extend([with(moved, first_ns), moved, with(*around, grow_start)]);
    }
    if terms.ceiling_only {
        return found;
    }
    if reach.adapts {
        let grows = [around.grow - u32::from(around.grow > 1), around.grow + 1];
        found.extend(grows.map(|grow| Knobs { grow, ..*around }));
        found.extend([0, 1, 2, 3, 4, 8].map(|shrink| Knobs { shrink, ..*around }));
    }
    found.retain(|knobs| !reach.grow_start || knobs.grow_start <= knobs.halt_poll_ns);
    found
}

/// Around the best fixed threshold that was found, and the ways in which a window comes by it while halts are short: short
/// takes in the wake-up of the threshold's own length.
fn around_fixed(inputs: &Inputs, found: &[Found], aim: &Aim, steps: &[f64]) -> Vec<Knobs> {
    let is_fixed = |it: &&Found| it.knobs == fixed(it.knobs.halt_poll_ns);
    let fixed: Vec<Found> = found.iter().filter(is_fixed).copied().collect();
    let Some(best) = search::best(&fixed, aim, inputs, 1).first().copied() else {
        return Vec::new();
    };
    let mut around = neighbours(&inputs.terms, &best.knobs, steps);
    let latency_ns = inputs.seats.iter().map(|seated| seated.table.median(0));
    let above_ns = u64::from(best.knobs.halt_poll_ns) + latency_ns.max().unwrap_or(0);
    if let Ok(ceiling_ns) = u32::try_from(above_ns) {
        around.extend([0, 1].map(|shrink| Knobs {
            halt_poll_ns: rounded(ceiling_ns),
            shrink,
            ..best.knobs
        }));
    }
    around
}

/// A time as a person would write it: to half a microsecond below 20 us, to one below 100, to five
/// below 1 ms, to fifty above.
pub fn rounded(ns: u32) -> u32 {
    rounded_within(ns, SHORTEST_NS..=LONGEST_NS)
}

fn rounded_within(ns: u32, within: RangeInclusive<u32>) -> u32 {
    let grain = match ns {
        0..20_000 => 500,
        20_000..100_000 => 1_000,
        100_000..1_000_000 => 5_000,
        _ => 50_000,
    };
    let whole = ns.saturating_add(grain / 2) / grain * grain;
    whole.clamp(*within.start(), *within.end())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no step is negative"
)]
pub(super) fn scaled(ns: u32, step: f64, within: RangeInclusive<u32>) -> u32 {
    rounded_within((f64::from(ns) * step) as u32, within)
}
