//! `leader:max=200us`: polls for the window that would have cost least after outcomes like the last two.
//!
//! The rule has no parameter that depends on the load; `max` is a hard limit of the window, 0 is off. Four windows, of 0, 1,
//! 2 and 4 quarters of the price of a block, are charged for each halt with what the halt would have cost under them.
//! The window without debt is the next one. Debts are kept for each outcome of the last two halts (was the gap within the
//! price of a block?), as a branch predictor does, so that the rule distinguishes gaps that take turns.
//!
//! * A debt ends at [`PATIENCE`] blocks: a load that changes is followed after so many.
//! * The price of a block is twice the [`Price`], the wake-up latency of undisturbed sleeps: latency and two switches.
//! * The gap ends at the wake event. It is known of halts that were not polled and of polls that a task cut short, and
//!   contains no wake-up latency, so that gaps just below the limit do not lock polling out.
//! * Wake-ups that KVM does not count as valid teach nothing.
//!
//! **Bound.** No sequence of gaps makes one set of debts pay more than 2.744 times the oracle's cost (`test.rs` searches
//! all states), so the rule pays at most that and `4 x PATIENCE` blocks more, each at its price of a block. Its state has
//! 69 bytes, its arithmetic is additions, comparisons and shifts of 32 bits: it can stand in a kernel as it is.
//!
//! Wins on gaps that take turns or come in runs, and where one setting must serve all loads. Loses on memoryless gaps with a
//! mean near the price of a block. Source: experts (Littlestone, Warmuth, "The Weighted Majority Algorithm", 1994), histories
//! of two-level branch prediction (Yeh, Patt, 1991).

use super::{Entry, Policy, Seen, Setting, Start};

pub(super) const ENTRY: Entry = Entry {
    name: "leader",
    form: "max=TIME, optional",
    summary: "the window that would have cost least after such halts",
    build: |args, setting| {
        let max_ns = args.kvm_time("max")?.unwrap_or(u32::MAX);
        let mut leader = Leader {
            max_ns,
            price: Price::new(setting),
            debts: [[0; PARTS.len()]; HISTORIES],
            history: 0,
        };
        if setting.start == Start::Ceiling {
            let owed_ns = PATIENCE * leader.price.block_ns();
            leader.debts = [[owed_ns, owed_ns, owed_ns, 0]; HISTORIES];
        }
        Ok(Box::new(leader))
    },
};

/// The windows, in quarters of the price of a block.
const PARTS: [u32; 4] = [0, 1, 2, 4];

/// The outcomes of the last two halts, a bit each.
const HISTORIES: usize = 4;

/// The most that a window owes, in blocks.
const PATIENCE: u32 = 16;

/// Debts of the windows of [`PARTS`], in nanoseconds: at least one is 0.
type Debts = [u32; PARTS.len()];

const _: () = assert!(size_of::<[Debts; HISTORIES]>() + size_of::<Price>() + size_of::<u8>() == 69);

#[derive(Debug)]
struct Leader {
    max_ns: u32,
    debts: [Debts; HISTORIES],
    price: Price,
    /// The last two outcomes: 1 where the gap was within the price of a block, the last one lowest.
    history: u8,
}

impl Policy for Leader {
    fn window(&mut self, _: Option<u64>) -> u64 {
        let windows = windows(self.price.block_ns(), self.max_ns);
        window(&self.debts[usize::from(self.history)], windows).into()
    }

    fn learn(&mut self, seen: &Seen) {
        if !seen.valid {
            return;
        }
        let (gap_ns, block_ns) = (seen.gap_ns(), self.price.block_ns());
        let debts = &mut self.debts[usize::from(self.history)];
        charge(
            debts,
            windows(block_ns, self.max_ns),
            gap_ns,
            block_ns,
            PATIENCE,
        );
        self.history = ((self.history << 1) | u8::from(gap_ns <= block_ns.into())) & 3;
        self.price.learn(seen);
    }
}

fn windows(block_ns: u32, max_ns: u32) -> [u32; PARTS.len()] {
    PARTS.map(|part| ((block_ns * part) >> 2).min(max_ns))
}

/// The first window without debt.
fn window(debts: &Debts, windows: [u32; PARTS.len()]) -> u32 {
    let leader = debts.iter().zip(windows).find(|(debt, _)| **debt == 0);
    leader.map_or(0, |(_, window_ns)| window_ns)
}

/// Charges each window with the cost of a halt with this gap, less the least of all debts.
fn charge(
    debts: &mut Debts,
    windows: [u32; PARTS.len()],
    gap_ns: u64,
    block_ns: u32,
    patience: u32,
) {
    for (debt, window_ns) in debts.iter_mut().zip(windows) {
        *debt += match u32::try_from(gap_ns) {
            Ok(gap_ns) if gap_ns <= window_ns => gap_ns,
            _ => window_ns + block_ns,
        };
    }
    let least = debts.iter().copied().min().unwrap_or(0);
    for debt in debts {
        *debt = (*debt - least).min(patience * block_ns);
    }
}

/// A low expectile of the wake-up latency, in nanoseconds; 0 before the first sleep. Sleeps that wait behind other tasks wake
/// late, so a latency below the price moves it by a quarter of the difference, one above by a thirty-second. A latency
/// counts for [`Self::MOST`] at most: one sleep behind a task of a second adds no more than 11 us.
#[derive(Debug)]
pub(super) struct Price(u32);

impl Price {
    const LEAST: u32 = 1_000;
    const MOST: u32 = 350_000;

    /// Before the first sleep; of a vCPU that has run for long, half of what the replay takes a block to cost.
    pub(super) fn new(setting: &Setting) -> Self {
        match setting.start {
            Start::Zero => Self(0),
            Start::Ceiling => Self(Self::within(setting.break_even_ns >> 1)),
        }
    }

    /// Price of a block: the latency and two switches.
    pub(super) fn block_ns(&self) -> u32 {
        self.0 << 1
    }

    pub(super) fn learn(&mut self, seen: &Seen) {
        if !seen.waited {
            // Only sleeps correct a price, and a price that is too high has none: gaps that are longer than a block, but not
            // than this price, would be polled for ever.
            if seen.poll_ns > 0 && self.0 > Self::LEAST {
                self.0 -= (self.0 >> 14) + 1;
            }
            return;
        }
        if seen.wake_latency_ns == 0 {
            // Not known, as of a sleep that a signal ended.
            return;
        }
        let latency_ns = Self::within(seen.wake_latency_ns);
        self.0 = match self.0 {
            0 => latency_ns,
            price if latency_ns < price => price - ((price - latency_ns) >> 2),
            price => price + ((latency_ns - price) >> 5),
        };
    }

    fn within(latency_ns: u64) -> u32 {
        let latency_ns = u32::try_from(latency_ns).unwrap_or(Self::MOST);
        latency_ns.clamp(Self::LEAST, Self::MOST)
    }
}

#[cfg(test)]
mod test;
