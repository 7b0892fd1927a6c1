//! Wake-ups that polling makes shorter: what a recording without polling cannot show.
//!
//! KVM's rule sees gap and wake-up latency together, so that shorter wake-ups let windows grow. Where a
//! waker sleeps itself, both are shorter once there is polling: a vCPU that polled has kept its CPU awake,
//! and whoever waits for its answer slept for a shorter time. Pairs of runs of the lab with the same drawn
//! gaps (exponential, 60 us; ceilings of 0 and 100 us; one vCPU, 6.18, in a VM) show it: sleeps of the same
//! length took 30.7 us to wake after a poll and 38.5 us without one, and a gap after a poll that was met was
//! shorter by 0.5 to 15 us, where the waker blocks; nothing of it where the waker spins. In another VM with a waker
//! that sleeps 31 to 35 % of the halts were met by a poll where 26 % had been predicted.
//!
//! How much shorter hangs on idle states and on the waker, so nothing is corrected. Where a recording hardly
//! polled, each policy is played once more with wake-ups a fifth shorter, which is what was seen at most: how
//! far that is from the prediction says how much the prediction rests on it.

/// What is left of a wake-up, in %.
pub const WAKE_PERCENT: u64 = 80;

/// Whether polling is so rare in a recording that it does not show what wake-ups are like with it: less than
/// one halt in ten polled.
pub fn hardly_polled(halts_that_polled: u64, halts: u64) -> bool {
    halts_that_polled.saturating_mul(10) < halts
}
