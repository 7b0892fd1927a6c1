//! The step itself, for all lanes of some groups.
//!
//! Written as plain loops over rows without a branch in them, so that the compiler turns each into
//! vector instructions, for the widest unit that the CPU has ([`pulp::Arch`]). How many steps a halt
//! has is a constant of each copy of a loop, for the same reason.
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
use super::halt::{GUESSED, Kind, Prepared};

/// Plays prepared halts, in order.
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
        for halt in self.halts {
            if halt.empties {
                self.groups.iter_mut().for_each(Group::empty);
            }
            match (halt.kind, halt.due, halt.guesses) {
                (Kind::Zero, _, _) => zero(self.groups),
                (Kind::Long, false, false) => any_long::<false, false>(self.groups, halt),
                (Kind::Long, false, true) => any_long::<false, true>(self.groups, halt),
                (Kind::Long, true, false) => any_long::<true, false>(self.groups, halt),
                (Kind::Long, true, true) => any_long::<true, true>(self.groups, halt),
                (Kind::Mixed, false, false) => any_mixed::<false, false>(self.groups, halt),
                (Kind::Mixed, false, true) => any_mixed::<false, true>(self.groups, halt),
                (Kind::Mixed, true, false) => any_mixed::<true, false>(self.groups, halt),
                (Kind::Mixed, true, true) => any_mixed::<true, true>(self.groups, halt),
                (Kind::Odd, _, _) => any_odd(self.groups, halt),
            }
        }
    }
}

#[inline(always)]
fn any_long<const DUE: bool, const GUESSES: bool>(groups: &mut [Group], halt: &Prepared) {
    match halt.steps {
        0 => long::<0, DUE, GUESSES>(groups, halt),
        1 => long::<1, DUE, GUESSES>(groups, halt),
        2 => long::<2, DUE, GUESSES>(groups, halt),
        3 | 4 => long::<4, DUE, GUESSES>(groups, halt),
        _ => long::<26, DUE, GUESSES>(groups, halt),
    }
}

#[inline(always)]
fn any_mixed<const DUE: bool, const GUESSES: bool>(groups: &mut [Group], halt: &Prepared) {
    match halt.steps {
        0 | 1 => mixed::<1, DUE, GUESSES>(groups, halt),
        2 => mixed::<2, DUE, GUESSES>(groups, halt),
        3 => mixed::<3, DUE, GUESSES>(groups, halt),
        4 => mixed::<4, DUE, GUESSES>(groups, halt),
        5 | 6 => mixed::<6, DUE, GUESSES>(groups, halt),
        7 | 8 => mixed::<8, DUE, GUESSES>(groups, halt),
        9 | 10 => mixed::<10, DUE, GUESSES>(groups, halt),
        _ => mixed::<26, DUE, GUESSES>(groups, halt),
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

    /// The latency, as [`Prepared`] codes it, of a length of sleep.
    #[inline(always)]
    fn coded(&self, slept: i32) -> i32 {
        let mut coded = self.top;
        for (&end, &latency) in self.ends.iter().zip(&self.latencies) {
            coded = if slept <= end { latency } else { coded };
        }
        coded
    }
}

/// The window after `shrink_halt_poll_ns`.
#[inline(always)]
fn shrunk(window: i32, magic: u32, shift: u32, floor: i32) -> i32 {
    let product = u64::from(window.cast_unsigned() << 4) * u64::from(magic);
    let quotient = (upper(product) >> (shift & 31)).cast_signed();
    if quotient < floor { 0 } else { quotient }
}

#[inline(always)]
fn upper(product: u64) -> u32 {
    (product >> 32) as u32
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

/// The window after a halt.
#[inline(always)]
fn next(group: &Group, index: usize, halt_ns: i32) -> i32 {
    let (window, ceiling) = (group.window[index], group.ceiling[index]);
    let shrunk = shrunk(
        window,
        group.magic[index],
        group.shift[index],
        group.floor[index],
    );
    let product = window.wrapping_mul(group.grow[index]);
    let grown = product.max(group.start[index]).min(group.cap[index]);
    let up = (halt_ns > window) & (halt_ns < ceiling);
    let down = (halt_ns > window) & (halt_ns > ceiling);
    let window = if up { grown } else { window };
    if down { shrunk } else { window }
}

/// Nobody sleeps, no window moves.
#[inline(always)]
fn zero(groups: &mut [Group]) {
    for group in groups {
        for index in 0..LANES {
            let polls = i32::from(group.window[index] > 0);
            group.sums.polls[index] += polls;
            group.sums.idle[index] += 1 - polls;
            group.last[index] = 0;
        }
    }
}

/// Everybody sleeps, every window shrinks.
#[inline(always)]
fn long<const STEPS: usize, const DUE: bool, const GUESSES: bool>(
    groups: &mut [Group],
    halt: &Prepared,
) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        for index in 0..LANES {
            let window = group.window[index];
            let shorter = if DUE { group.last[index] } else { 0 };
            let coded = stairs.coded(halt.gap - shorter - window);
            let latency = if GUESSES {
                coded & (GUESSED - 1)
            } else {
                coded
            };
            if DUE {
                group.sums.shorter[index] += shorter;
            }
            if GUESSES {
                group.sums.guessed[index] += coded >> GUESSED.trailing_zeros();
            }
            group.sums.polled[index] += window;
            group.sums.polls[index] += i32::from(window > 0);
            group.sums.latency[index] += latency;
            group.last[index] = latency;
            group.window[index] = shrunk(
                window,
                group.magic[index],
                group.shift[index],
                group.floor[index],
            );
        }
    }
}

/// Lanes differ.
#[inline(always)]
fn mixed<const STEPS: usize, const DUE: bool, const GUESSES: bool>(
    groups: &mut [Group],
    halt: &Prepared,
) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        for index in 0..LANES {
            let window = group.window[index];
            let gap = if DUE {
                (halt.gap - group.last[index]).max(0)
            } else {
                halt.gap
            };
            let slept = gap - window;
            let coded = stairs.coded(slept);
            let latency = if GUESSES {
                coded & (GUESSED - 1)
            } else {
                coded
            };
            let sums = &mut group.sums;
            sums.polled[index] += gap.min(window);
            sums.won[index] += if slept <= 0 { gap } else { 0 };
            sums.polls[index] += i32::from(window > 0);
            sums.blocks[index] += i32::from(slept > 0);
            sums.latency[index] += latency;
            if GUESSES {
                sums.guessed[index] += coded >> GUESSED.trailing_zeros();
            }
            if DUE {
                sums.shorter[index] += halt.gap - gap;
                sums.idle[index] += i32::from((slept <= 0) & (window == 0));
            }
            group.last[index] = latency;
            group.window[index] = next(group, index, gap + latency);
        }
    }
}

/// Lanes differ, and the halt is not like most.
#[inline(always)]
fn odd<const STEPS: usize>(groups: &mut [Group], halt: &Prepared) {
    let stairs = Stairs::<STEPS>::of(halt);
    for group in groups {
        for index in 0..LANES {
            let window = group.window[index];
            let moved = moved(halt, group.last[index]);
            let gap = (halt.gap - halt.most + moved).max(0);
            let polls = window.min(halt.cut);
            let slept = gap - polls;
            let coded = stairs.coded(slept);
            let latency = coded & (GUESSED - 1);
            let sums = &mut group.sums;
            sums.polled[index] += gap.min(polls);
            sums.won[index] += if slept <= 0 { gap } else { 0 };
            sums.polls[index] += i32::from(polls > 0);
            sums.blocks[index] += i32::from(slept > 0);
            sums.latency[index] += latency;
            sums.guessed[index] += coded >> GUESSED.trailing_zeros();
            sums.shorter[index] += halt.gap - gap;
            sums.idle[index] += i32::from((slept <= 0) & (polls == 0));
            group.last[index] = latency;
            let shrunk = shrunk(
                window,
                group.magic[index],
                group.shift[index],
                group.floor[index],
            );
            let next = next(group, index, gap + latency);
            group.window[index] = if halt.invalid { shrunk } else { next };
        }
    }
}
