//! Some lanes side by side: their windows, their settings as the step wants them, their sums.
//!
//! All of it is 32 bits wide, so that a vector holds as many lanes as it can, and signed where it is
//! compared, since that is what all vector units do. Sums are emptied into 64 bits before they can
//! overflow, see [`super::halt`].

use super::Choice;
use super::halt::Ahead;
use crate::kvm::Rule;
use crate::kvm::rule::{Clamp, GrowStart, GrowthCap};
use crate::replay::Sums;

/// Lanes of a group: whole vectors of every width there is.
pub(super) const LANES: usize = 32;

/// Bits of a window. Four less than a word: a window times 16 fits, which is what the division wants.
const WINDOW_BITS: u32 = 28;

/// No window, ceiling or latency in a vector is longer than this, in nanoseconds (268 ms).
pub(super) const LONGEST: u32 = (1 << WINDOW_BITS) - 1;

/// A setting as the step wants it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    window: i32,
    ceiling: i32,
    grow: i32,
    start: i32,
    cap: i32,
    magic: u32,
    shift: u32,
    floor: i32,
    /// How often `grow` doubles and `shrink` halves, where that is what they do.
    binary: Option<[u32; 2]>,
    /// The longest window that it can come to, in nanoseconds; no ceiling is above it.
    pub(super) longest: u32,
}

impl Terms {
    /// `None` where vectors do not cover it: growth as before 5.1, halts that count until their wake event, windows
    /// above [`LONGEST`], products that do not fit in 31 bits.
    pub(super) fn of(choice: &Choice, rule: Rule) -> Option<Self> {
        let (knobs, ceiling) = (choice.knobs, choice.ceiling_ns);
        if rule.grow_start != GrowStart::Param || rule.until_wake {
            return None;
        }
        // A cut where a halt begins is made where the halt before ends: the ceiling never moves here.
        let cap = match (rule.clamp, rule.growth_cap) {
            (Clamp::AtEntry, _) | (_, GrowthCap::Ceiling) => ceiling,
            (Clamp::Never, GrowthCap::Param) => knobs.halt_poll_ns,
            (Clamp::Never, GrowthCap::None) => u32::MAX,
        };
        // Windows at or above the ceiling do not grow.
        let product = ceiling.checked_mul(knobs.grow)?;
        let grown = if knobs.grow == 0 {
            0
        } else {
            product.max(knobs.grow_start).min(cap)
        };
        let longest = ceiling.max(grown);
        if longest > LONGEST {
            return None;
        }
        let (grow, start, cap) = if knobs.grow == 0 {
            (1, 0, u32::MAX)
        } else {
            (knobs.grow, knobs.grow_start.min(cap), cap)
        };
        let (magic, shift) = reciprocal(knobs.shrink);
        Some(Self {
            window: signed(choice.start.window(ceiling)),
            ceiling: signed(ceiling),
            grow: i32::try_from(grow)
                .ok()
                .filter(|_| i32::try_from(product).is_ok())?,
            start: signed(start),
            cap: signed(cap),
            magic,
            shift,
            floor: if rule.shrink_floor {
                signed(knobs.grow_start)
            } else {
                0
            },
            binary: doublings(grow)
                .zip(halvings(knobs.shrink))
                .map(<[u32; 2]>::from),
            longest,
        })
    }

    /// Whether `grow` and `shrink` are powers of two, for which vectors have a shorter step.
    pub(super) fn is_binary(&self) -> bool {
        self.binary.is_some()
    }
}

fn doublings(grow: u32) -> Option<u32> {
    grow.is_power_of_two().then(|| grow.ilog2())
}

/// A `shrink` of 0 gives 0, and so does halving any window this often.
fn halvings(shrink: u32) -> Option<u32> {
    match shrink {
        0 => Some(WINDOW_BITS),
        _ => shrink.is_power_of_two().then(|| shrink.ilog2()),
    }
}

fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// `(magic, shift)` so that `w / divisor = (16 w * magic >> 32) >> shift` for every `w` up to
/// [`LONGEST`]; 0 for a divisor of 0, as KVM's `shrink` has it.
///
/// With `2^shift >= divisor` and `magic` the next whole number above `2^(28 + shift) / divisor`, the
/// error of `w * magic / 2^(28 + shift)` stays below `w / 2^28 / divisor < 1 / divisor`, which cannot
/// reach the next whole quotient (Granlund, Montgomery, "Division by Invariant Integers using
/// Multiplication", 1994).
pub(super) fn reciprocal(divisor: u32) -> (u32, u32) {
    // Dividing any window by as much as this gives 0.
    let divisor = divisor.min(1 << WINDOW_BITS);
    if divisor == 0 {
        return (0, 0);
    }
    let shift = divisor.next_power_of_two().ilog2();
    let magic = (1_u64 << (WINDOW_BITS + shift)).div_ceil(u64::from(divisor));
    (u32::try_from(magic).unwrap_or(u32::MAX), shift)
}

pub(super) type Row<T> = [T; LANES];

#[derive(Debug, Clone, Default)]
#[repr(align(64))]
pub(super) struct Group {
    pub(super) window: Row<i32>,
    /// Wake-up latencies of the last halt.
    pub(super) last: Row<i32>,
    pub(super) ceiling: Row<i32>,
    pub(super) grow: Row<i32>,
    pub(super) start: Row<i32>,
    pub(super) cap: Row<i32>,
    pub(super) magic: Row<u32>,
    pub(super) shift: Row<u32>,
    pub(super) floor: Row<i32>,
    /// Where all lanes are [binary](Terms::is_binary).
    pub(super) doublings: Row<u32>,
    pub(super) halvings: Row<u32>,
    pub(super) sums: LaneSums<i32>,
    full: LaneSums<u64>,
    /// Halts that slept in all lanes, and are in no lane's sum.
    pub(super) asleep: u64,
    /// The longest window of any lane; no ceiling is above it.
    pub(super) longest: i32,
    /// Some lane is not binary.
    pub(super) is_general: bool,
}

/// Sums of each lane, over the halts that vectors played.
#[derive(Debug, Clone, Default)]
pub(super) struct LaneSums<T> {
    pub(super) polled: Row<T>,
    /// Halts that slept, but for those that sleep in every lane.
    pub(super) blocks: Row<T>,
    pub(super) failed: Row<T>,
    pub(super) latency: Row<T>,
    /// By how much gaps were shorter than [`Ahead`] has it for all lanes.
    pub(super) shorter: Row<T>,
}

impl<T> LaneSums<T> {
    fn rows(&self) -> [&Row<T>; 5] {
        [
            &self.polled,
            &self.blocks,
            &self.failed,
            &self.latency,
            &self.shorter,
        ]
    }

    fn rows_mut(&mut self) -> [&mut Row<T>; 5] {
        [
            &mut self.polled,
            &mut self.blocks,
            &mut self.failed,
            &mut self.latency,
            &mut self.shorter,
        ]
    }
}

impl Group {
    pub(super) fn put(&mut self, index: usize, terms: &Terms) {
        self.window[index] = terms.window;
        self.ceiling[index] = terms.ceiling;
        self.grow[index] = terms.grow;
        self.start[index] = terms.start;
        self.cap[index] = terms.cap;
        self.magic[index] = terms.magic;
        self.shift[index] = terms.shift;
        self.floor[index] = terms.floor;
        let [doublings, halvings] = terms.binary.unwrap_or_default();
        self.doublings[index] = doublings;
        self.halvings[index] = halvings;
        self.longest = self.longest.max(signed(terms.longest));
        self.is_general |= terms.binary.is_none();
    }

    /// Puts a lane of another group in a lane, with all that came of it.
    pub(super) fn put_on(&mut self, index: usize, terms: &Terms, from: &Self, at: usize) {
        self.put(index, terms);
        self.window[index] = from.window[at];
        self.last[index] = from.last[at];
        for (row, sum) in self.full.rows_mut().into_iter().zip(from.sums_of(at)) {
            row[index] = sum;
        }
        self.full.blocks[index] += from.asleep;
    }

    /// The window of a lane's next halt, in nanoseconds.
    pub(super) fn window(&self, index: usize) -> u32 {
        self.window[index].cast_unsigned()
    }

    /// The wake-up latency of a lane's last halt, in nanoseconds.
    pub(super) fn last_ns(&self, index: usize) -> u64 {
        u64::from(self.last[index].cast_unsigned())
    }

    /// Goes on with a window that was moved elsewhere.
    pub(super) fn take_over(&mut self, index: usize, window: u32) {
        self.window[index] = signed(window);
    }

    /// Empties the sums into 64 bits.
    #[expect(clippy::inline_always, reason = "part of the kernel, see there")]
    #[inline(always)]
    pub(super) fn empty(&mut self) {
        let rows = self.sums.rows_mut().into_iter().zip(self.full.rows_mut());
        for (from, to) in rows {
            for (from, to) in from.iter_mut().zip(to) {
                *to += u64::from(from.cast_unsigned());
                *from = 0;
            }
        }
    }

    /// A lane's sums, in the order of [`LaneSums::rows`].
    fn sums_of(&self, index: usize) -> [u64; 5] {
        let (some, full) = (self.sums.rows(), self.full.rows());
        std::array::from_fn(|row| full[row][index] + u64::from(some[row][index].cast_unsigned()))
    }

    /// A lane's figures; `apart` are those of the halts that were played elsewhere.
    pub(super) fn tally(&self, index: usize, ahead: &Ahead, apart: &Sums) -> Sums {
        let [poll_ns, blocks, failed_polls, latency_ns, shorter_ns] = self.sums_of(index);
        let gap_ns = ahead.gaps_ns.wrapping_sub(shorter_ns);
        Sums {
            halts: apart.halts + ahead.halts,
            blocks: apart.blocks + blocks + self.asleep,
            failed_polls: apart.failed_polls + failed_polls,
            poll_ns: apart.poll_ns + poll_ns,
            latency_ns: apart.latency_ns + latency_ns,
            halt_ns: apart.halt_ns + gap_ns + latency_ns,
            ..Sums::default()
        }
    }
}
