//! A VM that two sides record on their own clocks: what is found, and what is refused.

use proptest::prelude::*;

use super::*;
use crate::workload::SplitMix64;

/// A VM of which its guest and its host record the same, each on its own clock.
#[derive(Debug, Clone, Copy)]
struct World {
    seed: u64,
    cpus: u32,
    stays: usize,
    offset_ns: i64,
    drift_ppm: f64,
    exit_ns: u64,
    /// Number of stays in a hundred that contain no halt: woken before KVM halted the vCPU.
    without_halt: u64,
    /// Two tasks wake each other by turns: stays are alike.
    is_regular: bool,
}

const WORLD: World = World {
    seed: 1,
    cpus: 2,
    stays: 1_000,
    offset_ns: -83_000_123_456_789,
    drift_ppm: 30.0,
    exit_ns: 3_000,
    without_halt: 1,
    is_regular: false,
};

/// When the host's clock began, on the guest's.
const BEGIN_NS: u64 = 90_000_000_000_000;

impl World {
    /// Lengths of idle periods as loads have them: answers, timers, and pauses.
    fn length_ns(&self, draw: &mut SplitMix64) -> u64 {
        match draw.below(10) {
            _ if self.is_regular => 2_000_000 + draw.below(100_000),
            0..6 => 20_000 + draw.below(200_000),
            6..9 => 900_000 + draw.below(60_000),
            _ => 100_000 + draw.below(20_000_000),
        }
    }

    fn on_host(&self, guest_ns: u64) -> u64 {
        let since_ns = guest_ns - BEGIN_NS;
        let drift_ns = since_ns as f64 * self.drift_ppm / 1e6;
        #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
        let drift_ns = drift_ns as i64;
        guest_ns
            .saturating_add_signed(self.offset_ns)
            .saturating_add_signed(drift_ns)
    }

    fn record(&self) -> (Lanes, Lanes) {
        let (mut guest, mut host) = (Lanes::new(), Lanes::new());
        for cpu in 0..self.cpus {
            let mut draw = SplitMix64(self.seed * 1_000 + u64::from(cpu));
            let mut now_ns = BEGIN_NS;
            let (mut stays, mut halts) = (Vec::new(), Vec::new());
            for _ in 0..self.stays {
                let busy_ns = if self.is_regular { 400_000 } else { 5_000 };
                now_ns += busy_ns + draw.below(80_000);
                let half = |draw: &mut SplitMix64| self.exit_ns / 2 + draw.below(self.exit_ns + 1);
                let (before_ns, after_ns) = (half(&mut draw), half(&mut draw));
                let slept_ns = self.length_ns(&mut draw);
                let stay = Span {
                    start_ns: now_ns,
                    length_ns: before_ns + slept_ns + after_ns,
                };
                if draw.below(100) >= self.without_halt {
                    let start_ns = self.on_host(now_ns + before_ns);
                    let end_ns = self.on_host(now_ns + before_ns + slept_ns);
                    halts.push(Span {
                        start_ns,
                        length_ns: end_ns - start_ns,
                    });
                }
                now_ns += stay.length_ns;
                stays.push(stay);
            }
            guest.insert(cpu, stays);
            // The host numbers them the other way round.
            host.insert(self.cpus - 1 - cpu, halts);
        }
        (guest, host)
    }
}

#[test]
fn clocks_cpus_and_the_price_of_an_exit_are_found() {
    let (guest, host) = WORLD.record();
    let join = join(&guest, &host).unwrap();
    let cpus = join.pairs.iter().map(|pair| (pair.cpu, pair.vcpu));
    assert!(cpus.eq([(0, 1), (1, 0)]), "{join:?}");
    let is_close = join.share() > 0.995 && join.matched() < join.hlts();
    assert!(is_close, "{join:?}");
    assert!((join.drift_ppm - WORLD.drift_ppm).abs() < 2.0, "{join:?}");
    let middle_ns = BEGIN_NS + join.overlap_ns / 2;
    let offset_ns = WORLD.on_host(middle_ns).cast_signed() - middle_ns.cast_signed();
    assert!((join.offset_ns - offset_ns).abs() < 30_000, "{join:?}");
    // Both ends are half of it and up to all of it more: twice it in the mean, a little less at the quartile.
    assert!((4_500..6_500).contains(&join.exit_ns), "{join:?}");
    let is_sure = join.residual_p50_ns < 2_000 && join.by_chance < 0.3;
    assert!(is_sure, "{join:?}");
}

#[test]
fn a_part_that_both_recorded_is_enough() {
    let (mut guest, mut host) = WORLD.record();
    for stays in guest.values_mut() {
        drop(stays.drain(..400));
    }
    for halts in host.values_mut() {
        halts.truncate(700);
    }
    let join = join(&guest, &host).unwrap();
    assert!(join.share() > 0.97, "{join:?}");
    assert!((500..=640).contains(&join.hlts()), "{join:?}");
}

#[test]
fn what_is_of_another_time_or_another_vm_is_refused() {
    let (guest, mut host) = WORLD.record();
    let (_, other) = World { seed: 2, ..WORLD }.record();
    let joined = join(&guest, &other);
    assert!(matches!(joined, Err(Refused::NoOffset(_))), "{joined:?}");
    for halts in host.values_mut() {
        drop(halts.drain(..980));
    }
    assert!(join(&guest, &host).is_err());
    assert_eq!(join(&guest, &Lanes::new()), Err(Refused::TooFew(0)));
}

/// Under a wrong offset the next halt is never far, either: but not as near as under the right one.
#[test]
fn a_load_that_is_nearly_alike_all_the_time_is_matched() {
    let is_long = std::env::var_os("HALTWISE_WORLDS").is_some();
    for seed in 1..if is_long { 9 } else { 3 } {
        let world = World {
            seed,
            exit_ns: 12_000,
            is_regular: true,
            ..WORLD
        };
        let (guest, host) = world.record();
        let found = join(&guest, &host);
        let found = found.unwrap_or_else(|refused| panic!("{seed}: {refused}"));
        assert!(found.share() > 0.99 && found.by_chance < 0.6, "{found:?}");
        let (_, other) = World {
            seed: seed + 100,
            ..world
        }
        .record();
        assert!(join(&guest, &other).is_err(), "{seed}");
    }
}

#[test]
fn a_load_that_is_alike_all_the_time_is_refused() {
    let periodic = |shift_ns: u64, length_ns: u64| -> Lanes {
        let span = |number: u64| Span {
            start_ns: shift_ns + number * 1_000_000,
            length_ns,
        };
        [(0, (0..1_000).map(span).collect())].into()
    };
    let joined = join(&periodic(5, 900_000), &periodic(77_000_000_000, 890_000));
    assert!(matches!(joined, Err(Refused::Ambiguous(..))), "{joined:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever the clocks, within what clocks drift, the same VM is found, and never another.
    #[test]
    fn the_same_vm_is_found_on_any_clock(
        seed in 1..1_000_000_u64,
        offset_ns in -80_000_000_000_000..80_000_000_000_000_i64,
        drift_ppm in -150.0..150.0_f64,
        exit_ns in 200..20_000_u64,
        cpus in 1..4_u32,
    ) {
        let world = World { seed, cpus, stays: 400, offset_ns, drift_ppm, exit_ns, without_halt: 2, is_regular: false };
        let (guest, host) = world.record();
        let found = join(&guest, &host);
        prop_assert!(found.as_ref().is_ok_and(|join| join.share() > 0.93), "{:?}", found);
        let once = |pair: &Pair| pair.halts_matched <= pair.halts && pair.matched <= pair.hlts;
        prop_assert!(found.is_ok_and(|join| join.pairs.iter().all(once)));
        let (_, other) = World { seed: seed + 1, ..world }.record();
        prop_assert!(join(&guest, &other).is_err());
    }

    /// Nothing that a damaged capture may hold upsets it.
    #[test]
    fn nothing_upsets_it(
        spans in prop::collection::vec((any::<u64>(), any::<u64>()), 0..80),
        others in prop::collection::vec((any::<u64>(), any::<u64>()), 0..80),
    ) {
        let lanes = |spans: &[(u64, u64)]| -> Lanes {
            let mut lane: Vec<Span> =
                spans.iter().map(|&(start_ns, length_ns)| Span { start_ns, length_ns }).collect();
            lane.sort_by_key(|span| span.start_ns);
            [(0, lane)].into()
        };
        let _ = join(&lanes(&spans), &lanes(&others));
    }
}
