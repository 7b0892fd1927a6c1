//! Some lanes side by side: their windows, their settings as the step wants them, their sums.
//!
//! All of it is 32 bits wide, so that a vector holds as many lanes as it can, and signed where it is
//! compared, since that is what all vector units do. Sums are emptied into 64 bits before they can
//! overflow, see [`super::halt`].

use super::halt::Ahead;
use super::{Choice, Tally};
use crate::kvm::Rule;
use crate::kvm::rule::{Clamp, GrowStart, GrowthCap};

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
    /// The longest window that it can come to, in nanoseconds.
    pub(super) longest: u32,
}

impl Terms {
    /// `None` where vectors do not cover it: growth as before 5.1, windows above [`LONGEST`], products
    /// that do not fit in 31 bits.
    pub(super) fn of(choice: &Choice, rule: &Rule) -> Option<Self> {
        let (knobs, ceiling) = (choice.knobs, choice.ceiling_ns);
        if rule.grow_start != GrowStart::Param {
            return None;
        }
        // A cut where a halt begins is made where the halt before ends: the ceiling never moves here.
        let cap = match (rule.clamp, rule.growth_cap) {
            (Clamp::AtEntry | Clamp::AfterHalt, _) | (_, GrowthCap::Ceiling) => ceiling,
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
            longest,
        })
    }
}

/// The nearest there is: what is longer than any window compares alike.
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

/// A number for each lane.
pub(super) type Row<T> = [T; LANES];

/// Some lanes.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
pub(super) struct Group {
    /// Windows of the next halt.
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
    pub(super) sums: Sums<i32>,
    full: Sums<u64>,
}

/// What is summed for each lane, over the halts that vectors played.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums<T> {
    /// Time polled.
    pub(super) polled: Row<T>,
    /// Of it, by polls that ended in a wake.
    pub(super) won: Row<T>,
    /// Halts that polled.
    pub(super) polls: Row<T>,
    /// Halts that slept, but for those that sleep under every setting.
    pub(super) blocks: Row<T>,
    /// Halts that neither slept nor polled: the wake event was there and the window 0.
    pub(super) idle: Row<T>,
    /// Wake-up latency.
    pub(super) latency: Row<T>,
    /// By how much gaps were shorter than [`Ahead`] has it for all lanes.
    pub(super) shorter: Row<T>,
    /// Latencies that had to be guessed.
    pub(super) guessed: Row<T>,
}

impl Group {
    /// Puts a setting in a lane.
    pub(super) fn put(&mut self, index: usize, terms: &Terms) {
        self.window[index] = terms.window;
        self.ceiling[index] = terms.ceiling;
        self.grow[index] = terms.grow;
        self.start[index] = terms.start;
        self.cap[index] = terms.cap;
        self.magic[index] = terms.magic;
        self.shift[index] = terms.shift;
        self.floor[index] = terms.floor;
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
        let (from, to) = (&mut self.sums, &mut self.full);
        let rows = [
            (&mut from.polled, &mut to.polled),
            (&mut from.won, &mut to.won),
            (&mut from.polls, &mut to.polls),
            (&mut from.blocks, &mut to.blocks),
            (&mut from.idle, &mut to.idle),
            (&mut from.latency, &mut to.latency),
            (&mut from.shorter, &mut to.shorter),
            (&mut from.guessed, &mut to.guessed),
        ];
        for (from, to) in rows {
            for (from, to) in from.iter_mut().zip(to) {
                *to += u64::from(from.cast_unsigned());
                *from = 0;
            }
        }
    }

    /// A lane's figures; `apart` are those of the halts that were played elsewhere.
    pub(super) fn tally(&self, index: usize, ahead: &Ahead, apart: &Tally) -> Tally {
        let (sums, full) = (&self.sums, &self.full);
        let of =
            |sums: &Row<i32>, full: &Row<u64>| full[index] + u64::from(sums[index].cast_unsigned());
        let poll_ns = of(&sums.polled, &full.polled);
        let latency_ns = of(&sums.latency, &full.latency);
        let gap_ns = ahead.gaps_ns.wrapping_sub(of(&sums.shorter, &full.shorter));
        let blocks = of(&sums.blocks, &full.blocks) + ahead.asleep;
        let idle = of(&sums.idle, &full.idle);
        Tally {
            halts: apart.halts + ahead.halts,
            polls: apart.polls + of(&sums.polls, &full.polls),
            successful_polls: apart.successful_polls + (ahead.halts - blocks - idle),
            blocks: apart.blocks + blocks,
            poll_ns: apart.poll_ns + poll_ns,
            poll_fail_ns: apart.poll_fail_ns + poll_ns - of(&sums.won, &full.won),
            latency_ns: apart.latency_ns + latency_ns,
            sleep_ns: apart.sleep_ns + (gap_ns - poll_ns),
            halt_ns: apart.halt_ns + gap_ns + latency_ns,
            latency_guessed: apart.latency_guessed + of(&sums.guessed, &full.guessed),
        }
    }
}
