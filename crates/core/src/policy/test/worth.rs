//! What beats what: the findings of a simulation by others, on the same loads, with our policies.
//!
//! Only what is a matter of kind is asserted. Costs are those of polling and a fixed price for each
//! block, relative to the oracle; waking takes no time.

use super::model::{gaps, ratio};

const US: u64 = 1_000;

/// The kernel's own rule with the defaults of 6.12.
const KERNEL: &str = "kvm:knobs=default";

/// Costs on so many gaps of a load.
fn costs<const N: usize>(process: &str, break_even_ns: u64, texts: [&str; N]) -> [f64; N] {
    let gaps = gaps(process, 40_000);
    texts.map(|text| ratio(text, break_even_ns, &gaps))
}

/// The ceiling is what costs, not how windows grow and shrink: with 200 us where a block is worth 10 us,
/// all gaps between the two are polled for without success.
#[test]
fn a_ceiling_far_above_the_break_even_costs_many_times_the_best() {
    let texts = [KERNEL, "off", "learned"];
    for (process, at_least) in [("exp:60us", 3.0), ("fixed:150us", 10.0)] {
        let [kernel, others @ ..] = costs(process, 10 * US, texts);
        assert!(kernel > at_least, "{process}: {kernel}");
        assert!(
            others.iter().all(|cost| *cost < 1.25),
            "{process}: {others:?}"
        );
    }
    let [kernel, others @ ..] = costs("bimodal:0.8:15us:2ms", 10 * US, texts);
    assert!(kernel > 1.5, "{kernel}");
    assert!(others.iter().all(|cost| *cost < 1.25), "{others:?}");
}

#[test]
fn a_ceiling_at_the_break_even_mends_it() {
    for (process, break_even_ns) in [
        ("exp:60us", 10 * US),
        ("fixed:150us", 10 * US),
        ("fixed:150us", 50 * US),
        ("phases:20us*200:3ms*50", 50 * US),
    ] {
        let tuned = format!("kvm:max={break_even_ns}ns,grow_start=5us");
        let [kernel, tuned] = costs(process, break_even_ns, [KERNEL, &tuned]);
        assert!(
            tuned < 1.5 && tuned < kernel * 1.01,
            "{process}: {tuned} {kernel}"
        );
    }
}

/// Ping-pong below the break-even: everything that polls is near the best, and not to poll is not.
#[test]
fn on_ping_pong_all_that_poll_do_well() {
    let polling = [KERNEL, "learned"];
    let [off] = costs("fixed:8us", 50 * US, ["off"]);
    assert!(off > 6.0, "{off}");
    let found = costs("fixed:8us", 50 * US, polling);
    assert!(found.iter().all(|cost| *cost < 1.1), "{found:?}");
}

/// On mixtures of short and long gaps the last halt says nothing about the next: what is learned beats
/// the kernel's rule, at any price of a block.
#[test]
fn on_mixtures_learning_beats_the_last_halt() {
    for break_even_ns in [10 * US, 50 * US, 150 * US] {
        let texts = [KERNEL, "learned"];
        let [kernel, learned] = costs("bimodal:0.8:15us:2ms", break_even_ns, texts);
        assert!(learned * 1.1 < kernel, "{learned} {kernel}");
    }
}

/// On phases the last halt foretells the next: the kernel's rule beats a histogram.
#[test]
fn on_phases_the_last_halt_beats_one_histogram() {
    let texts = [KERNEL, "learned", "off"];
    let [kernel, learned, off] = costs("phases:20us*200:3ms*50", 50 * US, texts);
    assert!(
        kernel < learned && learned < off,
        "{kernel} {learned} {off}"
    );
}
