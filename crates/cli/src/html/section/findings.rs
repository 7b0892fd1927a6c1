//! What stands out and can be put right: `explain`'s findings, and what could not be judged.

use super::{details, p};
use crate::explain::text::{cost, who, who_of};
use crate::explain::view::{RuleFinding, WithheldRemedy};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, prose, short};
use crate::number::share;
use crate::words::plural;

/// Findings of one rule that are told in full; the others are named.
const ALIKE: usize = 3;

pub(super) fn findings(content: &Content) -> Markup {
    let view = &content.findings;
    let mut out = Markup::none();
    if view.findings.is_empty() {
        let text = format!(
            "No findings from any of {}.",
            plural(view.rules as u64, "rule")
        );
        out.push(p(text));
    }
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let mut also: Vec<&RuleFinding> = Vec::new();
    for finding in &view.findings {
        let known = seen.iter().position(|(rule, _)| *rule == finding.rule);
        let place = known.unwrap_or_else(|| {
            seen.push((finding.rule, 0));
            seen.len() - 1
        });
        seen[place].1 += 1;
        if seen[place].1 <= ALIKE {
            out.push(one(finding));
        } else {
            also.push(finding);
        }
    }
    if !also.is_empty() {
        let title = format!(
            "{} of the same kinds",
            plural(also.len() as u64, "more finding")
        );
        let items = also.iter().map(|finding| {
            el("li").with(format!(
                "{}: {} ({})",
                finding.title,
                short_enough(&who_of(finding)),
                cost(finding.cost.as_ref())
            ))
        });
        out.push(details(title, el("ul").with_all(items)));
    }
    out.and(withheld(content))
        .and(small(content))
        .and(not_judged(content))
}

fn withheld(content: &Content) -> Option<Element> {
    let withheld = &content.findings.withheld;
    if withheld.is_empty() {
        return None;
    }
    let title = format!("Remedy that would do harm here: {}", withheld.len());
    let item = |it: &WithheldRemedy| {
        let whom = short_enough(&who(it.vm, it.vm_name.as_deref(), &it.vcpus));
        el("li")
            .with(el("b").with(it.title))
            .with(prose(&format!(" ({whom}): {} ", it.remedy)))
            .with(prose(&format!("Harm: {}.", short_enough(&it.why))))
    };
    Some(details(title, el("ul").with_all(withheld.iter().map(item))))
}

fn small(content: &Content) -> Option<Element> {
    let small = &content.findings.small;
    if small.is_empty() {
        return None;
    }
    let limit = share(content.findings.shown_from_ns_per_s / 1e9);
    let title = format!("Below {limit} of a CPU");
    let items = small.iter().map(|it| {
        let of = plural(it.findings as u64, "finding");
        el("li").with(format!("{}: {of}, {}", it.title, cost(Some(&it.cost))))
    });
    Some(details(title, el("ul").with_all(items)))
}

fn one(finding: &RuleFinding) -> Element {
    let heading = el("h3").with(finding.title);
    let sure = el("span").class("chip").with(finding.sure.as_str());
    let seen = [
        ("who", short_enough(&who_of(finding))),
        ("seen", short_enough(&finding.signature)),
        ("cause", finding.cause.clone()),
    ];
    let remedies = finding.remedies.iter().enumerate().flat_map(|(nth, it)| {
        [
            (if nth == 0 { "remedy" } else { "or" }, it.text.clone()),
            ("price", it.price.to_owned()),
            ("harm", it.harm.to_owned()),
        ]
    });
    let cost = [
        ("cost", cost(finding.cost.as_ref())),
        ("source", format!("{} ({})", finding.source, finding.rule)),
    ];
    let rows = seen.into_iter().chain(remedies).chain(cost);
    let rows = rows.flat_map(|(what, text)| [el("dt").with(what), el("dd").with(prose(&text))]);
    el("article")
        .class("finding")
        .with(el("div").class("finding-head").with(heading).with(sure))
        .with(el("dl").with_all(rows))
}

/// A signature names a VM at times, whose name a stranger chose.
fn short_enough(text: &str) -> String {
    const LONGEST: usize = 600;
    if text.chars().count() > LONGEST {
        short(text)
    } else {
        text.to_owned()
    }
}

/// Rules that lacked something: they do not say that all is well.
fn not_judged(content: &Content) -> Option<Element> {
    let blind = &content.findings.not_judged;
    if blind.is_empty() {
        return None;
    }
    let title = format!(
        "{} could not be evaluated without data",
        plural(blind.len() as u64, "rule")
    );
    let items = blind.iter().map(|blind| {
        el("li")
            .with(el("b").with(blind.title))
            .with(prose(&format!(": {}", short_enough(&blind.reason))))
    });
    Some(details(title, el("ul").with_all(items)))
}
