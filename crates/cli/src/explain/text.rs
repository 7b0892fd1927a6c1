//! The view on a screen: a block for each finding, then what could not be judged.

use haltwise_core::explain::{Gain, Of};

use super::view::{FindingView, View};
use crate::number::{count, nanos, nanos_f64, share, three_digits};
use crate::page::{Page, harmless};
use crate::words::{self, plural};

/// Lays the page out.
pub(crate) fn render(view: &View, width: usize) -> String {
    let mut page = Page::new(width);
    opening(&mut page, view);
    for (nth, alike) in (1..).zip(by_rule(&view.findings)) {
        block(&mut page, nth, &alike);
    }
    not_judged(&mut page, view);
    closing(&mut page, view);
    page.finish()
}

fn opening(page: &mut Page, view: &View) {
    let recording = &view.recording;
    page.wrapped(
        &format!("{}: ", harmless(&recording.host)),
        &format!(
            "{} of {} in {}, Linux {}, recorded by {}",
            plural(recording.halts, "halt"),
            plural(recording.vms as u64, "VM"),
            nanos(recording.duration_ns),
            harmless(&recording.kernel),
            recording.rung,
        ),
        2,
    );
    let judged = view.rules - view.not_judged.len();
    let rules = match view.not_judged.len() {
        0 => plural(judged as u64, "rule"),
        _ if judged == 1 => "the one rule that could judge".to_owned(),
        _ => format!("the {judged} rules that could judge"),
    };
    let text = match view.findings.len() {
        0 => format!("Nothing stands out to {rules}."),
        1 => format!("1 finding of {} rules:", view.rules),
        n => format!(
            "{n} findings of {} rules, the largest gain first:",
            view.rules
        ),
    };
    page.wrapped("  ", &text, 2);
}

/// Findings of a rule together, where the first of them stands.
fn by_rule(findings: &[FindingView]) -> Vec<Vec<&FindingView>> {
    let mut groups: Vec<Vec<&FindingView>> = Vec::new();
    for finding in findings {
        let known = groups
            .iter_mut()
            .find(|group| group[0].rule == finding.rule);
        match known {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// Guests named after the first of a rule.
const ALSO: usize = 5;

fn block(page: &mut Page, nth: usize, alike: &[&FindingView]) {
    let finding = alike[0];
    page.heading(&format!("{nth}. {}", finding.title));
    page.wrapped("  who     ", &who(finding), 10);
    page.wrapped("  seen    ", &harmless(&finding.signature), 10);
    page.wrapped("  cause   ", &finding.cause, 10);
    page.wrapped("  remedy  ", &finding.remedy, 10);
    page.wrapped("  gain    ", &gain(finding.gain), 10);
    page.wrapped("  sure    ", finding.sure.as_str(), 10);
    let source = format!("{} ({})", finding.source, finding.rule);
    page.wrapped("  source  ", &source, 10);
    for other in alike.iter().skip(1).take(ALSO) {
        let text = format!(
            "{}: {} ({})",
            who(other),
            gain(other.gain),
            other.sure.as_str()
        );
        page.wrapped("  also    ", &text, 10);
    }
    let more = alike.len().saturating_sub(1 + ALSO);
    if more > 0 {
        let text = format!("{} more (--json tells all)", count(more as u64));
        page.wrapped("  and     ", &text, 10);
    }
}

/// Whom a finding is about.
pub(crate) fn who(finding: &FindingView) -> String {
    let Some(vm) = finding.vm else {
        return "the host, every VM that follows its parameters".to_owned();
    };
    let name = match &finding.vm_name {
        Some(name) => harmless(name),
        None => format!("VM {vm}"),
    };
    match &finding.vcpus[..] {
        [] => name,
        [one] => format!("{name}, vCPU {one}"),
        several => format!("{name}, vCPUs {}", ranges(several)),
    }
}

/// `0-3, 5`: numbers in rising order, runs of them as ranges.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(n) => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let runs = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// What there is to gain, in words.
pub(crate) fn gain(gain: Option<Gain>) -> String {
    let Some(gain) = gain else {
        return "cannot be computed from a recording".to_owned();
    };
    match gain.of {
        _ if gain.ns_per_s <= 0.0 => "nothing in this recording".to_owned(),
        Of::Cpu if gain.ns_per_s < 1e9 => {
            format!("at most {} of a CPU", share(gain.ns_per_s / 1e9))
        }
        Of::Cpu => format!("at most {} CPUs", three_digits(gain.ns_per_s / 1e9)),
        Of::Latency => format!(
            "at most {} less waiting to run in each second, these vCPUs together",
            nanos_f64(gain.ns_per_s)
        ),
    }
}

/// Rules that could not judge, by what they lack.
fn not_judged(page: &mut Page, view: &View) {
    if view.not_judged.is_empty() {
        return;
    }
    page.heading("Not judged");
    let mut reasons: Vec<&str> = Vec::new();
    for blind in &view.not_judged {
        if !reasons.contains(&blind.reason.as_str()) {
            reasons.push(&blind.reason);
        }
    }
    for reason in reasons {
        let rules = view.not_judged.iter().filter(|it| it.reason == reason);
        let rules: Vec<&str> = rules.map(|it| it.rule).collect();
        let text = format!("{} ({})", harmless(reason), rules.join(", "));
        page.wrapped("  ", &text, 4);
    }
}

fn closing(page: &mut Page, view: &View) {
    let recording = &view.recording;
    let mut notes = Vec::new();
    if recording.unplaced > 0 {
        notes.push(format!(
            "{} of VMs that are not known: no rule saw them",
            plural(recording.unplaced, "halt")
        ));
    }
    notes.extend(words::of_recording(recording.lost, recording.cut));
    notes.extend(recording.notes.iter().cloned());
    page.notes(&notes);
    if !view.findings.is_empty() {
        page.wrapped(
            "",
            "A gain is the most that the recording allows: what was spent on the cause. Replay, tune \
             and prove say what a setting of KVM would really bring.",
            0,
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn runs_of_numbers_are_ranges() {
        for (numbers, text) in [
            (&[3][..], "3"),
            (&[0, 1], "0, 1"),
            (&[0, 1, 2, 3, 5], "0-3, 5"),
            (&[0, 2, 3, 4], "0, 2-4"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
    }

    #[test]
    fn a_gain_has_its_unit() {
        let of = |of, ns_per_s| gain(Some(Gain { of, ns_per_s }));
        assert_eq!(of(Of::Cpu, 42e6), "at most 4.20 % of a CPU");
        assert_eq!(of(Of::Cpu, 1.5e9), "at most 1.50 CPUs");
        assert!(of(Of::Latency, 24e6).starts_with("at most 24.0 ms less"));
    }
}
