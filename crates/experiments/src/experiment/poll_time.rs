//! `poll-time-vs-count`: how long halts poll, against how often: the defaults, and what was made of them.
//!
//! The source is Intel's work on ChromeOS: trace the windows, draw *poll time against count*, see that
//! 200 us are hardly ever used and 0 most often, and so lower the ceiling to 160 us, shrink by halves, and
//! never let a window fall between 0 and 10 us. Its guests were Android and Linux on crosvm. The load here is
//! made like theirs: frames of a user interface, each a burst of short halts and then a wait for the
//! next; requests to storage; timers in between.
//!
//! The source's kernel divided by 0, that is: shrank to nothing at once, and had no floor; this host's
//! module halves. Parameters of the module are not ours to change, so both settings run in the VMM's halt
//! loop under the rule of such a kernel, and the two ceilings in the kernel beside them.

use haltwise_core::units::Nanos;
use haltwise_core::workload::{GapSpec, SplitMix64};

use super::account::{self, Account, Halts};
use super::{Block, Chart, Conclusion, Effect, Experiment, Results, Source, Trial, Variant};
use haltwise_lab::clock::HostWait;
use haltwise_lab::halt_loop::UserHalt;
use haltwise_lab::run::run;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "poll-time-vs-count",
    title: "the default parameters against a lower ceiling, halving and a floor",
    source: Source {
        document: "Intel, \"Improving the Performance of VM Workloads by Optimizing Polling Time\", 2022",
        reports: &[
            "poll time against count: 200 us was hardly ever used, 0 most often",
            "ceiling 160 us, shrink 2, no window between 0 and 10 us: performance +2 to +5 %",
            "18 % fewer context switches",
            "a HLT exit costs context switches",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "the load is unfair to the source: its histogram of poll times has 0 most often and long polls hardly \
         ever; here most halts poll for some microseconds and few not at all, the reverse, so that there is \
         little that a lower ceiling could spare. An effect not shown here says nothing against the source",
    ],
    on_your_host: "`haltwise tune` compares a lower ceiling, halving and a floor with what is set; the findings \
                   `shrink-0-on-bursts` and `ceiling-above-1ms` name the parameter",
    differs: "the load is made, not recorded: its gaps stay as drawn however soon it is answered, so that \
              answers a second hardly move; and who polls here is the VMM, after an exit of its own",
    run: run_one,
    conclude,
};

figures! { of: Account;
    "answers", "1/s", More, "events answered", of.per_second(of.rounds);
    "latency", "us", Less, "event to answer, median", of.latency_ns[0] / 1e3;
    "latency-p99", "us", Less, "event to answer, 99th percentile", of.latency_ns[1] / 1e3;
    "switches", "", Less, "voluntary context switches for each event", of.each(of.switches);
    "hlt-exits", "1/s", Neither, "HLT exits", of.per_second(of.hlts);
    "cpu", "%", Less, "CPU of the vCPU thread, in % of one CPU", of.percent(of.cpu_ns);
    "polled", "%", Neither, "of that, polling", of.percent(of.polled_ns);
}

const MIX: &str = "Android-like mix";

/// From the default to the source's setting, one step after the other.
const SETTINGS: [(&str, Halts); 6] = [
    ("off", Halts::User("off")),
    (
        "default",
        Halts::User("kvm:max=200us,grow=2,grow_start=10us,shrink=0,kernel=5.10"),
    ),
    (
        "ceiling 160us",
        Halts::User("kvm:max=160us,grow=2,grow_start=10us,shrink=0,kernel=5.10"),
    ),
    (
        "160us, shrink 2, floor",
        Halts::User("kvm:max=160us,grow=2,grow_start=10us,shrink=2,kernel=5.16"),
    ),
    ("kernel, 200us", Halts::Kernel(200_000)),
    ("kernel, 160us", Halts::Kernel(160_000)),
];

/// Bars of the chart: polls that ended in each 10 us up to here, no polling before, longer ones after.
const BARS: u64 = 20;
const BAR_NS: u64 = 10_000;
const POLL_TIMES: &str = "poll-times";

fn variants() -> Vec<Variant> {
    let variant = |(name, halts): &(&str, Halts)| Variant::new(MIX, *name, halts.to_string());
    SETTINGS.iter().map(variant).collect()
}

const TUNED: [&str; 2] = ["default", "160us, shrink 2, floor"];

fn effects() -> Vec<Effect> {
    effects! {
        Claim "context switches, tuned against default", "switches", MIX, TUNED, Less, "-18 %";
        Claim "answers, tuned against default", "answers", MIX, TUNED, More, "+2 to +5 %";
        Claim "latency, tuned against default", "latency", MIX, TUNED, Less, "better performance";
        Claim "context switches, default against off", "switches", MIX, ["off", "default"], Less,
            "a HLT costs context switches";
    }
}

/// The gaps of some seconds of a device in use, in turn: frames at 60 a second, in each a burst of short
/// halts, a few requests to storage, a timer or two, and the rest of the frame.
pub(super) fn mix(seed: u64) -> Vec<Nanos> {
    const FRAME_NS: u64 = 16_666_667;
    const FRAMES: usize = 120;
    let mut random = SplitMix64(seed);
    let mut gaps = Vec::new();
    for _ in 0..FRAMES {
        let first = gaps.len();
        for _ in 0..12 + random.below(24) {
            gaps.push(Nanos(4_000 + random.exponential(Nanos(25_000)).0));
        }
        for _ in 0..random.below(16) {
            gaps.push(Nanos(40_000 + random.below(140_000)));
        }
        for _ in 0..random.below(4) {
            gaps.push(Nanos(400_000 + random.below(2_600_000)));
        }
        let used: u64 = gaps[first..].iter().map(|gap| gap.0).sum();
        gaps.push(Nanos(FRAME_NS.saturating_sub(used).max(1_000_000)));
    }
    gaps
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let (_, halts) = &SETTINGS[trial.variant];
    let mut load = account::load(trial, "poll-time-vs-count", 1, HostWait::Spin);
    load.rhythm.spec = GapSpec::Trace(MIX.to_owned());
    load.rhythm.trace = mix(trial.seed);
    halts.set(&mut load)?;
    let finished = run(&load, &trial.interrupt)?;
    let block = figures(Block::of(finished.outcome.vcpus()), &Account::of(&finished));
    let halts = finished.halts.iter().flatten().flatten();
    Ok(block.with_counts(POLL_TIMES, poll_times(halts)))
}

/// How many halts polled for how long: not at all, up to 10 us, up to 20 us, …, longer than all of these.
fn poll_times<'a>(halts: impl Iterator<Item = &'a UserHalt>) -> Vec<u64> {
    let mut counts = vec![0; usize::try_from(BARS).unwrap_or(0) + 2];
    for halt in halts {
        let bar = halt.poll_ns.div_ceil(BAR_NS).min(BARS + 1);
        counts[usize::try_from(bar).unwrap_or(0)] += 1;
    }
    counts
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let labels = (0..=BARS + 1).map(|bar| match bar {
        0 => "0".to_owned(),
        bar if bar > BARS => format!("> {}", BARS * BAR_NS / 1_000),
        bar => format!("{}", bar * BAR_NS / 1_000),
    });
    let series = ["default", "160us, shrink 2, floor"].map(|name| {
        let counts = results
            .index(MIX, name)
            .map(|variant| results.counts(variant, POLL_TIMES));
        let counts = counts.unwrap_or_default();
        (
            name.to_owned(),
            counts.into_iter().map(|count| count as f64).collect(),
        )
    });
    Conclusion {
        charts: vec![Chart {
            title: "Poll time against count".to_owned(),
            labels_are: "us polled, at most".to_owned(),
            labels: labels.collect(),
            series: series.to_vec(),
        }],
        ..Conclusion::default()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn poll_times_fall_into_their_bars() {
        let halt = |poll_ns| UserHalt {
            start_ns: 0,
            window_ns: 0,
            halt_ns: poll_ns,
            poll_ns,
            wake_latency_ns: 0,
            waited: false,
        };
        let halts = [0, 1, 10_000, 10_001, 200_000, 200_001, u64::MAX].map(halt);
        let counts = poll_times(halts.iter());
        assert_eq!(counts.iter().sum::<u64>(), 7);
        assert_eq!((counts[0], counts[1], counts[2]), (1, 2, 1));
        assert_eq!((counts[20], counts[21]), (1, 2));
    }

    #[test]
    fn the_mix_has_sixty_frames_a_second_and_all_kinds_of_gaps() {
        let gaps = mix(7);
        assert_eq!(gaps, mix(7));
        let seconds: f64 = gaps.iter().map(|gap| gap.0 as f64 / 1e9).sum();
        assert!((1.9..2.6).contains(&seconds), "{seconds}");
        for range in [
            0..50_000,
            50_000..200_000,
            400_000..3_000_000,
            3_000_000..17_000_000,
        ] {
            assert!(gaps.iter().any(|gap| range.contains(&gap.0)), "{range:?}");
        }
    }
}
