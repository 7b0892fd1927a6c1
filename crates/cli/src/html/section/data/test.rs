//! The page's rule and replay against core's: thousands of vCPUs under all eras of KVM's rule, with odd
//! parameters, every kind of halt, from both starts, every sum and every window compared exactly.
//!
//! The cases go through the page's own unpacking, and its script is run by node.

use std::process::Command;

use haltwise_core::event::Halt;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{Setting, Spec, Start};
use haltwise_core::replay::arrivals::{Evidence, Follow};
use haltwise_core::replay::latency::Table;
use haltwise_core::replay::run::{Frame, Run};
use haltwise_core::replay::{Arrivals, Cost, Outcome, Sample, Seat};
use haltwise_core::workload::SplitMix64;

use super::*;

/// vCPUs; each is played under six policies.
const CASES: u64 = 1_500;

/// Halts of each.
const HALTS: u64 = 40;

/// Every release in which the rule changed, and one between.
const KERNELS: [(u32, u32); 14] = [
    (3, 19),
    (4, 1),
    (4, 3),
    (4, 6),
    (4, 9),
    (5, 0),
    (5, 1),
    (5, 4),
    (5, 8),
    (5, 13),
    (5, 16),
    (5, 17),
    (6, 1),
    (6, 12),
];

const ARCHES: [Arch; 4] = [Arch::X86, Arch::S390, Arch::PowerpcHv, Arch::Arm64];

fn pick<T: Copy>(random: &mut SplitMix64, from: &[T]) -> T {
    let place = random.below(from.len() as u64);
    from[usize::try_from(place).unwrap()]
}

/// A length of any size: as likely below 1 us as above 1 s.
fn length(random: &mut SplitMix64) -> u64 {
    let bits = random.below(36);
    random.below(1 << bits)
}

fn window(random: &mut SplitMix64) -> u32 {
    let odd = [0, 1, 9_999, 10_000, 10_001, 200_000, u32::MAX];
    if random.below(3) == 0 {
        pick(random, &odd)
    } else {
        u32::try_from(random.below(400_000)).unwrap()
    }
}

fn any_knobs(random: &mut SplitMix64) -> Knobs {
    Knobs {
        halt_poll_ns: window(random),
        grow: pick(random, &[0, 1, 2, 2, 3, 4, 7, 65_537, u32::MAX]),
        grow_start: window(random),
        shrink: pick(random, &[0, 1, 2, 2, 3, 4, 9, u32::MAX]),
    }
}

/// Halts near the ceiling and far from it. Every third vCPU's gaps follow its wake-ups by half.
fn halts(random: &mut SplitMix64, ceiling_ns: u32, follows: bool) -> Vec<Halt> {
    let mut at_ns = random.below(1_000_000);
    let mut late_ns = 0;
    let mut one = |_| {
        let mut gap_ns = match random.below(4) {
            0 => length(random),
            1 => u64::from(ceiling_ns) + random.below(40_000),
            _ => random.below(u64::from(ceiling_ns).clamp(1, 1_000_000) * 2),
        };
        if follows {
            gap_ns = 200_000 - late_ns / 2;
        }
        let waited = random.below(3) > 0;
        let latency_ns = if waited { random.below(60_000) } else { 0 };
        let polled_ns = random.below(gap_ns + 1);
        let halt = Halt {
            start_ns: at_ns,
            halt_ns: gap_ns + latency_ns,
            waited,
            valid: random.below(10) > 0,
            window_ns: (random.below(5) > 0).then_some(ceiling_ns / 2),
            poll_ns: (random.below(5) > 0).then_some(polled_ns),
            wake_latency_ns: (follows || random.below(8) > 0).then_some(latency_ns),
            wake: WakeSource::from_code(u8::try_from(random.below(5)).unwrap()),
            poll_cut: waited && random.below(6) == 0,
            ..Halt::default()
        };
        at_ns = halt.end_ns() + random.below(100_000);
        late_ns = latency_ns;
        halt
    };
    (0..HALTS).map(&mut one).collect()
}

fn table(random: &mut SplitMix64) -> Table {
    let points: Vec<(u64, u64)> = (0..=random.below(60))
        .map(|_| (length(random), random.below(90_000)))
        .collect();
    Table::measured(&points).unwrap()
}

/// What core makes of the halts of a vCPU under a policy, in the page's words.
fn played(spec: &str, setting: &Setting, seated: &Seated, cost: Cost) -> (Outcome, Vec<Value>) {
    let policy = spec.parse::<Spec>().unwrap().build(setting).unwrap();
    let mut run = Run::new(policy);
    let frame = Frame {
        table: &seated.table,
        cost,
        follow: seated.follow,
    };
    let windows = seated.samples.iter().map(|sample| {
        let window_ns = run.step(sample, &frame);
        // JSON has no number for `until it is woken`.
        json!((window_ns < u64::MAX).then_some(window_ns))
    });
    let windows = windows.collect();
    (run.outcome().clone(), windows)
}

fn expected(outcome: &Outcome) -> Value {
    json!({
        "halts": outcome.halts,
        "blocks": outcome.blocks,
        "poll": outcome.poll_ns,
        "latency": outcome.latency_ns,
        "halt": outcome.halt_ns,
        "guessed": outcome.doubts.latency_guessed,
        "p99": outcome.latency.percentile(0.99),
        "p50": outcome.latency.percentile(0.5),
    })
}

/// A vCPU under every policy that the page has.
fn runs(fixed: u32, base: &Setting, seated: &Seated, cost: Cost) -> Vec<Value> {
    let policies = [
        ("kvm".to_owned(), "kvm", None, Start::Zero),
        ("kvm".to_owned(), "kvm", None, Start::Ceiling),
        (
            format!("fixed:{fixed}ns"),
            "fixed",
            Some(fixed),
            Start::Zero,
        ),
        ("fixed:always".to_owned(), "fixed", None, Start::Zero),
        ("off".to_owned(), "fixed", Some(0), Start::Zero),
        ("clairvoyant".to_owned(), "clairvoyant", None, Start::Zero),
    ];
    let run = |(spec, kind, threshold, start): (String, &str, Option<u32>, Start)| {
        let setting = Setting { start, ..*base };
        let (outcome, windows) = played(&spec, &setting, seated, cost);
        json!({
            "spec": spec,
            "kind": kind,
            "threshold": threshold,
            "fromCeiling": start == Start::Ceiling,
            "expected": expected(&outcome),
            "windows": windows,
        })
    };
    policies.map(run).into()
}

fn case(number: u64) -> Value {
    let mut random = SplitMix64(number);
    let (major, minor) = pick(&mut random, &KERNELS);
    let (version, arch) = (Version::new(major, minor), pick(&mut random, &ARCHES));
    let params = any_knobs(&mut random);
    let ceiling_ns = window(&mut random);
    let follows = number.is_multiple_of(3);
    let kept = halts(&mut random, ceiling_ns, follows);
    let table = table(&mut random);
    let mut evidence = Evidence::default();
    for halt in &kept {
        evidence.halt(halt);
    }
    let arrivals = if follows {
        Arrivals::BySource
    } else {
        pick(&mut random, &Arrivals::ALL)
    };
    let cost = Cost {
        switch_cpu_ns: random.below(40_000),
        latency_weight_milli: pick(&mut random, &[0, 100, 1_000, 10_000]),
    };
    let samples = (0..).zip(&kept);
    let seated = Seated {
        seat: Seat::of(&kept[0]),
        samples: samples
            .map(|(turn, halt)| Sample::new(halt, &table, turn))
            .collect(),
        table,
        follow: Follow::new(arrivals, &evidence),
        ceiling_ns,
        own_ceiling_ns: None,
        recorded: Outcome::default(),
        ends: Vec::new(),
    };
    let base = Setting {
        version,
        arch,
        knobs: params,
        ceiling_ns,
        break_even_ns: 0,
        seed: 1,
        start: Start::Zero,
    };
    let runs = runs(window(&mut random), &base, &seated, cost);
    let mut pool = Pool::default();
    let play = seat(&seated, &mut pool);
    json!({
        "name": format!("case {number}, Linux {version}, {arch}"),
        "rule": rule(&Rule::of(version, arch)),
        "knobs": knobs(&params),
        "ceiling": ceiling_ns,
        "cost": { "switch": cost.switch_cpu_ns, "weight": cost.latency_weight_milli },
        "sample": {
            "halts": HALTS,
            "of": HALTS,
            "stretches": [],
            "latencies": pool.texts,
            "seats": [{
                "name": "",
                "vm": null,
                "count": kept.len(),
                "halts": packed::halts(&kept, Some(&seated.samples), 0),
                "play": play,
            }],
        },
        "runs": runs,
    })
}

#[test]
#[expect(clippy::print_stdout, reason = "what is skipped is said")]
fn the_pages_replay_is_cores() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/rule.mjs");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cases.json");
    let cases: Vec<Value> = (0..CASES).map(case).collect();
    std::fs::write(&file, serde_json::to_vec(&cases).unwrap()).unwrap();
    let ran = match Command::new("node").arg(script).arg(&file).output() {
        Ok(ran) => ran,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "skipped: node is not installed, so the page's replay was not held against core's"
            );
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(said.trim(), format!("{} runs agree", CASES * 6));
}

#[test]
fn cases_are_not_all_alike() {
    let cases: Vec<Value> = (0..200).map(case).collect();
    let polls = |case: &Value, run: usize| case["runs"][run]["expected"]["poll"].as_u64().unwrap();
    let grew = cases.iter().filter(|case| polls(case, 0) > 0).count();
    let apart = cases
        .iter()
        .filter(|case| polls(case, 0) != polls(case, 1))
        .count();
    let slept = (cases.iter())
        .filter(|case| case["runs"][5]["expected"]["blocks"] != 0)
        .count();
    assert!(
        grew > 60 && apart > 30 && slept > 100,
        "{grew} {apart} {slept}"
    );
    let follow = |case: &Value, share: u64| {
        let shares = case["sample"]["seats"][0]["play"]["follow"]
            .as_array()
            .unwrap();
        shares.iter().any(|it| it.as_u64() == Some(share))
    };
    for share in [0, 1_000] {
        assert!(cases.iter().any(|case| follow(case, share)), "{share}");
    }
}
