//! From the halts of a block to what came of them, and to what a replay says of them under the other
//! setting.

use crate::event::Halt;
use crate::policy::{Setting, Spec};
use crate::replay::latency::Latencies;
use crate::replay::session::{Plan, Played, Session, SessionError, Survey};
use crate::replay::{Arrivals, Cost, Outcome};
use crate::stats::Fold;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub vcpus: u64,
    pub recorded: Outcome,
    /// As replayed under the other setting; `None` where no sleep was recorded that would say how long
    /// a wake-up takes.
    pub predicted: Option<Played>,
}

/// Tallies the halts of a block and plays them under `other`. `elsewhere` are wake-up latencies measured
/// another time; `setting` says what a vCPU's policy is built upon, as for a [`Session`].
pub fn tally(
    halts: &[Halt],
    other: &Spec,
    elsewhere: Option<&Latencies>,
    setting: impl Fn(&Halt) -> Setting,
) -> Result<Tally, SessionError> {
    match play(halts, other, elsewhere, &setting) {
        Err(SessionError::NoLatency) => {
            // Recorded halts need no latencies, except where a sleep's own latency is missing.
            let mut none = Latencies::default();
            none.add(0, 0);
            let tally = play(halts, other, Some(&none), &setting)?;
            Ok(Tally {
                predicted: None,
                ..tally
            })
        }
        tallied => tallied,
    }
}

fn play(
    halts: &[Halt],
    other: &Spec,
    elsewhere: Option<&Latencies>,
    setting: impl Fn(&Halt) -> Setting,
) -> Result<Tally, SessionError> {
    let side = halts.first().map(|first| setting(first).side);
    let mut survey = side.map_or_else(Survey::default, Survey::of);
    for halt in halts {
        survey.halt(halt);
    }
    // The rule of a kernel does not ask what things cost; what a block costs is known after all blocks.
    let plan = Plan {
        specs: vec![other.clone()],
        cost: Cost {
            switch_cpu_ns: 0,
            latency_weight_milli: 0,
            ..Cost::FREE
        },
        arrivals: Arrivals::BySource,
        elsewhere: elsewhere.cloned(),
    };
    let mut session = Session::new(plan, survey, setting);
    for halt in halts {
        session.halt(halt)?;
    }
    let mut tally = Tally::default();
    let mut predicted = Played::default();
    for seat in session.finish() {
        tally.vcpus += 1;
        tally.recorded.fold(&seat.recorded);
        if let Some(played) = seat.played.first() {
            predicted.add(played);
        }
    }
    tally.predicted = (tally.vcpus > 0).then_some(predicted);
    Ok(tally)
}
