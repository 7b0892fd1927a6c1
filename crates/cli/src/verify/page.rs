//! A verification as shown to the user.

use haltwise_core::recording::Side;
use haltwise_core::verify::tally::{Count, Transition};
use haltwise_document::{Document, Rows, Unit, Untrusted, prose};

use super::view::{DifferentHalt, ResultLine, TakenParameter, Verified, WindowStep};
use crate::number::{counted, percent};
use crate::reading::rule::Origin;

pub(crate) fn document(view: &Verified) -> Document {
    let mut document = Document::new();
    let capture = &view.capture;
    let text = format!(
        "{} of {}, recorded by {} on ",
        counted(view.halts, "halt"),
        counted(capture.vcpus as u64, cpu(view)),
        capture.rung,
    );
    let kernel = Untrusted::from(&capture.kernel_release);
    document.fact(Untrusted::from(&capture.dir), prose![text, kernel]);
    algorithm(&mut document, view);
    left_out(&mut document, view);
    differences(&mut document, view);
    result(&mut document, view);
    document.prose(verdict(view));
    for note in &view.capture.notes {
        document.note(Untrusted::from(note));
    }
    document
}

fn cpu(view: &Verified) -> &'static str {
    match view.rule.polls {
        Side::Host => "vCPU",
        Side::Guest => "CPU",
    }
}

fn whose(view: &Verified) -> &'static str {
    match view.rule.polls {
        Side::Host if view.rule.policy.is_some() => "the policy",
        Side::Host => "KVM's algorithm",
        Side::Guest => "the algorithm of the governor haltpoll",
    }
}

fn algorithm(document: &mut Document, view: &Verified) {
    let rule = &view.rule;
    let mut text = format!("Linux {} on {}", rule.kernel, rule.arch);
    text.push_str(origin(rule.arch_origin));
    if !rule.backports.is_empty() {
        text = format!("{text}, with {}", rule.backports.join(", "));
    }
    if rule.backports_found {
        let without = counted(rule.differences_upstream.unwrap_or(0), "difference");
        text = format!("{text} (detected from the recording: {without} without)");
    }
    if !rule.equally.is_empty() {
        text = format!("{text}; {} explains it as well", rule.equally.join(" or "));
    }
    if !rule.undecided.is_empty() {
        let undecided = rule.undecided.join(" or ");
        text = format!("{text}; the recording does not show whether it has {undecided}");
    }
    if !rule.transcribed {
        text.push_str(" (unknown kernel: the nearest known algorithm is used)");
    }
    if let Some(policy) = &rule.policy {
        text = format!("policy {policy}, instead of that of {text}");
    }
    document.fact("algorithm", text);
    if let Some(distributor) = rule.distributor {
        document.fact("kernel", assumed(view, distributor));
    }
    let settings: Vec<String> = view.settings.iter().map(setting).collect();
    document.fact("settings", settings.join(", "));
    if let Some(cap) = view.cap_ns {
        document.fact("ceiling", format!("{cap} for every VM (specified)"));
    }
}

/// A distributor's kernel is upstream's by assumption; its calls show how far that holds.
fn assumed(view: &Verified, distributor: &str) -> String {
    let calls = [Transition::Grow, Transition::Shrink].map(Transition::as_str);
    let calls = calls.iter().filter_map(|it| view.transitions.get(it));
    let (checked, matched) = calls.fold((0, 0), |sum, it| (sum.0 + it.checked, sum.1 + it.matched));
    let rule = &view.rule;
    let kernel = &rule.kernel;
    let with = if rule.backports.is_empty() {
        ""
    } else {
        " with these backports"
    };
    format!(
        "Linux {kernel} of {distributor}: upstream's algorithm of {kernel}{with} is assumed; verified on \
         {matched} of {}",
        counted(checked, "call")
    )
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recorded => "",
        Origin::Told => " (specified)",
        Origin::Assumed => " (assumed)",
    }
}

fn setting(setting: &TakenParameter) -> String {
    let origin = origin(setting.origin);
    let mut text = format!("{} {}{origin}", setting.name, setting.first);
    if setting.changes > 0 {
        let changes = counted(setting.changes as u64, "change");
        text = format!("{text} ({changes}, at the end {})", setting.last);
    }
    text
}

fn differences(document: &mut Document, view: &Verified) {
    if view.shown.is_empty() {
        return;
    }
    let all = view.differences;
    let shown = view.shown.len();
    document.heading(if shown as u64 == all {
        format!("Differences: {all}")
    } else {
        format!("Differences: the first {shown} of {all} (--rows all)")
    });
    for difference in &view.shown {
        one(document, difference);
    }
}

fn one(document: &mut Document, it: &DifferentHalt) {
    let name = it.vm_name.as_deref().unwrap_or("unknown VM");
    let vcpu = it.vcpu.map_or_else(
        || format!(" thread {}", it.tid),
        |vcpu| format!(" vCPU {vcpu}"),
    );
    let (seconds, nanos) = (
        it.after_start_ns / 1_000_000_000,
        it.after_start_ns % 1_000_000_000,
    );
    let mut text = format!(
        "at {seconds}.{nanos:09} s: {} ns, {}, window before {}, ceiling {}",
        it.halt_ns,
        if it.waited { "slept" } else { "did not sleep" },
        it.before_ns,
        it.ceiling_ns
    );
    if !it.valid {
        text.push_str(", not valid");
    }
    if it.settings > 1 {
        text = format!("{text}, {} settings tried", it.settings);
    }
    if it.as_if_vetoed {
        text.push_str(", as for a vCPU that may not poll");
    }
    document.fact(prose![Untrusted::from(name), vcpu], text);
    document.fact("    expected", step(&it.expected));
    document.fact("    found", step(&it.found));
}

fn step(step: &WindowStep) -> String {
    let known = |ns: Option<u32>| ns.map_or_else(|| "?".to_owned(), |ns| ns.to_string());
    let call = match (step.old_ns, step.new_ns) {
        (Some(old), Some(new)) => format!("{} {old} -> {new}", step.change),
        _ => "no call".to_owned(),
    };
    let (window, next) = (known(step.window_ns), known(step.next_ns));
    format!("window {window}, {call}, leaves {next}")
}

fn result(document: &mut Document, view: &Verified) {
    document.heading("Result");
    let line = |what, count: Count| ResultLine {
        what,
        checked: count.checked,
        matched: count.matched,
    };
    let all = Count {
        checked: view.checked,
        matched: view.matched,
    };
    let mut lines = vec![line("halts", all)];
    lines.extend(Transition::ALL.into_iter().filter_map(|transition| {
        let name = match transition {
            Transition::Grow => "  grow",
            Transition::Shrink => "  shrink",
            Transition::Silent => "  changed without event",
            Transition::None => "  no change",
        };
        let count = view.transitions.get(transition.as_str())?;
        Some(line(name, *count))
    }));
    let share = |line: &ResultLine| match (line.matched, line.checked) {
        (_, 0) => None,
        // Never rounded up to all of them.
        (part, all) if part < all && part as f64 / all as f64 > 0.999 => Some("< 100 %".to_owned()),
        (part, all) => Some(percent(part as f64, all as f64)),
    };
    let table = Rows::new("Result", &lines, usize::MAX)
        .show(&["what", "checked", "matched"])
        .with("share", Unit::Shown, share);
    document.table(table.finish());
}

fn left_out(document: &mut Document, view: &Verified) {
    let reasons = view.reasons();
    if reasons.is_empty() {
        document.fact("not checked", "none");
    }
    for (count, skip) in reasons {
        document.fact("not checked", format!("{count} {}", skip.reason()));
    }
    if view.vetoed > 0 {
        let text = format!(
            "{} of vCPUs whose guest disabled host polling (MSR_KVM_POLL_CONTROL): KVM does not change \
             their windows",
            counted(view.vetoed, "halt")
        );
        document.fact("no polling", text);
    }
    if view.several_settings > 0 {
        let text = format!(
            "{} checked against several settings, because they were changing; each matches one",
            counted(view.several_settings, "halt")
        );
        document.fact("settings", text);
    }
    let assumed = view.settings.iter();
    let assumed = assumed.filter(|it| it.origin == Origin::Assumed);
    let assumed: Vec<&str> = assumed.map(|it| it.name).collect();
    if !assumed.is_empty() {
        let names = assumed.join(", ");
        let text = format!("{names}: not recorded, the kernel's default is assumed");
        document.fact("assumed", text);
    }
    if view.ceiling_assumed > 0 {
        let text = format!(
            "ceiling of {}: not recorded, halt_poll_ns assumed; specify it with --cap",
            counted(view.ceiling_assumed, "halt")
        );
        document.fact("assumed", text);
    }
    if view.capture.lost > 0 {
        document.fact("lost", counted(view.capture.lost, "event"));
    }
    if view.capture.cut {
        document.fact("cut", "the recording was not finished");
    }
}

fn verdict(view: &Verified) -> String {
    if view.checked == 0 {
        return "Nothing could be checked.".to_owned();
    }
    if view.differences == 0 {
        return format!("Every checked halt matches {}.", whose(view));
    }
    let mut text = format!(
        "{} from {}",
        counted(view.differences, "difference"),
        whose(view)
    );
    if view.as_if_vetoed > 0 {
        text = format!(
            "{text}; in {} KVM left the window alone, as it does for a vCPU that may not poll: the \
             guest may have disabled host polling, or halt_poll_ns was 0 between two readings",
            view.as_if_vetoed
        );
    }
    if view.differences_assumed > 0 {
        text = format!(
            "{text}; {} under a ceiling that was not recorded: the VM may have its own: specify it \
             with --vm and --cap",
            view.differences_assumed
        );
    }
    if view.rule.could_be_other {
        text.push_str(
            ". No set of known backports explains them; specify backports with --backport",
        );
    }
    text + "."
}
