//! Result of a search for a guest: each figure with its name, unit and meaning.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::parameter::Values;
use haltwise_core::replay::Doubts;
use haltwise_core::replay::Sums;
use haltwise_core::tune::advice::Comparison;
use haltwise_core::tune::figures::Played;
use haltwise_document::figures;

use super::joined::JoinFigures;
use super::{GuestCandidates, GuestRow, Place, say};
use crate::prices::model::Model;
use crate::prices::price::Price;
use crate::recommend::basis::SearchBasis;
use crate::recommend::recommendation::Recommendation;
use crate::recommend::say as host_say;
use crate::recommend::view::{COMPARISON, GoalAdvice, OfSide, RejectedSetting, goals, rejected};

const SCHEMA: u32 = 2;

pub(crate) const ABOUT: &[&str] = &[
    "`haltwise tune` prints this for a capture of a guest (`record --guest`); for a capture of a host it prints \
     [another object](tune-json.md).",
    "Times and lengths are nanoseconds, and their names end in `_ns`. What ends in `_percent` is in % of **one** CPU, for \
     all CPUs of the guest together. What ends in `_share` is a share of the other's cost: -0.25 costs a quarter less.",
    "A setting is an object with the parameters of the module `haltpoll` by the kernel's names. In schema 1 all but the \
     ceiling's lacked `guest_halt_poll_`.",
    "A difference has `value`, `low` and `high`: the interval holds the true one in 95 of 100 repetitions. Its ends are \
     `null` where the validation half is too short for an interval.",
    "Figures are those of the validation half: the second half of the capture's time. Verdicts are those of \
     [tune](tune-json.md).",
];

figures! {
    pub(crate) struct GuestTuneResult {
        /// Version of this layout: 2.
        pub(crate) schema: u32 = Number,
        /// Basis of the result.
        pub(crate) basis: GuestBasis = Record(GuestBasis::FIGURES),
        /// How it was matched with its host's capture, and what that says; `null` without `--host`.
        pub(crate) join: Option<JoinFigures> = Record(JoinFigures::FIGURES),
        #[serde(flatten)]
        pub(crate) recommendation: Recommendation = Flat(Recommendation::FIGURES),
        /// How to have the host poll, if `place` is `host`: what is run in the guest, then on the host.
        pub(crate) host_commands: Vec<String> = Words,
        /// The best setting in the guest less what is in force.
        pub(crate) against_in_force: Option<Comparison> = Record(COMPARISON),
        /// The setting `host` less what is in force in the guest.
        pub(crate) host_against_in_force: Comparison = Record(COMPARISON),
        /// The row `cpu-pm` less the best of guest and host. It is recommended only if it costs less and steal is known to
        /// be low.
        pub(crate) cpu_pm_against_best: Comparison = Record(COMPARISON),
        /// The settings that are always shown, with their figures.
        pub(crate) rows: Vec<GuestFigures> = List(GuestFigures::FIGURES),
        /// A recommendation for each goal that has a name, in the guest alone.
        pub(crate) goals: Vec<GoalAdvice> = List(GoalAdvice::FIGURES),
        /// Candidates that looked better and were not taken.
        pub(crate) rejected: Vec<RejectedSetting> = List(RejectedSetting::FIGURES),
        /// How to set what differs from `in_force`, in the guest; `null` where nothing does.
        pub(crate) apply: Option<String> = Word,
        /// The same on the guest's kernel command line.
        pub(crate) command_line: Vec<String> = Words,
    }

    pub(crate) struct GuestBasis {
        #[serde(flatten)]
        pub(crate) search: SearchBasis = Flat(SearchBasis::FIGURES),
        #[serde(flatten)]
        pub(crate) price: Price = Flat(Price::FIGURES),
        /// The guest's cpuidle governor; what is not haltpoll counts as no polling.
        pub(crate) governor: Option<String> = Name,
        /// How many settings were evaluated.
        pub(crate) looked_at: usize = Count,
        /// Share of the time in which the guest wanted its CPUs, polling included, that its host gave to others;
        /// `null` where that was not recorded.
        pub(crate) stolen_of_wanted: Option<f64> = Share,
    }

    /// A setting that is always shown, on the validation half.
    #[derive(Clone)]
    pub(crate) struct GuestFigures {
        /// `in-force`, `default`, `choice`, `off` (neither guest nor host polls), `host` (its best setting polls in the
        /// host), or what else a guest may do: `idle-poll` (`idle=poll`), `cpu-pm`.
        pub(crate) row: GuestRow = Word "second half",
        /// Polling; for `cpu-pm` the idle time in which the guest keeps its CPUs.
        pub(crate) poll_cpu_percent: f64 = CpuPercent "polling",
        /// CPU time that the host loses while the guest is idle: that, switches, exits and IPIs, as far as their prices
        /// are known.
        pub(crate) host_cpu_percent: f64 = CpuPercent "host CPU",
        /// Exits by HLT, and by timers that end a poll in the guest.
        pub(crate) exits_per_s: f64 = PerSecond "exits/s",
        /// IPIs that had to be sent.
        pub(crate) ipis_per_s: f64 = PerSecond "IPIs/s",
        /// Mean wake-up latency over all halts, 0 for those that did not sleep.
        pub(crate) latency_mean_ns: f64 = MeanNanos "latency",
        /// Its 99th percentile over all halts.
        pub(crate) latency_p99_ns: u64 = Nanos "p99",
        /// Cost of a halt: polling, switching, exits, IPIs, and the wake-up latency times `lambda`.
        pub(crate) cost_ns_per_halt: f64 = MeanNanos "per halt",
        /// The same over the oracle's.
        pub(crate) ratio: Option<f64> = Real "x oracle",
    }
}

pub(crate) fn view(info: &CaptureInfo, of: &GuestCandidates, partial: bool) -> GuestTuneResult {
    let (inputs, advice) = (&of.inputs, &of.advice);
    let found = Recommendation::of_search(inputs, &of.of.in_force, advice);
    let place = of.place();
    let choice = advice.choice.as_ref().filter(|_| place == Place::Guest);
    let recommended = choice.map(|choice| Values::from(choice.knobs));
    let host = of.host.choice.knobs.values(&inputs.terms);
    let changes = recommended.map(|to| to.beyond(&found.in_force));
    let changes = changes.filter(|changes| !changes.is_empty());
    GuestTuneResult {
        schema: SCHEMA,
        basis: basis(info, of, partial),
        join: of.shared.joined.as_ref().map(JoinFigures::of),
        recommendation: Recommendation {
            changes: recommended.is_some(),
            place: Some(place),
            reason: say::reason(of),
            notes: say::notes(of),
            recommended,
            host: Some(host),
            commands: changes.as_ref().map_or_else(Vec::new, host_say::commands),
            ..found
        },
        host_commands: say::host_commands(of, &host),
        against_in_force: advice.against_in_force,
        host_against_in_force: of.host.against_in_force,
        cpu_pm_against_best: of.cpu_pm,
        rows: of.rows.iter().map(|row| figures(of, row)).collect(),
        goals: goals(inputs, &of.of, &of.others),
        rejected: rejected(inputs, advice),
        apply: changes.as_ref().map(host_say::apply),
        command_line: recommended.map_or_else(Vec::new, |to| say::command_line(of, &to)),
    }
}

fn figures(of: &GuestCandidates, (row, played): &(GuestRow, Played)) -> GuestFigures {
    let Played { outcome, sums } = played;
    let wall = &of.inputs.judged_wall;
    let cost_ns_per_halt = sums.cost_per_halt_ns(&of.advice.goal.aim.cost);
    let per_s = |count: u64| count as f64 / (wall.under(sums) / 1e9);
    GuestFigures {
        row: *row,
        poll_cpu_percent: wall.poll_cpu_percent(sums),
        host_cpu_percent: host_cpu_percent(of, sums),
        exits_per_s: per_s(sums.exits),
        ipis_per_s: per_s(sums.ipis),
        latency_mean_ns: sums.latency_mean_ns(),
        latency_p99_ns: outcome.latency.percentile(0.99).unwrap_or(0),
        cost_ns_per_halt,
        ratio: (of.least_ns > 0.0).then(|| cost_ns_per_halt / of.least_ns),
    }
}

fn host_cpu_percent(of: &GuestCandidates, sums: &Sums) -> f64 {
    let cost = &of.advice.goal.aim.cost;
    let idle_ns = cost.cpu_ns(sums.poll_ns, sums.blocks, sums.halt_ns) as f64;
    let exits_ns = cost.exits_milli(sums.exits, sums.ipis) as f64 / 1e3;
    100.0 * (idle_ns + exits_ns) / of.inputs.judged_wall.under(sums).max(1.0)
}

fn basis(info: &CaptureInfo, of: &GuestCandidates, partial: bool) -> GuestBasis {
    let (inputs, arch) = (&of.inputs, of.inputs.terms.arch);
    let kernel = [of.version.to_string(), arch.to_string()];
    let model = Model::new(info, kernel, Vec::new(), &of.known);
    let in_force = of.rows.first();
    GuestBasis {
        search: SearchBasis {
            blocks_replayed: of.hlts_replayed,
            doubts: in_force.map_or_else(Doubts::default, |(_, played)| played.outcome.doubts),
            ..SearchBasis::of_search(info, model, inputs, &of.of.in_force, partial)
        },
        price: of.price,
        governor: of.governor_name.clone(),
        looked_at: of.looked_at,
        stolen_of_wanted: of.shared.stolen_of_wanted,
    }
}
