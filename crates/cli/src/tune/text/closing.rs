//! What a recommendation rests on: the last lines of its page.

use haltwise_core::replay::Arrivals;

use super::super::view::{Basis, View};
use crate::number::{count, nanos, percent, share, three_digits};
use crate::page::Page;
use crate::replay::costs::Source;

/// Says it.
pub(super) fn show(page: &mut Page, view: &View) {
    page.heading("What this rests on");
    let basis = &view.basis;
    let mut say = |what: &str, text: &str| {
        page.wrapped(&format!("  {what:<12} "), text, 15);
    };
    say("cost", &cost(view));
    if let Some(played) = &view.played {
        say(
            "halts",
            &format!(
                "{}, of them {} in the second half of the time, {}, which judges; {} settings were \
                 looked at",
                count(basis.halts),
                count(basis.judged_halts),
                nanos(basis.judged_ns),
                played.looked_at,
            ),
        );
        say("replay", &replay(basis));
        say("arrivals", arrivals(basis.arrivals));
        if let Some(idle) = basis.idle_cpu_percent {
            let text = format!(
                "the host's CPUs were idle for {} of one; no setting that polls for more on top was \
                 considered",
                share(idle / 100.0)
            );
            say("spare", &text);
        }
    }
    let mut rule = format!("that of {} on {}", basis.kernel, basis.arch);
    if !basis.knobs_assumed.is_empty() {
        rule.push_str("; not in the capture, so as that kernel has them: ");
        rule.push_str(&basis.knobs_assumed.join(", "));
    }
    say("rule", &rule);
    for (what, text) in doubts(basis) {
        say(what, &text);
    }
}

fn cost(view: &View) -> String {
    let source = match view.basis.switch_cpu_source {
        Source::Calibrated => "as calibrated",
        Source::Given => "as given",
        Source::Assumed => {
            "assumed: half of what the shortest sleeps take to wake; measure it with \
             `haltwise-lab calibrate`"
        }
    };
    format!(
        "a block takes {} of CPU ({source}); a nanosecond of latency counts as {} of CPU",
        nanos(view.basis.switch_cpu_ns),
        three_digits(view.goal.lambda),
    )
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

fn arrivals(of: Arrivals) -> &'static str {
    match of {
        Arrivals::BySource => {
            "by-source: by vCPU and wake source as far as the recording shows how gaps follow wake-ups"
        }
        Arrivals::FixedGap => "fixed-gap: every wake comes as long after its halt began as it did",
        Arrivals::FixedTime => "fixed-time: every wake comes when it came",
    }
}

fn doubts(basis: &Basis) -> Vec<(&'static str, String)> {
    let told = [
        (
            "cut polls",
            basis.doubts.poll_cut,
            "of the judging halts: another task wanted the CPU; replayed as cut at the same length",
        ),
        (
            "gap guessed",
            basis.doubts.gap_guessed,
            "of the judging halts: the wake-up latency was not recorded; taken as that of like sleeps",
        ),
        (
            "arrivals",
            basis.doubts.arrival_assumed,
            "of the judging halts: nothing recorded shows how their gaps follow wake-ups",
        ),
        (
            "sleeps",
            basis.latency_guessed,
            "of the judging halts would sleep for a length of which no wake-up was recorded; they wake \
             as the nearest length did",
        ),
        (
            "veto",
            basis.vetoed_vcpus,
            "vCPUs left out: their guests switched host polling off, no setting reaches them",
        ),
        (
            "own ceiling",
            basis.own_ceiling_vcpus,
            "vCPUs belong to VMs with a ceiling of their own, which halt_poll_ns does not move",
        ),
        (
            "skipped",
            basis.skipped,
            "halts left out by stretches of time, since there are too many to keep",
        ),
        (
            "out of order",
            basis.out_of_order,
            "halts step back in time and were left out",
        ),
        (
            "lost",
            basis.lost,
            "events lost while recording: their halts are not here",
        ),
    ];
    let mut said: Vec<(&str, String)> = (told.into_iter())
        .filter(|(_, n, _)| *n > 0)
        .map(|(what, n, text)| (what, format!("{} {text}", count(n))))
        .collect();
    if basis.partial {
        let text = "the capture is cut or damaged: `haltwise report` says where";
        said.push(("partial", text.to_owned()));
    }
    said
}
