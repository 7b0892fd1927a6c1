//! The result as shown to the user: as text, and as a page for a browser.

use std::path::Path;

use anyhow::Context;
use haltwise_capture::files::output::{self, Readers};
use haltwise_core::fleet::answer::PlanKind;
use haltwise_core::fleet::choose::Takes;
use haltwise_core::fleet::gather::Level;
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::Verdict;
use haltwise_document::html::markup::{Markup, el};
use haltwise_document::{Document, Rows, Unit, Untrusted, html, prose};

use super::view::{FleetCohort, FleetPlan, FleetResult};
use crate::exit::Failure;
use crate::number::{count, nanos, share, three_digits};
use crate::recommend::say;
use crate::webpage;
use crate::words::plural;

/// Lays it out, with so many rows of each table.
pub(crate) fn document(result: &FleetResult, top: usize) -> Document {
    let mut document = Document::new();
    opening(&mut document, result);
    plans(&mut document, result);
    cohorts(&mut document, result, top);
    losing(&mut document, result, top);
    notes(&mut document, result);
    document
}

fn opening(document: &mut Document, result: &FleetResult) {
    let read = &result.read;
    document.heading(format!(
        "A fleet of {}, {} on {}",
        plural(read.hosts as u64, "host"),
        plural(read.vms, "VM"),
        plural(read.days as u64, "day"),
    ));
    let one = &result.one.setting;
    let gain = result.plans.iter().find(|plan| plan.plan == PlanKind::One);
    let gain = gain.map(|plan| less(&plan.gain)).unwrap_or_default();
    document.prose(match result.verdict {
        Verdict::Change => format!("One setting for all: {one}. A halt then costs {gain}."),
        Verdict::AlreadyBest | Verdict::TooSmall => format!(
            "Leave the settings in force: the best one setting for all, {one}, gains less than 2 % ({gain})."
        ),
        Verdict::NotSignificant => format!(
            "Not certain: under the best one setting for all, {one}, a halt costs {gain}."
        ),
        _ => format!(
            "The best one setting for all is {one} ({gain}); there are too few hosts and days to say how sure \
             that is."
        ),
    });
    if result.verdict.changes() {
        let set = say::words(
            &result.one.values(),
            |(it, value)| format!(" --set {it}={value}"),
            "",
        );
        document.command("on each host", format!("haltwise apply{set}"));
    }
}

/// `12.3 % less (11.0 to 13.1 %)`.
fn less(gain: &Interval) -> String {
    let percent = |of: f64| three_digits(100.0 * of);
    let word = if gain.value < 0.0 { "more" } else { "less" };
    let value = percent(gain.value.abs());
    if !gain.is_known() {
        return format!("{value} % {word}");
    }
    let (low, high) = (percent(gain.low), percent(gain.high));
    format!("{value} % {word} ({low} to {high} % less with 95 % confidence)")
}

fn range(gain: &Interval) -> String {
    let percent = |of: f64| format!("{:.1}", 100.0 * of);
    if !gain.is_known() {
        return "unknown".to_owned();
    }
    format!("{} to {} %", percent(gain.low), percent(gain.high))
}

fn named(plan: PlanKind) -> &'static str {
    match plan {
        PlanKind::InForce => "in force",
        PlanKind::Default => "kernels' defaults",
        PlanKind::Off => "halt_poll_ns=0",
        PlanKind::One => "one setting",
        PlanKind::Cohorts => "by cohort",
        PlanKind::Ceilings => "+ ceilings of VMs",
        PlanKind::Bound => "bound (oracle)",
    }
}

fn plans(document: &mut Document, result: &FleetResult) {
    document.heading("What could be set");
    let saved = |it: &FleetPlan| {
        let value = three_digits(it.cpus_saved.value);
        if it.plan == PlanKind::InForce {
            "-".to_owned()
        } else {
            value
        }
    };
    let table = Rows::new("Settings", &result.plans, usize::MAX)
        .with("setting", Unit::Word, |it| named(it.plan))
        .show(&["cost_per_halt_ns"])
        .with("less", Unit::Shown, |it| share(it.gain.value))
        .with("interval", Unit::Shown, |it| match it.plan {
            PlanKind::InForce => "-".to_owned(),
            _ => range(&it.gain),
        })
        .show(&["latency_mean_ns"])
        .with("CPUs", Unit::Shown, |it| three_digits(it.cpus))
        .with("saved", Unit::Shown, saved)
        .spare(&["CPUs", "latency_mean_ns"]);
    document.table(table.finish());
    document.prose(saved_ends(result));
    if result.had_ceiling > 0 {
        document.prose(format!(
            "{} of {} had a ceiling of their own, which halt_poll_ns does not change: off does not reach them.",
            plural(result.had_ceiling, "VM"),
            count(result.read.vms)
        ));
    }
}

fn saved_ends(result: &FleetResult) -> String {
    let is_asked = |it: &&FleetPlan| !matches!(it.plan, PlanKind::InForce | PlanKind::Bound);
    let each = result.plans.iter().filter(is_asked).map(|it| {
        let saved = &it.cpus_saved;
        let ends = if saved.is_known() {
            format!(
                "{} to {}",
                three_digits(saved.low),
                three_digits(saved.high)
            )
        } else {
            "unknown".to_owned()
        };
        format!("{} {ends}", named(it.plan))
    });
    let each: Vec<String> = each.collect();
    format!("CPUs saved, 95 % confidence: {}.", each.join(", "))
}

fn verdict(of: &FleetCohort) -> &'static str {
    if of.takes == Takes::One {
        return "as all";
    }
    of.verdict.as_str()
}

/// Whether a cohort keeps what is in force because nothing costs less: what was found then stands for nothing.
fn is_best(of: &FleetCohort) -> bool {
    of.takes == Takes::InForce && of.verdict == Verdict::AlreadyBest
}

fn cohorts(document: &mut Document, result: &FleetResult, top: usize) {
    document.heading(format!("By {}", result.by.join(" and ")));
    let table = Rows::new("By cohort", &result.cohorts, top)
        .show(&["cohort", "vms"])
        .with("setting", Unit::Word, |it: &FleetCohort| {
            let setting = it.setting.setting.as_str();
            let shown = if is_best(it) { "in force" } else { setting };
            shown.to_owned()
        })
        .show(&["now_per_halt_ns", "cost_per_halt_ns"])
        .unknown(&["cost_per_halt_ns"], is_best)
        .with("less", Unit::Shown, |it| {
            (!is_best(it)).then(|| share(it.gain.value))
        })
        .with("interval", Unit::Shown, |it| {
            (!is_best(it)).then(|| range(&it.gain))
        })
        .with("verdict", Unit::Word, verdict)
        .spare(&["vms", "interval"]);
    document.table(table.finish());
    let words = [
        (Verdict::AlreadyBest, "no setting costs less"),
        (Verdict::TooSmall, "the gain is below 2 %"),
        (Verdict::TooShort, "too few hosts and days for an interval"),
        (Verdict::NotSignificant, "the interval contains zero"),
    ];
    let kept = || (result.cohorts.iter()).filter(|it| it.takes == Takes::InForce);
    let words = words
        .iter()
        .filter(|(word, _)| kept().any(|it| it.verdict == *word));
    let words: Vec<String> = words
        .map(|(word, why)| format!("`{word}`: {why}"))
        .collect();
    if !words.is_empty() {
        document.prose(format!(
            "{}. Such cohorts keep what is in force.",
            words.join("; ")
        ));
    }
    if result.cohorts.iter().any(|it| it.takes == Takes::One) {
        document.prose(
            "`as all`: the cohort takes the one setting, since it is too small to be certain of another, or since settings by \
             cohort cost more together.",
        );
    }
}

fn losing(document: &mut Document, result: &FleetResult, top: usize) {
    let changes = |it: &FleetCohort| it.takes != Takes::InForce;
    let setting = if result.cohorts.iter().any(changes) {
        "the setting that its cohort takes"
    } else {
        "the one setting, which no cohort takes"
    };
    if result.losers == 0 {
        document.prose(format!(
            "No VM's cost would rise by 2 % or more under {setting}."
        ));
        return;
    }
    document.heading("VMs that would lose");
    document.prose(format!(
        "{} of {} would cost at least 2 % more than now, each under {setting}.",
        plural(result.losers, "VM"),
        count(result.read.vms)
    ));
    let table = Rows::new("VMs that would lose", &result.losing, top)
        .show(&[
            "vm",
            "host",
            "cohort",
            "now_per_halt_ns",
            "cost_per_halt_ns",
            "loss",
            "ceiling_ns",
        ])
        .spare(&["cohort", "ceiling_ns"]);
    document.table(table.finish());
}

fn notes(document: &mut Document, result: &FleetResult) {
    let (read, assumed) = (&result.read, &result.assumed);
    document.remark(format!(
        "Settings are chosen on the first half of each capture and evaluated on the second. 1 ns of latency counts as {} \
         of CPU time for VMs without a goal of their own. Intervals cover which {} were recorded, not what a \
         sleep costs. CPUs are those of {}, averaged over the recorded time.",
        three_digits(assumed.lambda),
        match read.unit {
            Level::Host => "hosts",
            Level::Day => "days of hosts",
            Level::Capture => "captures",
        },
        plural(assumed.hosts, "host"),
    ));
    if read.longest_ns / 2 > read.shortest_ns {
        document.note(format!(
            "Recorded times are from {} to {}: in CPUs saved, the longer count for more.",
            nanos(read.shortest_ns),
            nanos(read.longest_ns)
        ));
    }
    if read.rows_of_other_grids > 0 {
        document.note(format!(
            "{} of other settings than those of the grid {} were left out.",
            plural(read.rows_of_other_grids, "row"),
            read.grid
        ));
    }
    if !read.refused.is_empty() {
        let refused = plural(read.refused.len() as u64, "table");
        document.note(format!("{refused} not counted:"));
    }
    for reason in read.refused.iter().take(20) {
        document.note(prose![Untrusted::from(reason)]);
    }
}

const ROWS: usize = 200;

/// Writes the result as a page for a browser, one file without a script; gives its size in bytes.
pub(crate) fn write(result: &FleetResult, path: &Path) -> Result<usize, Failure> {
    let text = as_html(result);
    output::write(path, text.as_bytes(), Readers::Umask)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(text.len())
}

fn as_html(result: &FleetResult) -> String {
    let hosts = plural(result.read.hosts as u64, "host");
    let title = format!("haltwise fleet: {hosts}");
    let header = el("header").with(el("h1").with(title.as_str()));
    let main = el("main").with(el("section").with(html::render(&document(result, ROWS))));
    let footer = el("footer").with(
        el("p").with(
            format!(
                "haltwise {}. Made from {} alone; this file asks for nothing from any network.",
                env!("CARGO_PKG_VERSION"),
                plural(result.read.tables as u64, "costs table"),
            )
            .as_str(),
        ),
    );
    webpage::still(&title, Markup::none().and(header).and(main).and(footer))
}
