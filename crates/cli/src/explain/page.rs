//! Output of `report --findings`: a block for each rule that found something, then actions to avoid, low-cost findings,
//! and what could not be judged.

use haltwise_core::recording::Side;
use haltwise_document::block::Span;
use haltwise_document::{Document, Prose, Untrusted, prose};

use super::view::{
    ExplainedRecording, Explanation, FindingCost, RuleFinding, UnjudgedRule, WhoseFinding,
    WithheldRemedy,
};
use crate::number::{count, nanos, nanos_f64, share, three_digits};
use crate::page::{fit, harmless};
use crate::words::{self, grouped, plural};

/// The text on a screen, with the findings of at most `top` rules.
pub(crate) fn document(view: &Explanation, top: usize) -> Document {
    let mut document = Document::new();
    opening(&mut document, view);
    document.append(findings(view, top, On::Screen));
    document.heading(match view.recording.side {
        Side::Host => "KVM's parameters",
        Side::Guest => "haltpoll's parameters, or KVM's in the host",
    });
    document.advice(view.recommendation.text());
    not_judged(&mut document, view, On::Screen);
    closing(&mut document, view);
    document
}

/// Where it is shown: a screen has less room, and `--json` has the rest; a page is all that its reader has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Screen,
    Page,
}

/// The section of a page: all findings, and the rules that could not judge.
pub(crate) fn section(view: &Explanation) -> Document {
    let mut document = findings(view, usize::MAX, On::Page);
    not_judged(&mut document, view, On::Page);
    document
}

fn findings(view: &Explanation, top: usize, on: On) -> Document {
    let mut document = Document::new();
    document.prose(found(view));
    let rules = grouped(view.findings.iter().map(|it| (it.rule, it)));
    for (nth, (_, alike)) in (1..).zip(rules.iter().take(top)) {
        block(&mut document, nth, alike, on);
    }
    if let Some(more) = rules.len().checked_sub(top).filter(|more| *more > 0) {
        let more = plural(more as u64, "other rule");
        document.remark(format!("and findings of {more} (--rows all)"));
    }
    withheld(&mut document, &view.withheld, on);
    small(&mut document, view);
    document
}

fn opening(document: &mut Document, view: &Explanation) {
    let recording = &view.recording;
    let text = format!(
        "{} of {} in {}, Linux ",
        plural(recording.halts, "halt"),
        whose(recording),
        nanos(recording.source.duration_ns),
    );
    let kernel = Untrusted::from(&recording.source.kernel);
    let source = format!(", recorded by {}", recording.source.rung);
    let host = Untrusted::from(&recording.source.host);
    document.fact(host, prose![text, kernel, source]);
}

fn found(view: &Explanation) -> String {
    let judged = view.rules - view.not_judged.len();
    let rules = match view.not_judged.len() {
        0 => plural(judged as u64, "rule"),
        _ if judged == 1 => "the one rule that could be evaluated".to_owned(),
        _ => format!("the {judged} rules that could be evaluated"),
    };
    let found_by = grouped(view.findings.iter().map(|it| (it.rule, it))).len();
    match view.findings.len() {
        n if n > found_by => format!(
            "{n} findings by {found_by} of {} rules, most expensive first:",
            view.rules
        ),
        0 => format!("No findings from {rules}{}.", but(view)),
        1 => format!("1 finding of {} rules:", view.rules),
        n => format!(
            "{n} findings of {} rules, most expensive first:",
            view.rules
        ),
    }
}

fn whose(recording: &ExplainedRecording) -> String {
    match recording.side {
        Side::Host => plural(recording.source.vms as u64, "VM"),
        Side::Guest => "this guest".to_owned(),
    }
}

/// Withheld remedies and findings of low cost, where nothing stands out.
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

/// Guests named after the first of a rule.
const ALSO: usize = 5;

fn block(document: &mut Document, nth: usize, alike: &[&RuleFinding], on: On) {
    let finding = alike[0];
    document.heading(format!("{nth}. {}", finding.title));
    document.term("who", who(&finding.whose));
    document.term("seen", signature(&finding.signature, on));
    document.term("cause", finding.cause.clone());
    for (nth, remedy) in finding.remedies.iter().enumerate() {
        let label = if nth == 0 { "remedy" } else { "or" };
        document.term_to_do(label, remedy.text.clone());
        document.term("price", remedy.price);
        document.term("harm", remedy.harm);
    }
    document.term("cost", cost(finding.cost.as_ref()));
    document.term("certainty", finding.sure.as_str());
    document.term("source", format!("{} ({})", finding.source, finding.rule));
    let also = |other: &RuleFinding| {
        let mut text = who(&other.whose);
        let (cost, sure) = (cost(other.cost.as_ref()), other.sure.as_str());
        text.extend(format!(": {cost} ({sure})").into());
        text
    };
    let (first, more) = alike[1..].split_at(ALSO.min(alike.len() - 1));
    for other in first {
        document.term("also", also(other));
    }
    if more.is_empty() {
        return;
    }
    let number = count(more.len() as u64);
    if on == On::Screen {
        document.term("and", format!("{number} more (see --json)"));
        return;
    }
    let mut folded = Document::new();
    for other in more {
        folded.item(also(other));
    }
    document.folded(format!("{number} more of this rule"), folded);
}

fn who(whose: &WhoseFinding) -> Prose {
    let Some(vm) = whose.vm else {
        return "the host: every VM without its own ceiling".into();
    };
    let name = match &whose.vm_name {
        Some(name) => Span::from(Untrusted::from(name)),
        None => format!("VM {vm}").into(),
    };
    match &whose.vcpus[..] {
        [] => name.into(),
        [one] => prose![name, format!(", vCPU {one}")],
        several => prose![name, format!(", vCPUs {}", ranges(several))],
    }
}

/// A text that may contain a VM's name. A page stays small whatever that is.
fn signature(text: &str, on: On) -> String {
    const LONGEST: usize = 600;
    match on {
        On::Screen => harmless(text),
        On::Page => fit(&harmless(text), LONGEST),
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

fn cost(of: Option<&FindingCost>) -> String {
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

/// Remedies that would do harm; on a screen one of each rule.
fn withheld(document: &mut Document, withheld: &[WithheldRemedy], on: On) {
    if withheld.is_empty() {
        return;
    }
    let mut folded = Document::new();
    for (nth, it) in withheld.iter().enumerate() {
        let alike = |other: &&WithheldRemedy| other.rule == it.rule && other.remedy == it.remedy;
        let mut others = 0;
        if on == On::Screen {
            if withheld[..nth].iter().any(|other| alike(&other)) {
                continue;
            }
            others = withheld[nth + 1..].iter().filter(alike).count();
        }
        let others = match others {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            n => format!(" and {n} others"),
        };
        let mut text = prose![format!("{} (", it.title)];
        text.extend(who(&it.whose));
        text.extend(format!("{others}): {}", it.rule).into());
        folded.item(text);
        folded.term("  remedy", it.remedy.clone());
        folded.term("  harm", format!("{}.", signature(&it.why, on)));
    }
    document.folded("Remedies that would do harm here", folded);
}

fn small(document: &mut Document, view: &Explanation) {
    if view.small.is_empty() {
        return;
    }
    let limit = share(view.shown_from_ns_per_s / 1e9);
    let mut folded = Document::new();
    for it in &view.small {
        let of = plural(it.findings as u64, "finding");
        folded.item(format!("{}: {of}, {}", it.title, cost(Some(&it.cost))));
    }
    document.folded(format!("Below {limit} of a CPU"), folded);
}

fn not_judged(document: &mut Document, view: &Explanation, on: On) {
    if view.not_judged.is_empty() {
        return;
    }
    let mut folded = Document::new();
    let mut reasons: Vec<&str> = Vec::new();
    for blind in &view.not_judged {
        if !reasons.contains(&blind.reason.as_str()) {
            reasons.push(&blind.reason);
        }
    }
    for reason in reasons {
        let rules = view.not_judged.iter().filter(|it| it.reason == reason);
        let name = |it: &UnjudgedRule| match on {
            On::Screen => it.rule,
            On::Page => it.title,
        };
        let rules: Vec<&str> = rules.map(name).collect();
        folded.item(format!("{} ({})", signature(reason, on), rules.join(", ")));
    }
    document.folded("Not evaluated", folded);
}

fn closing(document: &mut Document, view: &Explanation) {
    let recording = &view.recording;
    let source = &recording.source;
    if recording.unplaced > 0 {
        document.note(format!(
            "{} of unknown VMs, not seen by any rule",
            plural(recording.unplaced, "halt")
        ));
    }
    words::of_recording(source.lost, source.cut).for_each(|note| document.note(note));
    for note in &source.notes {
        document.note(Untrusted::from(note));
    }
    if !view.findings.is_empty() {
        document.remark(format!(
            "The cost is what the cause takes, an upper bound of what a remedy can save. Findings \
             are sorted by it, with 1 ns of wake-up latency counted as {} of CPU time (--goal). \
             {}",
            three_digits(view.lambda),
            match view.recording.side {
                Side::Host => "Use tune and prove to see what a setting of KVM saves.",
                Side::Guest => "Use tune to see what a setting of haltpoll saves.",
            }
        ));
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::explain::Sure;
    use haltwise_document::text::{self, Style};

    use super::*;

    fn shown(lay: impl FnOnce(&mut Document)) -> String {
        let mut document = Document::new();
        lay(&mut document);
        let style = Style {
            width: 80,
            colour: false,
        };
        text::render(&document, style)
    }

    fn whose(vm: u32) -> WhoseFinding {
        WhoseFinding {
            vm: Some(vm),
            vm_name: Some(format!("web-{vm}")),
            vcpus: Vec::new(),
        }
    }

    fn named(text: &str) -> Vec<usize> {
        let is_named = |n: &usize| text.contains(&format!("web-{n}"));
        (0..9).filter(is_named).collect()
    }

    #[test]
    fn a_page_names_every_vm_and_a_screen_counts_some() {
        let finding = |vm: u32| RuleFinding {
            rule: "lock-out",
            title: "a ceiling between gap and wake-up",
            whose: whose(vm),
            signature: String::new(),
            cause: String::new(),
            remedy: String::new(),
            remedies: Vec::new(),
            cost: None,
            gain: None,
            sure: Sure::Likely,
            source: "",
        };
        let findings: Vec<RuleFinding> = (0..9).map(finding).collect();
        let alike: Vec<&RuleFinding> = findings.iter().collect();
        let screen = shown(|document| block(document, 1, &alike, On::Screen));
        assert_eq!(named(&screen), [0, 1, 2, 3, 4, 5]);
        assert!(screen.contains("3 more (see --json)"), "{screen}");
        let page = shown(|document| block(document, 1, &alike, On::Page));
        assert_eq!(named(&page), (0..9).collect::<Vec<_>>());
        assert!(
            page.contains("3 more of this rule") && !page.contains("--json"),
            "{page}"
        );
    }

    #[test]
    fn a_page_has_every_remedy_that_would_do_harm() {
        let remedy = |vm: u32| WithheldRemedy {
            rule: "lock-out",
            title: "a ceiling between gap and wake-up",
            whose: whose(vm),
            signature: String::new(),
            remedy: "raise it".to_owned(),
            why: "others wait".to_owned(),
        };
        let all: Vec<WithheldRemedy> = (0..3).map(remedy).collect();
        let screen = shown(|document| withheld(document, &all, On::Screen));
        assert_eq!(named(&screen), [0]);
        assert!(screen.contains("web-0 and 2 others"), "{screen}");
        let page = shown(|document| withheld(document, &all, On::Page));
        assert_eq!(named(&page), [0, 1, 2]);
        assert!(!page.contains("others)"), "{page}");
    }

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
