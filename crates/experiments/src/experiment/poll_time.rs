//! `poll-time-vs-count`: how long halts poll, against how often: the defaults, and what was made of them.
//!
//! The source is Intel's work on ChromeOS: trace the windows, draw *poll time against count*, see that
//! 200 us are hardly ever used and 0 most often, and so lower the ceiling to 160 us, shrink by halves, and
//! never let a window fall between 0 and 10 us. Its guests were Android and Linux on crosvm. The load here is
//! made to give the source's histogram: most halts are short, nearly all others longer than any window, and few lie
//! between.
//!
//! The source's kernel divided by 0, that is: shrank to nothing at once, and had no floor; this host's
//! module halves. Parameters of the module are not ours to change, so all settings run in the VMM's halt
//! loop under the rule of such a kernel. "Not between 0 and 10 us" may mean that a window falls from there to 0, as kernels
//! do since 5.16, or that none is below 10 us: both are tried.

use haltwise_core::units::Nanos;
use haltwise_core::workload::{GapSpec, SplitMix64};

use super::account::{self, Account, Halts};
use super::{Block, Chart, Conclusion, Effect, Experiment, Results, Source, Trial, Variant};
use crate::proposal;
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
        "the source's histogram is taken for 60 % of halts below 40 us, 10 % of 40 to 180 us and 30 % that are longer \
         than any window; in which order they come is not known, and drawn",
    ],
    on_your_host: "`haltwise tune` compares a lower ceiling, halving and a floor with what is set; the findings \
                   `shrink-0-on-bursts` and `ceiling-above-1ms` name the parameter",
    differs: "the load is made, not recorded, and the guest does nothing but halt; and who polls here is the VMM, after \
              an exit of its own",
    run: run_one,
    conclude,
};

figures! { of: Account;
    "answers", "1/s", More, "events answered", of.per_second(of.rounds);
    "latency", "us", Less, "event to answer, mean", of.each(of.waited_ns) / 1e3;
    "latency-p99", "us", Less, "event to answer, 99th percentile", of.latency_ns[1] / 1e3;
    "switches", "", Less, "voluntary context switches for each event", of.each(of.switches);
    "hlt-exits", "1/s", Neither, "HLT exits", of.per_second(of.hlts);
    "cpu", "%", Less, "CPU of the vCPU thread, in % of one CPU", of.percent(of.cpu_ns);
    "polled", "%", Neither, "of that, polling", of.percent(of.polled_ns);
}

const MIX: &str = "Android-like mix";

const DEFAULT: &str = "default";
const TUNED: &str = "160us, shrink 2, below 10us to 0";
const AT_LEAST: &str = "160us, shrink 2, at least 10us";

const SETTINGS: [(&str, Halts); 4] = [
    ("off", Halts::User("off")),
    (
        DEFAULT,
        Halts::User("kvm:max=200us,grow=2,grow_start=10us,shrink=0,kernel=5.10"),
    ),
    (
        TUNED,
        Halts::User("kvm:max=160us,grow=2,grow_start=10us,shrink=2,kernel=5.16"),
    ),
    (
        AT_LEAST,
        Halts::Proposed("at least 10us", proposal::at_least_10us),
    ),
];

/// Bars of the chart: polls that ended in each 10 us up to here, no polling before, longer ones after.
const BARS: u64 = 20;
const BAR_NS: u64 = 10_000;
const POLL_TIMES: &str = "poll-times";

fn variants() -> Vec<Variant> {
    let variant = |(name, halts): &(&str, Halts)| Variant::new(MIX, *name, halts.to_string());
    SETTINGS.iter().map(variant).collect()
}

fn effects() -> Vec<Effect> {
    let of_reading = |tuned: &'static str| {
        let between = [DEFAULT, tuned];
        let what = |what: &str| format!("{what}, {tuned} against default");
        effects! {
            Claim what("context switches"), "switches", MIX, between, Less, "-18 %";
            Claim what("answers"), "answers", MIX, between, More, "+2 to +5 %";
            Claim what("latency"), "latency", MIX, between, Less, "better performance";
        }
    };
    let mut effects: Vec<Effect> = [TUNED, AT_LEAST].into_iter().flat_map(of_reading).collect();
    effects.extend(effects! {
        Claim "context switches, default against off", "switches", MIX, ["off", DEFAULT], Less,
            "a HLT costs context switches";
    });
    effects
}

/// Gaps of some seconds, each drawn by itself: 60 in 100 are shorter than 40 us, 10 lie between 40 and 180 us, and 30 are
/// longer than any window.
pub(super) fn mix(seed: u64) -> Vec<Nanos> {
    const GAPS: usize = 10_000;
    let mut random = SplitMix64(seed);
    let gap = || {
        Nanos(match random.below(100) {
            0..60 => 1_000 + random.below(39_000),
            60..70 => 40_000 + random.below(140_000),
            _ => 250_000 + random.below(1_000_000),
        })
    };
    std::iter::repeat_with(gap).take(GAPS).collect()
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
        let bar = halt.seen.poll_ns.div_ceil(BAR_NS).min(BARS + 1);
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
    let series = [DEFAULT, TUNED, AT_LEAST].map(|name| {
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
    fn the_mix_is_short_or_long_in_nine_gaps_of_ten() {
        let gaps = mix(7);
        assert_eq!(gaps, mix(7));
        let percent = |range: std::ops::Range<u64>| {
            let within = gaps.iter().filter(|gap| range.contains(&gap.0)).count();
            (100 * within).div_ceil(gaps.len())
        };
        assert!((58..=62).contains(&percent(0..40_000)));
        assert!((9..=11).contains(&percent(40_000..180_000)));
        assert!((28..=32).contains(&percent(200_000..u64::MAX)));
    }
}
