//! Whether advice for two stock Linux guests holds: each runs one load again and again under one setting, and `tune` must
//! recommend the same from each recording, or that it is not known, or settings whose costs in all recordings differ by less
//! than its interval. Then the load runs under other ceilings.
//!
//! An emulated CPU stands still for milliseconds while its clock goes on: polls outlast their window, and sleeps of the same
//! load last several times as long in one recording as in the next. So counts and their order are judged. A cost without
//! latency (goal density) is that of sleeps and polls; with latency, a recommendation may cost more in other recordings.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{CEILING_NS, PIPE, TIMER};
use crate::kernels::Boot;
use crate::kernels::check::{Check, Found};
use crate::kernels::deb::Kernel;
use crate::kernels::guest::Left;
use crate::kernels::reported::{ask, list};

pub(in crate::kernels) const NAME: &str = "stability";

/// Some thirty recordings, of five seconds each on a machine that does nothing else.
const LIMIT: Duration = Duration::from_mins(10);

const GUESTS: [(&str, &str); 2] = [("web1", PIPE), ("web2", TIMER)];

const RECORDINGS: usize = 10;

/// Ceilings that the load runs under afterwards, in nanoseconds: no polling, the kernel's default, a ceiling that some gaps
/// fit, and that of the recordings.
const CEILINGS_NS: [u32; 4] = [0, 200_000, 2_000_000, CEILING_NS];

const GOALS: [&str; 3] = [COUNTED, "balanced", "latency"];

/// The goal without latency in its costs.
const COUNTED: &str = "density";

/// CPU time of a sleep, of the 15 to 142 us that a calibration had there: given, so that answers differ by the halts alone.
const SLEEP: &str = "60us";

/// Shares of successful polls that are predicted nearer to each other than this have no order: of one load, single recordings
/// were as far apart.
const APART: f64 = 0.25;

/// Answer of `tune` for a recording.
#[derive(Debug)]
struct Answer {
    /// The policy that is to be in force; `None` where that is not known.
    advised: Option<String>,
    /// How wide the interval is of what it changes of the cost.
    width: f64,
}

/// A recording's cost and successful polls, for each halt on average.
#[derive(Debug, Clone, Copy, Default)]
struct Played {
    cost_ns: f64,
    successful: f64,
}

/// A recording under each policy.
type Replayed = BTreeMap<String, Played>;

/// And as it was.
const RECORDED: &str = "recorded";

pub(in crate::kernels) fn boot(kernel: &Kernel) -> Result<Boot> {
    let judge = |left: &Left| {
        let judged = |(vm, _)| (vm, judge(&left.out_dir, vm));
        GUESTS.map(judged).into()
    };
    super::booted(kernel, Check::new(NAME, script(), LIMIT, judge))
}

pub(super) fn script() -> String {
    let text = GUESTS.map(|(vm, load)| recorded(vm, load)).concat();
    super::scripted("", "initramfs", LIMIT, &text)
}

fn recorded(vm: &str, load: &str) -> String {
    let ceilings = CEILINGS_NS.map(|ns| ns.to_string()).join(" ");
    format!("stable {vm} '{load}' {RECORDINGS} '{ceilings}'\n")
}

fn judge(out: &Path, vm: &str) -> Result<Found> {
    let mut found = Found::default();
    let capture = |name: String| out.join(format!("{vm}-{name}/capture"));
    let captures: Vec<_> = (1..=RECORDINGS).map(|n| capture(n.to_string())).collect();
    for goal in GOALS {
        let ask = |verb: &[&str], capture: &Path| -> Result<Value> {
            let all = [verb, &["--json", "--goal", goal, "--switch-cpu", SLEEP]].concat();
            ask(&all, capture)
        };
        let tuned = |capture| Ok(answer(&ask(&["tune", "--vm", vm], capture)?));
        let answers: Vec<Answer> = captures.iter().map(|it| tuned(it)).collect::<Result<_>>()?;
        let advised = answers.iter().filter_map(|it| it.advised.clone());
        let ceilings = CEILINGS_NS.into_iter().map(under);
        let policies: Vec<String> = advised.chain(ceilings).collect();
        let asked = policies.iter().flat_map(|it| ["--policy", it]);
        let verb: Vec<&str> = ["tune"].into_iter().chain(asked).collect();
        let play = |capture: &Path| replayed(&ask(&verb, capture)?, vm, &policies);
        let replays: Vec<Replayed> = captures.iter().map(|it| play(it)).collect::<Result<_>>()?;
        judge_answers(goal, &answers, &replays, &mut found);
        if goal == COUNTED {
            let at = |ns: &u32| Ok((under(*ns), play(&capture(format!("at-{ns}")))?[RECORDED]));
            let measured = CEILINGS_NS.iter().map(at).collect::<Result<Replayed>>()?;
            judge_measured(&measured, &answers, &replays, &mut found);
        }
    }
    Ok(found)
}

/// The policy with a ceiling, and else what the kernel has by default.
fn under(ns: u32) -> String {
    format!("kvm:max={ns}ns,grow=2,grow_start=10000ns,shrink=2")
}

fn answer(tuned: &Value) -> Answer {
    let setting = match &tuned["recommended"] {
        Value::Null => &tuned["in_force"],
        recommended => recommended,
    };
    let [max, grow, start, shrink] = ["", "_grow", "_grow_start", "_shrink"]
        .map(|parameter| &setting[format!("halt_poll_ns{parameter}")]);
    let advised = format!("kvm:max={max}ns,grow={grow},grow_start={start}ns,shrink={shrink}");
    let is_known = !["unproven", "too-short"]
        .iter()
        .any(|it| tuned["verdict"] == *it);
    let share = &tuned["played"]["against_in_force"]["cost_share"];
    let end = |name: &str| share[name].as_f64().unwrap_or(0.0);
    Answer {
        advised: is_known.then_some(advised),
        width: end("high") - end("low"),
    }
}

fn replayed(replay: &Value, vm: &str, policies: &[String]) -> Result<Replayed> {
    let of = list(replay, "vms").iter().find(|it| it["name"] == vm);
    let of = of.context("not replayed")?;
    let halt = |row: &Value| {
        let of_halt = |figure: &str| Some(row[figure].as_f64()? / of["halts"].as_f64()?);
        Some(Played {
            cost_ns: of_halt("cost_ns")?,
            successful: of_halt("successful_polls")?,
        })
    };
    let mut replayed = Replayed::new();
    let played = (0..).map(|nth: usize| &of["played"][nth]["from_zero"]);
    let rows = policies.iter().map(String::as_str).zip(played);
    for (policy, row) in rows.chain([(RECORDED, &of[RECORDED])]) {
        let halt = halt(row).with_context(|| format!("no figures of {policy}"))?;
        replayed.insert(policy.to_owned(), halt);
    }
    Ok(replayed)
}

fn mean(replays: &[Replayed], policy: &str) -> Played {
    let count = replays.len() as f64;
    replays.iter().fold(Played::default(), |sum, it| Played {
        cost_ns: sum.cost_ns + it[policy].cost_ns / count,
        successful: sum.successful + it[policy].successful / count,
    })
}

/// All agree; and by what is counted, no recommendation costs more than the current setting in the other recordings.
fn judge_answers(goal: &str, answers: &[Answer], replays: &[Replayed], found: &mut Found) {
    let known = || answers.iter().filter_map(|it| it.advised.as_ref());
    let count = |policy: &String| known().filter(|it| *it == policy).count();
    let usual = known().max_by_key(|policy| count(policy));
    let (all, current) = (answers.len(), under(CEILING_NS));
    let cost = |policy: &str| mean(replays, policy).cost_ns;
    let [mut others, mut changes, mut worse] = [0; 3];
    for (own, answer) in replays.iter().zip(answers) {
        let (Some(advised), Some(usual)) = (&answer.advised, usual) else {
            continue;
        };
        let apart = (cost(advised) - cost(usual)).abs() / cost(&current);
        others += usize::from(advised != usual && apart > answer.width);
        changes += usize::from(*advised != current);
        let elsewhere = |policy| cost(policy) * all as f64 - own[policy].cost_ns;
        worse += usize::from(elsewhere(advised) > elsewhere(&current));
    }
    found.say(format_args!(
        "{goal}: {} of {all} agree, {} not known, {changes} change, {worse} cost more elsewhere",
        all - others,
        all - known().count()
    ));
    let is_counted = goal == COUNTED;
    let is_sound = !is_counted || (worse == 0 && usual.is_some());
    found.require(others == 0 && is_sound, format!("{goal}: {answers:?}"));
}

/// Without polling none succeeds; where clearly more successful polls are predicted, more are counted; and what is advised
/// does not cost more than what was in force, where it was measured.
fn judge_measured(
    measured: &Replayed,
    answers: &[Answer],
    replays: &[Replayed],
    found: &mut Found,
) {
    let predicted = |policy: &str| mean(replays, policy).successful;
    let current_ns = mean(replays, RECORDED).cost_ns;
    for (policy, counted) in measured {
        let (share, counted_share) = (predicted(policy), counted.successful);
        found.say(format_args!(
            "{policy}: {share:.3} successful as predicted, {counted_share:.3} counted"
        ));
        let is_off = *policy == under(0);
        found.require(
            !is_off || share.max(counted_share) <= 0.0,
            "polls succeed without polling",
        );
        let is_less = |other: &str| predicted(other) + APART < share;
        let mut less = measured.iter().filter(|(other, _)| is_less(other));
        found.require(
            less.all(|(_, it)| it.successful < counted_share),
            format!("{policy} has fewer successful polls: {measured:?}"),
        );
        let is_advised = answers.iter().any(|it| it.advised.as_ref() == Some(policy));
        let changes = is_advised && *policy != under(CEILING_NS);
        found.require(
            !changes || counted.cost_ns <= current_ns,
            format!("{policy} costs more when measured: {measured:?}"),
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Costs of policies, of which a thousandth is the share of successful polls.
    fn played(costs: &[(&str, f64)]) -> Replayed {
        let played = |(policy, cost_ns): &(&str, f64)| {
            let mut played = Played::default();
            (played.cost_ns, played.successful) = (*cost_ns, cost_ns / 1000.0);
            ((*policy).to_owned(), played)
        };
        costs.iter().map(played).collect()
    }

    fn advised(policies: &[(&str, usize)]) -> Vec<Answer> {
        let answer = |policy: &str| Answer {
            advised: (!policy.is_empty()).then(|| policy.to_owned()),
            width: 0.1,
        };
        let of = |(policy, count): &(&str, usize)| (0..*count).map(|_| answer(policy)).collect();
        policies.iter().flat_map::<Vec<_>, _>(of).collect()
    }

    #[test]
    fn all_answers_agree_and_none_costs_more() {
        let current = &*under(CEILING_NS);
        for (cost, policies, goal, wrong) in [
            (500.0, &[("a", 20)][..], COUNTED, 0),
            (500.0, &[("a", 19), (current, 1)], COUNTED, 1),
            (550.0, &[("a", 12), (current, 8)], COUNTED, 0),
            (500.0, &[("a", 12), ("", 8)], COUNTED, 0),
            (500.0, &[("", 20)], COUNTED, 1),
            (500.0, &[("", 20)], "latency", 0),
            (500.0, &[("dear", 20)], COUNTED, 1),
            (500.0, &[("dear", 20)], "latency", 0),
        ] {
            let replays = vec![played(&[("a", cost), (current, 600.0), ("dear", 700.0)]); 20];
            let mut found = Found::default();
            judge_answers(goal, &advised(policies), &replays, &mut found);
            assert_eq!(found.disagreements.len(), wrong, "{policies:?}");
        }
    }

    #[test]
    fn counts_have_the_order_of_predictions_and_advice_does_not_cost_more() {
        let [off, some, more] = &[0, 1, 2].map(under);
        let mut predicted = played(&[(off, 0.0), (some, 100.0), (more, 900.0)]);
        predicted.extend(played(&[(RECORDED, 600.0)]));
        for (counted, wrong) in [
            ([0.0, 300.0, 400.0], 0),
            ([0.0, 400.0, 300.0], 1),
            ([100.0, 300.0, 400.0], 1),
            ([0.0, 650.0, 700.0], 1),
        ] {
            let measured = played(&[(off, counted[0]), (some, counted[1]), (more, counted[2])]);
            let mut found = Found::default();
            let answers = advised(&[(some, 20)]);
            judge_measured(&measured, &answers, &[predicted.clone()], &mut found);
            assert_eq!(found.disagreements.len(), wrong, "{counted:?}");
        }
    }
}
