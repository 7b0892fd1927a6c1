//! Laws that hold for every recording.

use proptest::prelude::{Strategy, prop_assert, prop_assume, prop_compose};

use super::super::cost::SHOWN_FROM_NS_PER_S;
use super::*;

prop_compose! {
    fn load()(
        (vcpu, count, cut_each) in (0..3_u32, 0..400_u64, 0..4_u64),
        (gap_ns, latency_ns) in (1..5_000_000_u64, 0..4_000_000_u64),
        (window_ns, ceiling_ns) in (0..2_000_000_u32, 0..2_000_000_u32),
        wake in 0..5_usize,
    ) -> Load {
        Load {
            vcpu, count, gap_ns, latency_ns, ceiling_ns, cut_each,
            period_ns: gap_ns + latency_ns + 10_000,
            window_ns: window_ns.min(ceiling_ns),
            source: CeilingSource::ALL[wake % 4],
            wake: WakeSource::ALL[wake],
        }
    }
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    proptest::collection::vec(load(), 0..5)
}

prop_compose! {
    fn row()(
        kind in 0..Kind::ALL.len(), reason in 0..64_u32, sub in 0..0x100_0000_u64,
        count in 0..30_000_u64, each_ns in 0..90_000_u64,
    ) -> Row {
        let kind = Kind::ALL[kind];
        (kind, reason, kind.is_sub().then_some(sub), count, each_ns)
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec(row(), 0..8)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Costs are finite and not negative, of each rule together the highest first, unknown ones last, and
    /// none is shown that is small; a rule speaks of a guest at most once for each cause; what is said has
    /// words; and every remedy is of a kind that the cases name for its rule.
    #[test]
    fn findings_are_in_order_and_whole(
        loads in loads(),
        rows in rows(),
        keys in proptest::sample::subsequence(&SubKey::ALL[..], 0..7),
        pressure in 0.0..1.0_f64,
        shrink in 0..3_u32,
        weight in 0..11_u32,
    ) {
        let mut bench = Bench::new(3)
            .pressure(pressure)
            .param("halt_poll_ns_shrink", &shrink.to_string())
            .exits(&keys, &rows);
        bench.weight = f64::from(weight);
        let explained = loads.into_iter().fold(bench, Bench::load).explain();
        let weighed = |it: &Finding| it.found.cost.map_or(0.0, |cost| cost.weighed(f64::from(weight)));
        let mut above = f64::INFINITY;
        for rule in explained.findings.chunk_by(|a, b| a.rule.id == b.rule.id) {
            let cost: f64 = rule.iter().map(weighed).sum();
            prop_assert!(cost.is_finite() && cost >= 0.0 && cost <= above, "{rule:?}");
            let is_known = rule.iter().all(|it| it.found.cost.is_some());
            prop_assert!(!is_known || cost >= SHOWN_FROM_NS_PER_S, "{rule:?}");
            above = cost;
        }
        for finding in &explained.findings {
            let found = &finding.found;
            prop_assert!(!found.remedies.is_empty());
            for remedy in &found.remedies {
                let kind = (finding.rule.id, remedy.does);
                prop_assert!(super::guards::KINDS.contains(&kind), "{finding:?}");
            }
            let remedies = found.remedies.iter().map(|remedy| &*remedy.text);
            let terms = found.remedies.iter().map(|remedy| remedy.terms);
            let terms = terms.flat_map(|terms| [terms.price, terms.harm]);
            let texts = remedies.chain([&*found.signature, &*found.cause]);
            for text in texts.chain(terms) {
                prop_assert!(text.ends_with(['.', ';']) && !text.contains("  "), "{text}");
            }
            let alike = |it: &&Finding| it.rule.id == finding.rule.id && it.found == *found;
            prop_assert!(explained.findings.iter().filter(alike).count() == 1);
        }
    }

    /// No remedy adds polling or spinning where tasks wait for a CPU and no poll of these
    /// vCPUs shows otherwise; nor where polls of theirs are preempted, each and all. This asks what was
    /// drawn, not what the guards look at.
    #[test]
    fn no_remedy_takes_a_cpu_that_others_want(
        loads in loads(),
        rows in rows(),
        pressure in 0.2..1.0_f64,
        is_cut in proptest::bool::ANY,
        vetoed in proptest::bool::ANY,
    ) {
        let mut bench = Bench::new(3)
            .pressure(if is_cut { 0.0 } else { pressure })
            .param("halt_poll_ns_shrink", "0")
            .window(false, 200)
            .window(true, 2_000)
            .exits(&SubKey::ALL, &rows);
        bench.roster.vcpus.iter_mut().for_each(|vcpu| vcpu.guest_veto = Some(vetoed));
        let pressed = |load: Load| {
            let window_ns = if is_cut { load.window_ns.max(1) } else { 0 };
            let load = load.window_ns(window_ns).ceiling_ns(load.ceiling_ns.max(1));
            load.cut_each(1).count(load.count + 200)
        };
        let loads: Vec<Load> = loads.into_iter().map(pressed).collect();
        prop_assume!(!loads.is_empty());
        let explained = loads.into_iter().fold(bench, Bench::load).explain();
        for finding in &explained.findings {
            for remedy in &finding.found.remedies {
                use Does::{GuestPolls, HostPollsMore, NoPauseExits, WaitsForTimers};
                let takes = matches!(remedy.does, HostPollsMore(_) | GuestPolls | NoPauseExits | WaitsForTimers);
                prop_assert!(!takes, "{finding:?}");
            }
        }
    }
}

#[test]
fn a_halt_of_a_vm_counts_though_its_vcpu_is_not_known() {
    let mut bench = Bench::new(1);
    for vcpu in [Some(VcpuId(0)), None] {
        let halt = Halt::under(0, 0, 0, 0);
        bench.ledger.halt(&Halt { vcpu, ..halt });
    }
    let interval = Interval {
        start_ns: 0,
        end_ns: SECOND,
    };
    let evidence = Evidence::new(&bench.roster, &bench.ledger, None, interval, |_| true);
    assert_eq!(evidence.guests[0].account.halts, 2);
    assert_eq!(evidence.guests[0].seats.len(), 1);
}

#[test]
fn halts_of_unknown_vcpus_are_not_called_too_few() {
    let lacks = |vcpu, halts| {
        let mut bench = Bench::new(1);
        for _ in 0..halts {
            let halt = Halt::under(0, 0, 0, 0);
            bench.ledger.halt(&Halt { vcpu, ..halt });
        }
        bench.lacks("hlt-below-break-even").unwrap()
    };
    let unknown = lacks(None, 200);
    assert!(unknown.contains("were not recorded"), "{unknown}");
    let few = lacks(Some(VcpuId(0)), 99);
    assert!(few.contains("too few"), "{few}");
}
