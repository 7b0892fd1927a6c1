//! The demo's last screen: before, predicted, after.

use anyhow::{Context, Result};
use haltwise_core::units::Nanos;
use serde_json::Value;

use crate::say;

/// What two settings came to, and what had been predicted of the second.
pub(super) struct Proof {
    a: Figures,
    b: Figures,
    predicted: Figures,
    /// Interval of the difference in cost, as shares of A's.
    share: Option<[f64; 2]>,
    verdict: String,
    rounds: u64,
}

/// Polling in % of a CPU, mean wake-up latency and cost of a halt in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    poll: Option<f64>,
    late: Option<f64>,
    cost: Option<f64>,
}

impl Proof {
    /// What `haltwise prove --json` says.
    pub(super) fn of(said: &Value) -> Result<Self> {
        let list = |pointer: &str| said.pointer(pointer).and_then(Value::as_array);
        let of = |rows: &[Value], field: &str| {
            let one = |name: &str| {
                let row = rows.iter().find(|row| row["figure"] == name)?;
                row[field].as_f64()
            };
            Figures {
                poll: one("poll-cpu"),
                late: one("latency-mean"),
                cost: one("cost"),
            }
        };
        let figures = list("/figures").context("prove names no figures")?;
        let predicted = list("/predictions/of_b").map_or(&[][..], Vec::as_slice);
        let a = of(figures, "a");
        let cost = figures.iter().find(|row| row["figure"] == "cost");
        let end = |which: &str| cost?.pointer(&format!("/effect/{which}"))?.as_f64();
        let share = a.cost.zip(end("low").zip(end("high")));
        let verdict = said.pointer("/verdict/says").and_then(Value::as_str);
        let rounds = said.pointer("/design/rounds").and_then(Value::as_u64);
        Ok(Self {
            a,
            b: of(figures, "b"),
            predicted: of(predicted, "predicted"),
            share: share.map(|(cost, (low, high))| [low, high].map(|ns| ns / cost)),
            verdict: verdict.context("prove has no verdict")?.to_owned(),
            rounds: rounds.unwrap_or_default(),
        })
    }
}

/// Says why what is in force stays, and is held against no polling all the same.
pub(super) fn nothing_better(tuned: &Value) {
    let reason = tuned.pointer("/reason").and_then(Value::as_str);
    say::step("tune leaves it as it is; measured against off, to see whether that is right");
    say::note(reason.unwrap_or("tune gives no reason"));
}

/// The screen.
pub(super) fn show(in_force: u64, recommended: u64, force: &Proof, off: Option<&Proof>) {
    say::step("before, predicted, after");
    say::note(&format!(
        "{:<38} {:>8} {:>12} {:>10}",
        "", "polling", "late (mean)", "a halt"
    ));
    let row = |name: String, of: Figures| {
        let nanos = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{:.1} us", ns / 1e3));
        let poll = of
            .poll
            .map_or("-".to_owned(), |poll| format!("{poll:.1} %"));
        let (late, cost) = (nanos(of.late), nanos(of.cost));
        say::note(&format!("{name:<38} {poll:>8} {late:>12} {cost:>10}"));
    };
    let name = |ns: u64| {
        if ns == 0 {
            "off".to_owned()
        } else {
            format!("ceiling {}", Nanos(ns))
        }
    };
    row(format!("before     {} (in force)", name(in_force)), force.a);
    row(format!("predicted  {}", name(recommended)), force.predicted);
    row(format!("after      {}", name(recommended)), force.b);
    if let Some(off) = off {
        row("beside     off".to_owned(), off.a);
    }
    for (other, proof) in [(in_force, Some(force)), (0, off)] {
        if let Some(proof) = proof {
            say::note(&format!(
                "{} {}",
                against(&name(other), proof),
                rests_on(proof)
            ));
        }
    }
    say::note(
        "polling is in % of one CPU; a halt costs its polling, its context switches, and its",
    );
    say::note("wake-up latency, a nanosecond of which counts as one of CPU (goal balanced)");
}

fn against(other: &str, proof: &Proof) -> String {
    match (proof.verdict.as_str(), proof.share) {
        ("better" | "worse", Some([low, high])) => {
            let (least, most) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
            format!(
                "Against {other}: {}, by {:.0} to {:.0} %",
                proof.verdict,
                least * 100.0,
                most * 100.0
            )
        }
        ("no-difference", _) => format!("Against {other}: no difference was seen"),
        ("too-noisy", _) => format!(
            "Against {other}: this machine was too noisy to tell; run it again while it is at rest"
        ),
        (says, _) => format!("Against {other}: {says}"),
    }
}

fn rests_on(proof: &Proof) -> String {
    format!("({} rounds).", proof.rounds)
}
