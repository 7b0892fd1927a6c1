//! `payback:max=200us`: polls while polling has recently saved more than it cost.
//!
//! For each halt, polled or not, a credit grows by what polling for the price of a block would have saved, or shrinks by
//! what a failed poll would have cost. Where there is credit the window is that price, else 0. Gap, price and `max` are those
//! of [`leader`](super::leader).
//!
//! **Bound.** At most 3 times the oracle's cost and [`PATIENCE`] blocks more. Its state has 8 bytes.
//!
//! Wins on runs of like gaps. Loses on gaps that take turns, which it does not distinguish. Source: ski rental's potential
//! argument (Karlin, Manasse, Rudolph, Sleator, "Competitive Snoopy Caching", 1988).

use super::leader::Price;
use super::{Entry, Policy, Seen, Start};

pub(super) const ENTRY: Entry = Entry {
    name: "payback",
    form: "max=TIME, optional",
    summary: "polls while polling has saved more than it cost",
    build: |args, setting| {
        let max_ns = args.kvm_time("max")?.unwrap_or(u32::MAX);
        let price = Price::new(setting);
        let credit = match setting.start {
            Start::Zero => 0,
            Start::Ceiling => PATIENCE * price.block_ns().cast_signed(),
        };
        Ok(Box::new(Payback {
            max_ns,
            credit,
            price,
        }))
    },
};

/// The most that credit or debt is, in blocks.
const PATIENCE: i32 = 8;

const _: () = assert!(size_of::<i32>() + size_of::<Price>() == 8);

#[derive(Debug)]
struct Payback {
    max_ns: u32,
    /// Saved by polling recently, in nanoseconds; negative if it cost more.
    credit: i32,
    price: Price,
}

impl Policy for Payback {
    fn window(&mut self, _: Option<u64>) -> u64 {
        let window_ns = self.price.block_ns().min(self.max_ns);
        if self.credit > 0 { window_ns.into() } else { 0 }
    }

    fn learn(&mut self, seen: &Seen) {
        if !seen.valid {
            return;
        }
        let block_ns = self.price.block_ns();
        let window_ns = block_ns.min(self.max_ns);
        self.credit = credit(self.credit, seen.gap_ns(), window_ns, block_ns);
        self.price.learn(seen);
    }
}

fn credit(credit: i32, gap_ns: u64, window_ns: u32, block_ns: u32) -> i32 {
    let saved = match u32::try_from(gap_ns) {
        Ok(gap_ns) if gap_ns <= window_ns => (block_ns - gap_ns).cast_signed(),
        _ => -window_ns.cast_signed(),
    };
    let most = PATIENCE * block_ns.cast_signed();
    (credit + saved).clamp(-most, most)
}

#[cfg(test)]
mod test;
