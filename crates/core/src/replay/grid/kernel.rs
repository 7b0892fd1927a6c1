//! The step itself, for all lanes of some groups.
//!
//! Written as plain loops over rows without a branch in them, so that the compiler turns each into
//! vector instructions, for the widest unit that the CPU has ([`pulp::Arch`]). How many steps a halt
//! has is a constant of each copy of a loop, for the same reason. A group knows how long its windows can
//! get: a halt that is longer than that, or too long for the last steps, takes a shorter way there.
//!
//! Each loop follows [`crate::kvm::Rule::after`] for windows that never exceed what [`Terms`] allows:
//! shrinks where the halt exceeds window and ceiling, grows where it lies between them.
//!
//! [`Terms`]: super::group::Terms

#![expect(
    clippy::inline_always,
    reason = "vector instructions reach only what is inlined into the dispatched call"
)]
#![expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, which keeps a loop from becoming vectors"
)]

use super::group::{Group, LANES};
use super::halt::{Kind, Prepared};

pub(super) fn run(groups: &mut [Group], halts: &[Prepared]) {
    pulp::Arch::new().dispatch(Tile { groups, halts });
}

struct Tile<'a> {
    groups: &'a mut [Group],
    halts: &'a [Prepared],
}

impl pulp::WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        if self.groups.iter().any(|group| group.is_general) {
            self.play::<false>();
        } else {
            self.play::<true>();
        }
    }
}

impl Tile<'_> {
    /// `BINARY`: all lanes are, see [`super::group::Terms::is_binary`].
    #[inline(always)]
    fn play<const BINARY: bool>(self) {
        let longest = self.groups.iter().map(|group| group.longest).max();
        let longest = longest.unwrap_or(0);
        for halt in self.halts {
            if halt.empties {
                self.groups.iter_mut().for_each(Group::empty);
            }
            let steps = steps(halt, longest);
            let is_long = halt.shortest > longest.saturating_add(halt.overrun);
            match (halt.kind, is_long, halt.due) {
                (Kind::Zero, _, _) => zero(self.groups),
                (Kind::Plain, true, false) => any_long::<BINARY, false>(self.groups, halt, steps),
                (Kind::Plain, true, true) => any_long::<BINARY, true>(self.groups, halt, steps),
                (Kind::Plain, false, false) => any_mixed::<BINARY, false>(self.groups, halt, steps),
                (Kind::Plain, false, true) => any_mixed::<BINARY, true>(self.groups, halt, steps),
                (Kind::Odd, _, _) => any_odd(self.groups, halt),
            }
        }
    }
}

/// How many of a halt's steps are in reach of windows up to `longest`.
#[inline(always)]
fn steps(halt: &Prepared, longest: i32) -> usize {
    let least = halt.shortest - longest.min(halt.cut);
    let mut steps = halt.steps;
    while steps > 0 && halt.ends[steps - 1] < least {
        steps -= 1;
    }
    steps
}

#[inline(always)]
fn any_long<const BINARY: bool, const DUE: bool>(
    groups: &mut [Group],
    halt: &Prepared,
    steps: usize,
) {
    match steps {
        0 => long::<0, BINARY, DUE>(groups, halt),
        1 => long::<1, BINARY, DUE>(groups, halt),
        2 => long::<2, BINARY, DUE>(groups, halt),
        3 | 4 => long::<4, BINARY, DUE>(groups, halt),
        _ => long::<26, BINARY, DUE>(groups, halt),
    }
}

#[inline(always)]
fn any_mixed<const BINARY: bool, const DUE: bool>(
    groups: &mut [Group],
    halt: &Prepared,
    steps: usize,
) {
    match steps {
        0 | 1 => mixed::<1, BINARY, DUE>(groups, halt),
        2 => mixed::<2, BINARY, DUE>(groups, halt),
        3 => mixed::<3, BINARY, DUE>(groups, halt),
        4 => mixed::<4, BINARY, DUE>(groups, halt),
        5 => mixed::<5, BINARY, DUE>(groups, halt),
        6 => mixed::<6, BINARY, DUE>(groups, halt),
        7 => mixed::<7, BINARY, DUE>(groups, halt),
        8 => mixed::<8, BINARY, DUE>(groups, halt),
        9 | 10 => mixed::<10, BINARY, DUE>(groups, halt),
        _ => mixed::<26, BINARY, DUE>(groups, halt),
    }
}

#[inline(always)]
fn any_odd(groups: &mut [Group], halt: &Prepared) {
    match halt.steps {
        0..=2 => odd::<2>(groups, halt),
        3..=5 => odd::<5>(groups, halt),
        6..=8 => odd::<8>(groups, halt),
        _ => odd::<26>(groups, halt),
    }
}

/// The way down the classes, out of [`Prepared`]: in registers, or each step would be a load for each
/// lane.
struct Stairs<const STEPS: usize> {
    top: i32,
    ends: [i32; STEPS],
    latencies: [i32; STEPS],
}

impl<const STEPS: usize> Stairs<STEPS> {
    #[inline(always)]
    fn of(halt: &Prepared) -> Self {
        Self {
            top: halt.top,
            ends: std::array::from_fn(|step| halt.ends[step]),
            latencies: std::array::from_fn(|step| halt.latencies[step]),
        }
    }

    #[inline(always)]
    fn latency(&self, slept: i32) -> i32 {
        let mut known = self.top;
        for (&end, &latency) in self.ends.iter().zip(&self.latencies) {
            known = if slept <= end { latency } else { known };
        }
        known
    }
}

/// The window after `shrink_halt_poll_ns`.
#[inline(always)]
fn shrunk<const BINARY: bool>(group: &Group, index: usize) -> i32 {
    let window = group.window[index];
    let quotient = if BINARY {
        window >> (group.halvings[index] & 31)
    } else {
        let product = u64::from(window.cast_unsigned() << 4) * u64::from(group.magic[index]);
        (upper(product) >> (group.shift[index] & 31)).cast_signed()
    };
    if quotient < group.floor[index] {
        0
    } else {
        quotient
    }
}

#[inline(always)]
fn upper(product: u64) -> u32 {
    (product >> 32) as u32
}

/// The window after `grow_halt_poll_ns`.
#[inline(always)]
fn grown<const BINARY: bool>(group: &Group, index: usize) -> i32 {
    let window = group.window[index];
    let product = if BINARY {
        window << (group.doublings[index] & 31)
    } else {
        window.wrapping_mul(group.grow[index])
    };
    product.max(group.start[index]).min(group.cap[index])
}

#[inline(always)]
fn next<const BINARY: bool>(group: &Group, index: usize, halt_ns: i32) -> i32 {
    let (window, ceiling) = (group.window[index], group.ceiling[index]);
    let up = (halt_ns > window) & (halt_ns < ceiling);
    let down = (halt_ns > window) & (halt_ns > ceiling);
    let grown = grown::<BINARY>(group, index);
    let shrunk = shrunk::<BINARY>(group, index);
    let window = if up { grown } else { window };
    if down { shrunk } else { window }
}

/// By how much a gap is longer than recorded after a halt of this latency, as
/// [`crate::replay::arrivals::Follow::gap_ns`] has it. Exact: products of 28 and 10 bits, and their
/// quotients by a thousand, are told apart by far fewer bits than a float of 64 has.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most 28 bits, and cut off is what is wanted"
)]
fn moved(halt: &Prepared, latency: i32) -> i32 {
    (f64::from(halt.recorded - latency) * halt.share / 1e3) as i32
}

/// No lane sleeps, no window moves.
#[inline(always)]
fn zero(groups: &mut [Group]) {
    for group in groups {
        group.last = [0; LANES];
    }
}

#[inline(always)]
fn long<const STEPS: usize, const BINARY: bool, const DUE: bool>(
    groups: &mut [Group],
    halt: &Prepared,
) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        group.asleep += 1;
        for index in 0..LANES {
            let polls = group.window[index].min(halt.cut);
            let shorter = if DUE { group.last[index] } else { 0 };
            let latency = stairs.latency(halt.gap - shorter - polls);
            if DUE {
                group.sums.shorter[index] += shorter;
            }
            group.sums.polled[index] += polls;
            group.sums.failed[index] += i32::from(polls > 0);
            group.sums.latency[index] += latency;
            group.last[index] = latency;
            group.window[index] = shrunk::<BINARY>(group, index);
        }
    }
}

#[inline(always)]
fn mixed<const STEPS: usize, const BINARY: bool, const DUE: bool>(
    groups: &mut [Group],
    halt: &Prepared,
) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        for index in 0..LANES {
            let polls = group.window[index].min(halt.cut);
            let gap = if DUE {
                (halt.gap - group.last[index]).max(0)
            } else {
                halt.gap
            };
            let slept = gap - polls;
            let latency = stairs.latency(slept);
            let blocks = slept > halt.overrun;
            let sums = &mut group.sums;
            sums.polled[index] += if blocks { polls } else { gap };
            sums.blocks[index] += i32::from(blocks);
            sums.failed[index] += i32::from(blocks & (polls > 0));
            sums.latency[index] += latency;
            if DUE {
                sums.shorter[index] += halt.gap - gap;
            }
            group.last[index] = latency;
            group.window[index] = next::<BINARY>(group, index, gap + latency);
        }
    }
}

/// Lanes differ, and the halt is not like most.
#[inline(always)]
fn odd<const STEPS: usize>(groups: &mut [Group], halt: &Prepared) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        for index in 0..LANES {
            let moved = moved(halt, group.last[index]);
            let gap = (halt.gap - halt.most + moved).max(0);
            let polls = group.window[index].min(halt.cut);
            let slept = gap - polls;
            let overrun = if polls > 0 {
                halt.overrun
            } else {
                halt.unpolled
            };
            let blocks = slept > overrun;
            let latency = if blocks { stairs.latency(slept) } else { 0 };
            let sums = &mut group.sums;
            let met = if polls > 0 { gap } else { 0 };
            sums.polled[index] += if blocks { polls } else { met };
            sums.blocks[index] += i32::from(blocks);
            sums.failed[index] += i32::from(blocks & (polls > 0));
            sums.latency[index] += latency;
            sums.shorter[index] += halt.gap - gap;
            group.last[index] = latency;
            let shrunk = shrunk::<false>(group, index);
            let next = next::<false>(group, index, gap + latency);
            group.window[index] = if halt.invalid { shrunk } else { next };
        }
    }
}
