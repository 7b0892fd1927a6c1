//! The result as text.

use haltwise_core::verify::tally::Transition;

use super::view::{DidView, DifferenceView, SettingView, View};
use crate::number::percent;
use crate::page::{Page, Stands, harmless};
use crate::reading::rule::Origin;

/// Lays out the result in so many columns.
pub(super) fn render(view: &View, width: usize) -> String {
    let mut page = Page::new(width);
    let capture = &view.capture;
    let text = format!(
        "{} of {}, recorded by {} on {}",
        counted(view.halts, "halt"),
        counted(capture.vcpus as u64, "vCPU"),
        capture.rung,
        harmless(&capture.kernel_release),
    );
    page.wrapped(&format!("{}: ", harmless(&capture.dir)), &text, 2);
    rule(&mut page, view);
    differences(&mut page, view);
    result(&mut page, view);
    closing(&mut page, view);
    page.finish()
}

fn say(page: &mut Page, what: &str, text: &str) {
    page.wrapped(&format!("  {what:<13} "), text, 16);
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn rule(page: &mut Page, view: &View) {
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
    say(page, "algorithm", &text);
    let settings: Vec<String> = view.settings.iter().map(setting).collect();
    say(page, "settings", &settings.join(", "));
    if let Some(cap) = view.cap_ns {
        say(page, "ceiling", &format!("{cap} for every VM (specified)"));
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recorded => "",
        Origin::Told => " (specified)",
        Origin::Assumed => " (assumed)",
    }
}

fn setting(setting: &SettingView) -> String {
    let origin = origin(setting.origin);
    let mut text = format!("{} {}{origin}", setting.name, setting.first);
    if setting.changes > 0 {
        let changes = counted(setting.changes as u64, "change");
        text = format!("{text} ({changes}, at the end {})", setting.last);
    }
    text
}

fn differences(page: &mut Page, view: &View) {
    if view.shown.is_empty() {
        return;
    }
    let all = view.differences;
    let shown = view.shown.len();
    page.heading(&if shown as u64 == all {
        format!("Differences: {all}")
    } else {
        format!("Differences: the first {shown} of {all} (--all shows all)")
    });
    for difference in &view.shown {
        one(page, difference);
    }
}

fn one(page: &mut Page, it: &DifferenceView) {
    let name = it.vm_name.as_deref().unwrap_or("unknown VM");
    let vcpu = it.vcpu.map_or_else(
        || format!("thread {}", it.tid),
        |vcpu| format!("vCPU {vcpu}"),
    );
    let (seconds, nanos) = (
        it.after_start_ns / 1_000_000_000,
        it.after_start_ns % 1_000_000_000,
    );
    let mut text = format!(
        "at {seconds}.{nanos:09} s: {} ns, {}, window before {}, ceiling {}",
        it.halt_ns,
        if it.waited { "waited" } else { "did not wait" },
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
    page.wrapped(&format!("{} {vcpu} ", harmless(name)), &text, 4);
    page.line(&format!("    expected  {}", did(&it.expected)));
    page.line(&format!("    found     {}", did(&it.found)));
}

fn did(did: &DidView) -> String {
    let known = |ns: Option<u32>| ns.map_or_else(|| "?".to_owned(), |ns| ns.to_string());
    let call = match (did.old_ns, did.new_ns) {
        (Some(old), Some(new)) => format!("{} {old} -> {new}", did.change),
        _ => "no call".to_owned(),
    };
    let (window, next) = (known(did.window_ns), known(did.next_ns));
    format!("window {window}, {call}, leaves {next}")
}

fn result(page: &mut Page, view: &View) {
    page.heading("Result");
    let share = |part: u64, whole: u64| match whole {
        0 => "-".to_owned(),
        // Never rounded up to all of them.
        _ if part < whole && part as f64 / whole as f64 > 0.999 => "< 100 %".to_owned(),
        _ => percent(part as f64, whole as f64),
    };
    let row = |what: &str, checked: u64, matched: u64| {
        vec![
            what.to_owned(),
            checked.to_string(),
            matched.to_string(),
            share(matched, checked),
        ]
    };
    let mut rows = vec![
        ["", "checked", "matched", ""].map(str::to_owned).to_vec(),
        row("halts", view.checked, view.matched),
    ];
    for transition in Transition::ALL {
        let name = match transition {
            Transition::Grow => "  grow",
            Transition::Shrink => "  shrink",
            Transition::Silent => "  changed without event",
            Transition::None => "  no change",
        };
        if let Some(count) = view.transitions.get(transition.as_str()) {
            rows.push(row(name, count.checked, count.matched));
        }
    }
    let stands = Stands::of_numbers::<4>();
    page.table(2, &stands, &rows);
}

fn closing(page: &mut Page, view: &View) {
    page.gap();
    let reasons = view.reasons();
    if reasons.is_empty() {
        say(page, "not checked", "none");
    }
    for (count, skip) in reasons {
        say(page, "not checked", &format!("{count} {}", skip.reason()));
    }
    if view.vetoed > 0 {
        let text = format!(
            "{} of vCPUs whose guest disabled host polling (MSR_KVM_POLL_CONTROL): KVM does not change \
             their windows",
            counted(view.vetoed, "halt")
        );
        say(page, "no polling", &text);
    }
    if view.several_settings > 0 {
        let text = format!(
            "{} checked against several settings, because they were changing; each matches one",
            counted(view.several_settings, "halt")
        );
        say(page, "settings", &text);
    }
    let assumed = view
        .settings
        .iter()
        .filter(|it| it.origin == Origin::Assumed);
    let assumed: Vec<&str> = assumed.map(|it| it.name).collect();
    if !assumed.is_empty() {
        let text = format!(
            "{}: not recorded, the kernel's default is assumed",
            assumed.join(", ")
        );
        say(page, "assumed", &text);
    }
    if view.ceiling_assumed > 0 {
        let text = format!(
            "ceiling of {}: not recorded, halt_poll_ns assumed; specify it with --cap",
            counted(view.ceiling_assumed, "halt")
        );
        say(page, "assumed", &text);
    }
    if view.capture.lost > 0 {
        say(page, "lost", &counted(view.capture.lost, "event"));
    }
    if view.capture.cut {
        say(page, "cut", "the recording was not finished");
    }
    for note in &view.capture.notes {
        say(page, "note", &harmless(note));
    }
    say(page, "verdict", &verdict(view));
}

fn verdict(view: &View) -> String {
    if view.checked == 0 {
        return "nothing could be checked".to_owned();
    }
    if view.differences == 0 {
        return "every checked halt matches KVM's algorithm".to_owned();
    }
    let mut text = format!(
        "{} from KVM's algorithm",
        counted(view.differences, "difference")
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
        text.push_str(". No known backport explains them; specify one with --backport");
    }
    text
}
