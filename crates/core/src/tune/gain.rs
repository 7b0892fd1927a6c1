//! How much can be gained on the setting in force: what decides it, before anything is searched.
//!
//! A halt that sleeps costs the break-even `c`: the switch and the goal's price of its wake-up latency
//! ([`crate::replay::Cost::break_even_ns`]). A halt that is polled through costs its gap `g`. So with a
//! window that stays open up to the ceiling `C`, a halt costs
//!
//! ```text
//!   in force      g  if g <= C,  else  C + c
//!   not polling   c
//!   clairvoyant   min(g, c)                      no policy, of any kind, costs less
//! ```
//!
//! Three laws follow; `test::gain` holds each against replays.
//!
//! 1. **Gaps between break-even and ceiling** (`c <= g <= C` throughout): not polling is what the
//!    clairvoyant does. It costs `c / mean(g)` of what is in force, and nothing costs less. It is at least
//!    twice as cheap where the mean gap is at least `2c`, and nowhere else. Where `2c > C` there are no such
//!    gaps.
//! 2. **Any gaps**: with `p` polled and `b` of the halts asleep under the setting in force, not
//!    polling costs `c / (p + b c)` of it. It is at least twice as cheap where `p >= (2 - b) c`.
//! 3. **Any setting** costs at least `mean(min(g, c))`. Where that is more than half of the cost in
//!    force, nothing is twice as cheap.
//!
//! Exponential gaps of mean `m` have no memory: every fixed threshold costs a mean of `m` and `c`, so that
//! not polling is the best of them where `m > c`, while the clairvoyant pays `m (1 - exp(-c / m))`.

/// What a halt costs on average, in nanoseconds of CPU, where the window stays open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// With a window up to the ceiling.
    pub in_force_ns: f64,
    /// Without polling.
    pub off_ns: f64,
    /// For the clairvoyant.
    pub least_ns: f64,
}

impl Gain {
    /// Of these gaps under a ceiling, both in nanoseconds; `break_even_ns` says what a sleep costs that
    /// ends a gap of that length. `None` without gaps.
    pub fn of_gaps(
        gaps_ns: &[u64],
        ceiling_ns: u64,
        break_even_ns: impl Fn(u64) -> f64,
    ) -> Option<Self> {
        let mut sums = [0.0; 3];
        for &gap_ns in gaps_ns {
            let (gap, sleep) = (gap_ns as f64, break_even_ns(gap_ns));
            let in_force = if gap_ns <= ceiling_ns {
                gap
            } else {
                ceiling_ns as f64 + sleep
            };
            for (sum, cost) in sums.iter_mut().zip([in_force, sleep, gap.min(sleep)]) {
                *sum += cost;
            }
        }
        let [in_force_ns, off_ns, least_ns] = sums.map(|sum| sum / gaps_ns.len() as f64);
        (!gaps_ns.is_empty()).then_some(Self {
            in_force_ns,
            off_ns,
            least_ns,
        })
    }
}

/// What not polling costs, as a share of the setting in force: the second law. That setting polls for
/// `poll_ns` a halt and lets `blocks` of the halts sleep (0 to 1), each for `break_even_ns`.
pub fn off_share(poll_ns: f64, blocks: f64, break_even_ns: f64) -> f64 {
    break_even_ns / (poll_ns + blocks * break_even_ns)
}
