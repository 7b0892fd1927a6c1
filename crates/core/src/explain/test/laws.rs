//! What holds of every recording.

use proptest::prelude::{Strategy, prop_assert};

use super::*;

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let load = (
        0..3_u32,
        0..400_u64,
        1..5_000_000_u64,
        0..4_000_000_u64,
        (0..2_000_000_u32, 0..2_000_000_u32),
        0..5_usize,
        0..4_u64,
    );
    let load = load.prop_map(
        |(vcpu, count, gap_ns, latency_ns, (window, ceiling), wake, cut)| Load {
            vcpu,
            count,
            period_ns: gap_ns + latency_ns + 10_000,
            gap_ns,
            latency_ns,
            window_ns: window.min(ceiling),
            ceiling_ns: ceiling,
            source: CeilingSource::ALL[wake % 4],
            wake: WakeSource::ALL[wake],
            cut_each: cut,
        },
    );
    proptest::collection::vec(load, 0..5)
}

type Rows = Vec<(Kind, u32, Option<u64>, u64, u64)>;

fn rows() -> impl Strategy<Value = Rows> {
    let row = (
        0..Kind::ALL.len(),
        0..64_u32,
        0..0x100_0000_u64,
        0..30_000_u64,
        0..90_000_u64,
    );
    let row = row.prop_map(|(kind, reason, sub, count, each)| {
        let kind = Kind::ALL[kind];
        (kind, reason, kind.is_sub().then_some(sub), count, each)
    });
    proptest::collection::vec(row, 0..8)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Gains are finite and not negative, the largest first, unknown ones last; a rule speaks of a guest
    /// at most once for each cause; and what is said has words.
    #[test]
    fn findings_are_in_order_and_whole(
        loads in loads(),
        rows in rows(),
        keys in proptest::sample::subsequence(&SubKey::ALL[..], 0..7),
        pressure in 0.0..1.0_f64,
        shrink in 0..3_u32,
    ) {
        let bench = Bench::new(3)
            .pressure(pressure)
            .param("halt_poll_ns_shrink", &shrink.to_string())
            .exits(&keys, &rows);
        let explained = loads.into_iter().fold(bench, Bench::load).explain();
        let mut above = f64::INFINITY;
        for finding in &explained.findings {
            let found = &finding.found;
            let gain = found.gain.map_or(0.0, |gain| gain.ns_per_s);
            prop_assert!(gain.is_finite() && gain >= 0.0 && gain <= above, "{finding:?}");
            above = gain;
            for text in [&found.signature, &found.cause, &found.remedy] {
                prop_assert!(text.ends_with(['.', ';']) && !text.contains("  "), "{text}");
            }
            let alike = |it: &&super::super::Finding| {
                it.rule.id == finding.rule.id && it.found == *found
            };
            prop_assert!(explained.findings.iter().filter(alike).count() == 1);
        }
    }
}
