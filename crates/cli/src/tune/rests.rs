//! What a recommendation rests on: `tune` ends with it, and the page of `report --html` says the same.

use haltwise_core::replay::Doubts;

use super::say;
use super::view::{Basis, View};
use crate::number::{count, nanos, percent, share};
use crate::replay::doubts::{CALIBRATED, of_halts};
use crate::replay::words;
use crate::words::plural;

/// A word, and what is said of it; what is in backquotes is code.
pub(crate) type Line = (&'static str, String);

/// All of it, in the order in which it is read.
pub(crate) fn rests(view: &View) -> Vec<Line> {
    let basis = &view.basis;
    let cost = words::cost(
        basis.switch_cpu_ns,
        basis.switch_cpu_source,
        view.goal.lambda,
    );
    let mut said = vec![("cost", cost)];
    if let Some(played) = &view.played {
        let halts = format!(
            "{}, of them {} in the second half of the time, {}, which judges; {} settings were looked at",
            count(basis.halts),
            count(basis.judged_halts),
            nanos(basis.judged_ns),
            played.looked_at,
        );
        said.push(("halts", halts));
        said.push(("replay", replay(basis)));
        said.push(("arrivals", words::arrivals(basis.arrivals)));
        if let Some(idle) = basis.idle_cpu_percent {
            let text = format!(
                "the host's CPUs were idle for {} of one; no setting that polls for more on top was \
                 considered",
                share(idle / 100.0)
            );
            said.push(("spare", text));
        }
    }
    let mut rule = format!("that of {} on {}", basis.kernel, basis.arch);
    if !basis.knobs_assumed.is_empty() {
        rule.push_str("; not in the capture, so as that kernel has them: ");
        rule.push_str(&basis.knobs_assumed.join(", "));
    }
    said.push(("rule", rule));
    said.extend(doubts(view));
    said
}

/// How the replay of the setting in force compares with what was recorded.
fn replay(basis: &Basis) -> String {
    let of = |blocks: u64| percent(blocks as f64, basis.halts as f64);
    format!(
        "under the setting in force {} of the halts sleep in the replay, {} did when recorded",
        of(basis.blocks_replayed),
        of(basis.blocks_recorded),
    )
}

/// On how many halts and vCPUs an assumption rests, and what is not there at all.
fn doubts(view: &View) -> Vec<Line> {
    let basis = &view.basis;
    let mut said = assumed(view);
    said.extend(left_out(basis));
    if basis.partial {
        let text = "the capture is cut or damaged: `haltwise report` says where";
        said.push(("partial", text.to_owned()));
    }
    said
}

/// Of the halts that judge, those of which something is assumed. Sleeps are those of the best setting that
/// was found: that is what its figures hang on.
fn assumed(view: &View) -> Vec<Line> {
    let basis = &view.basis;
    let doubts = Doubts {
        latency_guessed: basis.latency_guessed,
        latency_thin: basis.latency_thin,
        latency_calibrated: basis.latency_calibrated,
        ..basis.doubts
    };
    let under = ["the best setting found"; 3];
    let mut said = of_halts(&doubts, basis.judged_halts, "the judging halts", under);
    let calibrated = said.iter_mut().find(|(what, _)| *what == CALIBRATED);
    if let Some((_, text)) = calibrated {
        text.push_str(&if_late(view));
    }
    said
}

/// What is left of the gain were what was calibrated twice as late, and how to know.
fn if_late(view: &View) -> String {
    let late = view.played.as_ref().and_then(|played| {
        let share = played.against_in_force.as_ref()?.cost_share.value;
        Some((share, played.late_cost_share?))
    });
    let left = late.map_or_else(String::new, |(share, late)| {
        format!(
            ". Were those twice as late, a halt would cost {} than in force, not {}",
            say::change(late),
            say::change(share),
        )
    });
    format!("{left}. A trial tells: `haltwise prove`, or a recording under that setting")
}

/// What the recommendation does not stand on.
fn left_out(basis: &Basis) -> Vec<Line> {
    let others = [
        (
            "veto",
            basis.vetoed_vcpus,
            "vCPU",
            "left out: the guest switched host polling off, no setting reaches it",
        ),
        (
            "own ceiling",
            basis.own_ceiling_vcpus,
            "vCPU",
            "of VMs with a ceiling of their own, which halt_poll_ns does not move",
        ),
        (
            "skipped",
            basis.skipped,
            "halt",
            "left out by stretches of time, since there are too many to keep",
        ),
        (
            "out of order",
            basis.out_of_order,
            "halt",
            "left out, for stepping back in time",
        ),
        (
            "lost",
            basis.lost,
            "event",
            "lost while recording: their halts are not here",
        ),
    ];
    let others = others.into_iter().filter(|(_, n, ..)| *n > 0);
    let said = others.map(|(what, n, one, text)| (what, format!("{} {text}", plural(n, one))));
    said.collect()
}
