//! The view on a screen: a block for each finding, then what must not be done, what costs little, and what
//! could not be judged.

use haltwise_core::recording::Side;
use haltwise_document::text::Style;

use super::view::{ExplainedRecording, Explanation, FindingCost, RuleFinding, WithheldRemedy};
use crate::number::{count, nanos, nanos_f64, share, three_digits};
use crate::page::{Page, harmless};
use crate::words::{self, plural};

/// Lays the page out, with the findings of so many rules.
pub(crate) fn render(view: &Explanation, top: usize, style: Style) -> String {
    let mut page = Page::styled(style);
    opening(&mut page, view);
    let rules = by_rule(&view.findings);
    for (nth, alike) in (1..).zip(rules.iter().take(top)) {
        block(&mut page, nth, alike);
    }
    if let Some(more) = rules.len().checked_sub(top).filter(|more| *more > 0) {
        page.gap();
        let more = plural(more as u64, "other rule");
        page.wrapped("  ", &format!("and findings of {more} (--rows all)"), 2);
    }
    withheld(&mut page, view);
    small(&mut page, view);
    page.heading(match view.recording.side {
        Side::Host => "KVM's parameters",
        Side::Guest => "haltpoll's parameters, or KVM's in the host",
    });
    page.advice("  ", &view.recommendation.text(), 2);
    not_judged(&mut page, view);
    closing(&mut page, view);
    page.finish()
}

fn opening(page: &mut Page, view: &Explanation) {
    let recording = &view.recording;
    page.wrapped(
        &format!("{}: ", harmless(&recording.source.host)),
        &format!(
            "{} of {} in {}, Linux {}, recorded by {}",
            plural(recording.halts, "halt"),
            whose(recording),
            nanos(recording.source.duration_ns),
            harmless(&recording.source.kernel),
            recording.source.rung,
        ),
        2,
    );
    let judged = view.rules - view.not_judged.len();
    let rules = match view.not_judged.len() {
        0 => plural(judged as u64, "rule"),
        _ if judged == 1 => "the one rule that could be evaluated".to_owned(),
        _ => format!("the {judged} rules that could be evaluated"),
    };
    let text = match view.findings.len() {
        0 => format!("No findings from {rules}{}.", but(view)),
        1 => format!("1 finding of {} rules:", view.rules),
        n => format!(
            "{n} findings of {} rules, most expensive first:",
            view.rules
        ),
    };
    page.wrapped("  ", &text, 2);
}

fn whose(recording: &ExplainedRecording) -> String {
    match recording.side {
        Side::Host => plural(recording.source.vms as u64, "VM"),
        Side::Guest => "this guest".to_owned(),
    }
}

/// What there is all the same, where nothing stands out.
fn but(view: &Explanation) -> String {
    let withheld = match view.withheld.len() {
        0 => None,
        1 => Some("1 remedy that would do harm".to_owned()),
        n => Some(format!("{n} remedies that would do harm")),
    };
    let small: usize = view.small.iter().map(|it| it.findings).sum();
    let small = (small > 0).then(|| format!("{} of low cost", plural(small as u64, "finding")));
    match [withheld, small].into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        some => format!(", but {}, see below", some.join(" and ")),
    }
}

/// Findings of a rule together, where the first of them stands.
fn by_rule(findings: &[RuleFinding]) -> Vec<Vec<&RuleFinding>> {
    let mut groups: Vec<Vec<&RuleFinding>> = Vec::new();
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

fn block(page: &mut Page, nth: usize, alike: &[&RuleFinding]) {
    let finding = alike[0];
    page.heading(&format!("{nth}. {}", finding.title));
    page.wrapped("  who        ", &who_of(finding), 13);
    page.wrapped("  seen       ", &harmless(&finding.signature), 13);
    page.wrapped("  cause      ", &finding.cause, 13);
    for (nth, remedy) in finding.remedies.iter().enumerate() {
        let label = if nth == 0 {
            "  remedy     "
        } else {
            "  or         "
        };
        page.advice(label, &remedy.text, 13);
        page.wrapped("  price      ", remedy.price, 13);
        page.wrapped("  harm       ", remedy.harm, 13);
    }
    page.wrapped("  cost       ", &cost(finding.cost.as_ref()), 13);
    page.wrapped("  certainty  ", finding.sure.as_str(), 13);
    let source = format!("{} ({})", finding.source, finding.rule);
    page.wrapped("  source     ", &source, 13);
    for other in alike.iter().skip(1).take(ALSO) {
        let text = format!(
            "{}: {} ({})",
            who_of(other),
            cost(other.cost.as_ref()),
            other.sure.as_str()
        );
        page.wrapped("  also       ", &text, 13);
    }
    let more = alike.len().saturating_sub(1 + ALSO);
    if more > 0 {
        let text = format!("{} more (see --json)", count(more as u64));
        page.wrapped("  and        ", &text, 13);
    }
}

pub(crate) fn who_of(finding: &RuleFinding) -> String {
    who(finding.vm, finding.vm_name.as_deref(), &finding.vcpus)
}

pub(crate) fn who(vm: Option<u32>, name: Option<&str>, vcpus: &[u32]) -> String {
    let Some(vm) = vm else {
        return "the host: every VM without its own ceiling".to_owned();
    };
    let name = match name {
        Some(name) => harmless(name),
        None => format!("VM {vm}"),
    };
    match vcpus {
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

pub(crate) fn cost(of: Option<&FindingCost>) -> String {
    let Some(of) = of else {
        return "cannot be computed from a recording".to_owned();
    };
    let (cpu_ns, latency_ns) = (of.cost.cpu_ns_per_s, of.cost.latency_ns_per_s);
    let cpu = (cpu_ns > 0.0).then(|| match cpu_ns / 1e9 {
        part if part < 1.0 => format!("{} of a CPU", share(part)),
        more => format!("{} CPUs", three_digits(more)),
    });
    let latency = (latency_ns > 0.0).then(|| {
        format!(
            "{} of wake-up latency in each second",
            nanos_f64(latency_ns)
        )
    });
    match (cpu, latency) {
        (None, None) => "no cost in this recording".to_owned(),
        (Some(one), None) | (None, Some(one)) => format!("at most {one}"),
        (Some(cpu), Some(latency)) => format!("at most {cpu} and {latency}"),
    }
}

/// Remedies that would do harm, of each rule one in full.
fn withheld(page: &mut Page, view: &Explanation) {
    if view.withheld.is_empty() {
        return;
    }
    page.heading("Remedies that would do harm here");
    let mut told: Vec<(&str, &str)> = Vec::new();
    for it in &view.withheld {
        let alike = |other: &&WithheldRemedy| other.rule == it.rule && other.remedy == it.remedy;
        if told.contains(&(it.rule, &it.remedy)) {
            continue;
        }
        told.push((it.rule, &it.remedy));
        let others = view.withheld.iter().filter(alike).count() - 1;
        let others = match others {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            n => format!(" and {n} others"),
        };
        let whom = who(it.vm, it.vm_name.as_deref(), &it.vcpus);
        page.wrapped(
            "  ",
            &format!("{} ({whom}{others}): {}", it.title, it.rule),
            4,
        );
        page.wrapped("    remedy  ", &it.remedy, 12);
        page.wrapped("    harm    ", &format!("{}.", harmless(&it.why)), 12);
    }
}

fn small(page: &mut Page, view: &Explanation) {
    if view.small.is_empty() {
        return;
    }
    let limit = share(view.shown_from_ns_per_s / 1e9);
    page.heading(&format!("Below {limit} of a CPU"));
    for it in &view.small {
        let of = plural(it.findings as u64, "finding");
        let text = format!("{}: {of}, {}", it.title, cost(Some(&it.cost)));
        page.wrapped("  ", &text, 4);
    }
}

/// Rules that could not judge, by what they lack.
fn not_judged(page: &mut Page, view: &Explanation) {
    if view.not_judged.is_empty() {
        return;
    }
    page.heading("Not evaluated");
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

fn closing(page: &mut Page, view: &Explanation) {
    let recording = &view.recording;
    let source = &recording.source;
    let mut notes = Vec::new();
    if recording.unplaced > 0 {
        notes.push(format!(
            "{} of unknown VMs, not seen by any rule",
            plural(recording.unplaced, "halt")
        ));
    }
    notes.extend(words::of_recording(source.lost, source.cut));
    notes.extend(source.notes.iter().cloned());
    page.notes(&notes);
    if !view.findings.is_empty() {
        page.wrapped(
            "",
            &format!(
                "The cost is what the cause takes, an upper bound of what a remedy can save. Findings \
                 are sorted by it, with 1 ns of wake-up latency counted as {} of CPU time (--goal). \
                 {}",
                three_digits(view.lambda),
                match view.recording.side {
                    Side::Host => "Use replay, tune and prove to see what a setting of KVM saves.",
                    Side::Guest => "Use replay and tune to see what a setting of haltpoll saves.",
                }
            ),
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
}
