//! Result of a search, in words.

use haltwise_core::kvm::Rule;
use haltwise_core::kvm::ceiling::CeilingRule;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::stats::Interval;
use haltwise_core::tune::Inputs;
use haltwise_core::tune::advice::{Advice, Comparison, LEAST_GAIN, Rejected, Verdict};
use haltwise_core::tune::doubt::Doubt;
use haltwise_core::tune::final_round::Finalist;
use haltwise_core::tune::search::Aim;

use super::candidates::Candidates;
use super::view::OfSide;
use crate::number::{nanos_f64, share, three_digits};
use crate::plan::TuneGoal;

/// A goal and its limit: `balanced, polling at most 2.00 % of a CPU`.
pub(crate) fn goal(of: &TuneGoal) -> String {
    let limit = of.max_poll_cpu_percent.map_or_else(String::new, |max| {
        format!(", polling at most {} of a CPU", share(max / 100.0))
    });
    of.name.clone() + &limit
}

/// A time as a person writes it: exact, without naughts that say nothing.
pub(crate) fn time(ns: u32) -> String {
    let (whole, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        _ => (1_000_000, "ms"),
    };
    format!("{} {unit}", f64::from(ns) / f64::from(whole))
}

/// A setting as a person writes it: `50 us, fixed`, `200 us, grow 2 from 10 us, shrink 2`, `off`.
pub(crate) fn setting(of: &Values) -> String {
    if of.get(Parameter::GuestHaltPollNs).is_some() {
        return setting_of_guest(Params::from(*of));
    }
    let ceiling_ns = of.get(Parameter::HaltPollNs).unwrap_or(0);
    let ceiling = time(ceiling_ns);
    if ceiling_ns == 0 {
        return "off".to_owned();
    }
    let [grow, shrink] = [Parameter::Grow, Parameter::Shrink].map(|it| of.get(it));
    let (Some(grow), Some(shrink)) = (grow, shrink) else {
        return ceiling;
    };
    let Some(start) = of.get(Parameter::GrowStart) else {
        return format!("{ceiling}, grow {grow}, shrink {shrink}");
    };
    let is_fixed = start >= ceiling_ns && shrink == 1;
    let is_toggle = start >= ceiling_ns && shrink != 1;
    match () {
        () if is_fixed => format!("{ceiling}, fixed"),
        () if is_toggle => format!("{ceiling} or 0, by the last halt"),
        () => {
            let start = time(start);
            format!("{ceiling}, grow {grow} from {start}, shrink {shrink}")
        }
    }
}

fn setting_of_guest(of: Params) -> String {
    if of.guest_halt_poll_ns == 0 {
        return "off".to_owned();
    }
    let ceiling = time(of.guest_halt_poll_ns);
    let shrink = if of.allow_shrink {
        format!("shrink {}", of.shrink)
    } else {
        "no shrink".to_owned()
    };
    if of.grow_start >= of.guest_halt_poll_ns {
        return format!("{ceiling} at once, {shrink}");
    }
    let start = time(of.grow_start);
    format!("{ceiling}, grow {} from {start}, {shrink}", of.grow)
}

/// The same beside its figures: `off` polls nowhere, as `halt_poll_ns` 0 does not where a VM has a ceiling of its own.
pub(crate) fn played(of: &Values, poll_cpu_percent: f64) -> String {
    match of.get(Parameter::HaltPollNs) {
        Some(0) if poll_cpu_percent > 0.0 => "halt_poll_ns=0".to_owned(),
        _ => setting(of),
    }
}

pub(crate) fn words(
    of: &Values,
    word: impl Fn((Parameter, u32)) -> String,
    between: &str,
) -> String {
    let all: Vec<String> = of.iter().map(word).collect();
    all.join(between)
}

/// The parameters one by one, as the kernel names them.
pub(crate) fn parameters(of: &Values) -> String {
    words(
        of,
        |(name, value)| format!("{name} = {}", name.written(value)),
        ", ",
    )
}

/// The policy of KVM under these parameters: `kvm:max=50000ns,grow=2`.
pub(crate) fn spec(of: &Values) -> String {
    let word = |(parameter, value): (Parameter, u32)| {
        let unit = if parameter.is_time() { "ns" } else { "" };
        format!("{}={value}{unit}", parameter.key())
    };
    let all: Vec<String> = of.listed().map(word).collect();
    format!("kvm:{}", all.join(","))
}

pub(crate) fn apply(of: &Values) -> String {
    let each = words(
        of,
        |(it, value)| format!(" --set {it}={}", with_unit(it, value)),
        "",
    );
    format!("haltwise apply{each} --yes")
}

/// The same where the host's files of parameters cannot be written.
pub(crate) fn boot(of: &Values) -> String {
    let all = words(
        of,
        |(it, value)| format!("{}.{it}={value}", it.module()),
        " ",
    );
    format!("{all} on the kernel command line (here the parameters are read-only)")
}

/// A parameter's value as `apply --set` takes it.
fn with_unit(parameter: Parameter, value: u32) -> String {
    match value {
        _ if !parameter.is_time() || value == 0 => parameter.written(value),
        ns if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

pub(crate) fn commands(of: &Values) -> Vec<String> {
    let write =
        |(it, value): (Parameter, u32)| format!("echo {} > /{}", it.written(value), it.path());
    of.iter().map(write).collect()
}

/// `33 % less`, `2.1 % more`, `the same`.
pub(crate) fn change(part: f64) -> String {
    match than(part) {
        "as" => "the same".to_owned(),
        _ if part < 0.0 => format!("{} less", share(-part)),
        _ => format!("{} more", share(part)),
    }
}

/// Word between a change and the value that it is compared with.
pub(crate) fn than(part: f64) -> &'static str {
    if part.abs() < 5e-5 { "as" } else { "than" }
}

/// The interval of a share in the same words: `31 to 35 % less`.
pub(crate) fn interval(of: &Interval) -> String {
    if !of.is_known() {
        return "too few halts for a confidence interval".to_owned();
    }
    let percent = |end: f64| three_digits(100.0 * end.abs());
    match (of.low < 0.0, of.high < 0.0) {
        (true, true) => format!("{} to {} % less", percent(of.high), percent(of.low)),
        (false, false) => format!("{} to {} % more", percent(of.low), percent(of.high)),
        _ => format!("{} % less to {} % more", percent(of.low), percent(of.high)),
    }
}

pub(crate) fn reason(inputs: &Inputs, advice: &Advice, in_force: &Finalist) -> String {
    if advice.verdict == Verdict::Unproven {
        return unproven(inputs, advice, in_force);
    }
    let cost = &advice.goal.aim.cost;
    let (Some(choice), Some(against)) = (&advice.choice, &advice.against_in_force) else {
        return without_choice(advice);
    };
    let wall = &inputs.judged_wall;
    let (own, other) = (choice.judged(), in_force.judged());
    let poll_cpu_percent = wall.poll_cpu_percent(&own);
    let name = played(&choice.knobs.values(&inputs.terms), poll_cpu_percent);
    let effect = format!(
        "a halt costs {} instead of {}, {} ({} with 95 % confidence); polling takes {} of a CPU \
         instead of {}, the mean wake-up latency is {} instead of {}",
        nanos_f64(own.cost_per_halt_ns(cost)),
        nanos_f64(other.cost_per_halt_ns(cost)),
        change(against.cost_share.value),
        interval(&against.cost_share),
        share(poll_cpu_percent / 100.0),
        share(wall.poll_cpu_percent(&other) / 100.0),
        nanos_f64(own.latency_mean_ns()),
        nanos_f64(other.latency_mean_ns()),
    );
    match advice.verdict {
        Verdict::Change => format!("Under {name} {effect}."),
        Verdict::ObeyLimit => format!(
            "The current setting polls for {} of a CPU, more than the limit. The best setting within the \
             limit is {name}: {effect}.",
            share(wall.poll_cpu_percent(&other) / 100.0),
        ),
        Verdict::NotSignificant => format!(
            "The best setting found, {name}, is not significantly better: its cost is {} ({}).",
            change(against.cost_share.value),
            interval(&against.cost_share),
        ),
        Verdict::TooSmall => format!(
            "The best setting found, {name}, would cost {}; changes below {} are not recommended.",
            change(against.cost_share.value),
            share(LEAST_GAIN),
        ),
        Verdict::AlreadyBest => already_best(advice),
        _ => without_choice(advice),
    }
}

fn already_best(advice: &Advice) -> String {
    let polls = advice.rejected.iter().filter_map(|(_, why)| match why {
        Rejected::OverLimit(percent) => Some(*percent),
        _ => None,
    });
    let least = polls.fold(f64::INFINITY, f64::min);
    let which = if advice.rejected.is_empty() {
        "No evaluated setting"
    } else {
        "No evaluated setting but rejected ones"
    };
    let mut text = format!("{which} beats the current one on the validation half.");
    if least.is_finite() {
        let (aim, limit) = (&advice.goal.aim, advice.goal.aim.limit_percent());
        text = format!(
            "{text} Better ones poll for {} of a CPU or more, where {} {}.",
            share(least / 100.0),
            share(limit / 100.0),
            if aim.max_poll_cpu_percent == Some(limit) {
                "is allowed"
            } else {
                "was idle or polled"
            },
        );
    }
    text
}

/// Between which ends the mean wake-up latency of a setting will be measured, in nanoseconds: later, on a host that has
/// drifted.
pub(crate) fn latency_ends(now_ns: f64, against: &Comparison, aim: &Aim) -> [f64; 2] {
    let [low, high] = aim.drifts_percent.map(|percent| percent as f64 / 100.0);
    let late = against.latency_mean_ns;
    [(late.low, low), (late.high, high)]
        .map(|(more_ns, drift)| ((now_ns + more_ns) * drift).max(0.0))
}

/// Both outcomes of what is to be proved first, and what they depend on.
fn unproven(inputs: &Inputs, advice: &Advice, in_force: &Finalist) -> String {
    let (Some(choice), Some(against)) = (&advice.choice, &advice.against_in_force) else {
        return without_choice(advice);
    };
    let wall = &inputs.judged_wall;
    let doubt = match advice.hangs_on {
        None => "what a sleep and a wake-up cost here",
        Some(Doubt::Early | Doubt::Late) => "how late vCPUs wake: too few of them slept to show it",
        Some(Doubt::Staying) => {
            "whether timers expire at fixed times or relative to each wake-up: too few sleeps show it"
        }
    };
    let now = in_force.judged();
    let poll_cpu_percent = wall.poll_cpu_percent(&choice.judged());
    let [low_ns, high_ns] = latency_ends(now.latency_mean_ns(), against, &advice.goal.aim);
    format!(
        "Not known: {} would cost {} than the current setting. Polling would take {} of a CPU instead of {}; the mean \
         wake-up latency would be {} to {} instead of {}. It depends on {doubt}. `haltwise prove` measures both.",
        played(&choice.knobs.values(&inputs.terms), poll_cpu_percent),
        interval(&against.cost_share),
        share(poll_cpu_percent / 100.0),
        share(wall.poll_cpu_percent(&now) / 100.0),
        nanos_f64(low_ns),
        nanos_f64(high_ns),
        nanos_f64(now.latency_mean_ns()),
    )
}

fn without_choice(advice: &Advice) -> String {
    let text = match advice.verdict {
        Verdict::AllRejected => "All settings that looked better were rejected, see below.",
        Verdict::TooShort => {
            "The capture is too short: its second half has halts in fewer than eight of fifty time \
             slices. Record for longer."
        }
        Verdict::NoPolling => "KVM does not poll on this kernel: there is nothing to set.",
        _ => "No other setting within the limit looks better than the current one.",
    };
    text.to_owned()
}

/// The share of polls cut short from which on it is said first.
const CUTS: f64 = 0.05;

/// Notes that must accompany the recommendation.
pub(crate) fn notes(candidates: &Candidates) -> Vec<String> {
    let mut notes = Vec::new();
    let (inputs, in_force) = (&candidates.inputs, &candidates.of.in_force);
    if let Some((own, other)) = in_force.two_states(&candidates.advice.goal.aim.cost) {
        notes.push(format!(
            "The current setting has two steady states here, and a VM may end in either: a halt costs {} \
             in the recorded one, {} in the other.",
            nanos_f64(own),
            nanos_f64(other),
        ));
    }
    let own = inputs
        .seats
        .iter()
        .filter(|seated| seated.own_ceiling_ns.is_some())
        .count();
    if own > 0 && own < inputs.seats.len() {
        notes.push(format!(
            "{} in VMs with their own ceiling, to which halt_poll_ns does not apply; `--ceiling-only` \
             tunes those.",
            match own {
                1 => "1 vCPU runs".to_owned(),
                own => format!("{own} vCPUs run"),
            },
        ));
    }
    if candidates.contended {
        notes.push(
            "Tasks waited for CPUs while this was recorded: no setting that polls more is recommended.".to_owned(),
        );
    }
    let judged = in_force.judged().halts.max(1) as f64;
    let cut = inputs.judged_preempted_polls();
    if cut as f64 / judged > CUTS {
        notes.push(format!(
            "In {} of the halts of the validation half polling was preempted by another task, and no \
             setting polls on there. Record while a CPU is idle to see the effect of polling.",
            share(cut as f64 / judged),
        ));
    }
    notes
}

pub(crate) fn rejected(why: &Rejected) -> String {
    match *why {
        Rejected::Bistable(zero, ceiling) => format!(
            "two steady states: {} per halt if the window starts at 0, {} if it starts at the ceiling",
            nanos_f64(zero),
            nanos_f64(ceiling),
        ),
        Rejected::Edge(gain, near) => format!(
            "at the edge: {} as it is, {} with a ceiling one wake-up latency lower or higher",
            change(-gain),
            change(-near),
        ),
        Rejected::OverLimit(percent) => {
            let polls = share(percent / 100.0);
            format!("polls for {polls} of a CPU on the validation half")
        }
    }
}

/// Whether running VMs keep the ceiling that they began with.
pub(crate) fn is_snapshot(rule: Rule) -> bool {
    rule.ceiling == CeilingRule::SnapshotOrCap
}

#[cfg(test)]
mod test {
    use super::*;

    fn of(values: [u32; 4]) -> Values {
        Parameter::HOST.into_iter().zip(values).collect()
    }

    #[test]
    fn settings_have_short_names() {
        let change = of([0, 2, 10_000, 2]).beyond(&of([200_000, 2, 10_000, 2]));
        assert!(boot(&change).starts_with("kvm.halt_poll_ns=0 on the kernel"));
        for (values, name) in [
            ([0, 2, 10_000, 2], "off"),
            ([5_500, 1, 5_500, 1], "5.5 us, fixed"),
            ([1_250_000, 1, 1_250_000, 1], "1.25 ms, fixed"),
            ([50_000, 2, 50_000, 0], "50 us or 0, by the last halt"),
            (
                [200_000, 2, 10_000, 2],
                "200 us, grow 2 from 10 us, shrink 2",
            ),
        ] {
            assert_eq!(setting(&of(values)), name);
        }
        for (values, name) in [
            ([0, 2, 50_000, 2, 1], "off"),
            ([50_000, 2, 50_000, 2, 1], "50 us at once, shrink 2"),
            (
                [200_000, 2, 50_000, 2, 0],
                "200 us, grow 2 from 50 us, no shrink",
            ),
        ] {
            let params: Values = Parameter::GUEST.into_iter().zip(values).collect();
            assert_eq!(setting(&params), name);
        }
        let mut old = of([50_000, 2, 0, 0]);
        old.set(Parameter::GrowStart, None);
        assert_eq!(setting(&old), "50 us, grow 2, shrink 0");
    }
}
