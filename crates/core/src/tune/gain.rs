//! How much can be gained on the setting in force: what decides it, before anything is searched.
//!
//! A halt that sleeps costs the break-even `c`: the switch and the goal's price of its wake-up latency
//! ([`crate::replay::Cost::break_even_ns`]). A halt that is polled through costs its gap `g`. So with a
//! window that stays open up to the ceiling `C`, a halt costs
//!
//! ```text
//!   in force      g  if g <= C,  else  C + c
//!   not polling   c
//!   oracle   min(g, c)                      no policy, of any kind, costs less
//! ```
//!
//! Three laws follow; `test::gain` holds each against replays.
//!
//! 1. **Gaps between break-even and ceiling** (`c <= g <= C` throughout): not polling is what the
//!    oracle does. It costs `c / mean(g)` of what is in force, and nothing costs less. It is at least
//!    twice as cheap where the mean gap is at least `2c`, and nowhere else. Where `2c > C` there are no such
//!    gaps.
//! 2. **Any gaps**: with `p` polled and `b` of the halts asleep under the setting in force, not
//!    polling costs `c / (p + b c)` of it. It is at least twice as cheap where `p >= (2 - b) c`.
//! 3. **Any setting** costs at least `mean(min(g, c))`. Where that is more than half of the cost in
//!    force, nothing is twice as cheap.
//!
//! Exponential gaps of mean `m` have no memory: every fixed threshold costs a mean of `m` and `c`, so that
//! not polling is the best of them where `m > c`, while the oracle pays `m (1 - exp(-c / m))`.

/// What not polling costs, as a share of the setting in force: the second law. That setting polls for
/// `poll_ns` a halt and lets `blocks` of the halts sleep (0 to 1), each for `break_even_ns`.
pub fn off_share(poll_ns: f64, blocks: f64, break_even_ns: f64) -> f64 {
    break_even_ns / (poll_ns + blocks * break_even_ns)
}
