//! `budget:2%|kvm:max=200us`: another policy, that never polls for more than a share of all time.
//!
//! A bucket fills by the share of the time that passes, up to `burst` (10 ms), and empties by what is
//! polled. It is empty at the first halt. A halt for which the other policy wants no more than is in it
//! is polled as wanted. One for which it wants more is not polled, since a poll cut short is the one
//! most likely to be for nothing; but of what no bucket can hold (`fixed:always`) a full one is given.
//!
//! So the time polled since the first halt never exceeds the share of the time passed since, and that
//! in any stretch of time never exceeds the share of it and one burst. A poll that lasted
//! longer than its window, as real ones do by the length of a loop, is a debt, paid before anything
//! else is polled. The start concerns the other policy alone: a bucket that began full would break the
//! promise.
//! Wins where a VM or a host must not pay more than a fixed price for its latency. Loses in bursts longer
//! than what was saved up. Source: the token bucket of traffic shaping; as a limit for polling, ours.

use super::{Ask, Entry, Policy, Seen, Side};

pub(super) const ENTRY: Entry = Entry {
    name: "budget",
    form: "SHARE%,burst=TIME|POLICY, burst optional",
    summary: "another policy, limited to a share of all time",
    build: |args, setting| {
        let Some(share) = args.share("")? else {
            return Err(args.missing("a share"));
        };
        let burst_ns = args.time("burst")?.unwrap_or(BURST_NS);
        let Some(inner) = args.inner(setting)? else {
            return Err(args.missing("the policy that it limits"));
        };
        Ok(Box::new(Budget {
            inner,
            share: billionths(share),
            burst_ns,
            saved: 0,
            last_ns: None,
        }))
    },
};

/// What can be saved up unless told otherwise: half a second's worth of 2 %.
const BURST_NS: u64 = 10_000_000;

/// Parts of a nanosecond in which savings are counted.
const PARTS: i128 = 1_000_000_000;

#[derive(Debug)]
struct Budget {
    inner: Box<dyn Policy>,
    /// The share in billionths.
    share: i128,
    burst_ns: u64,
    /// What may be polled, in billionths of a nanosecond. Below 0: a debt.
    saved: i128,
    /// When the last halt began.
    last_ns: Option<u64>,
}

impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            inner,
            share,
            burst_ns,
            saved,
            last_ns,
        } = self;
        (*share, *burst_ns, *saved, *last_ns)
            == (other.share, other.burst_ns, other.saved, other.last_ns)
            && **inner == *other.inner
    }
}

impl Budget {
    /// Takes what the time since the last halt brought.
    fn save(&mut self, now_ns: u64) {
        let last_ns = self.last_ns.unwrap_or(now_ns).min(now_ns);
        let passed_ns = i128::from(now_ns - last_ns);
        let most = i128::from(self.burst_ns) * PARTS;
        self.saved = (self.saved + passed_ns * self.share).min(most);
        self.last_ns = Some(now_ns);
    }
}

impl Policy for Budget {
    fn window(&mut self, ask: &Ask) -> u64 {
        self.save(ask.now_ns);
        let wanted_ns = self.inner.window(ask);
        let saved_ns = u64::try_from(self.saved / PARTS).unwrap_or(0);
        if wanted_ns.min(self.burst_ns) <= saved_ns {
            wanted_ns.min(saved_ns)
        } else {
            0
        }
    }

    fn learn(&mut self, seen: &Seen) {
        self.saved -= i128::from(seen.poll_ns) * PARTS;
        self.inner.learn(seen);
    }

    fn sees_the_future(&self) -> bool {
        self.inner.sees_the_future()
    }

    fn side(&self) -> Side {
        self.inner.side()
    }
}

/// A share in billionths, rounded down so that no promise is broken by rounding.
#[expect(
    clippy::cast_possible_truncation,
    reason = "lies within 0 and 1,000,000,000"
)]
fn billionths(share: f64) -> i128 {
    (share * PARTS as f64) as i128
}

#[cfg(test)]
mod test;
