//! The sections of the page, each large one in a file of its own: data in, markup out.
//!
//! A section that has nothing to show is not there, and no link leads to it.

mod account;
mod data;
mod exits;
mod first;
mod timeline;
mod vms;
mod whatif;

use haltwise_document::Document;
use haltwise_document::html;

use super::content::Content;
use super::markup::{Element, Markup, el, name, prose};
use crate::explain::page;
use crate::ledger::accuracy;
use crate::number::{count, nanos};
use crate::report::view::Report;
use crate::words::plural;
use crate::{diff, prove};

use haltwise_core::recording::Side;
use haltwise_core::stats::total;

pub(crate) use data::data;

struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

/// The sections that have something to show, after the first screen, in their order.
fn sections(content: &Content) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |id, title, body: Option<Markup>| {
        sections.extend(body.map(|body| Section { id, title, body }));
    };
    let findings = html::render(&page::section(&content.findings));
    let quality = first::quality(content);
    let diff = content.diff.as_ref();
    let diff = diff.map(|it| html::render(&diff::page::document(it, MOST_DIFFERENCES, true)));
    let profile = exits::profile(content);
    add(
        "account",
        "Where halted time goes",
        account::account(content),
    );
    add("whatif", "What if", whatif::whatif(content));
    add("findings", "Findings", Some(findings));
    add("vms", "VM by VM", vms::vms(content));
    add("timeline", "Timeline", timeline::timeline(content));
    add("exits", "Exits", exits::exits(content));
    add("profile", "Where VMMs spend their time", profile);
    add("prediction", "Predicted and measured", prediction(content));
    add("diff", "Against another capture", diff);
    add("quality", "Data quality", Some(quality));
    sections
}

const MOST_DIFFERENCES: usize = 200;

/// Predictions of replay beside the measurements: a proof, and how good predictions have been.
fn prediction(content: &Content) -> Option<Markup> {
    let proof = content.proof.as_ref();
    let mut document = proof.map(|proof| prove::page::document(proof, usize::MAX));
    let ledger = content.ledger.as_ref();
    let ledger = ledger.filter(|it| it.predictions + it.inconclusive.predictions > 0);
    if let Some(summary) = ledger {
        let document = document.get_or_insert_with(Document::new);
        document.heading("The ledger");
        accuracy(document, summary);
    }
    document.map(|document| html::render(&document))
}

pub(crate) fn all(content: &Content) -> Markup {
    let sections = sections(content);
    let links = sections.iter().map(|section| {
        let link = el("a").attr("href", format!("#{}", section.id));
        el("li").with(link.with(section.title))
    });
    let links = el("ul").with_all(links);
    let skip = el("a")
        .class("skip")
        .attr("href", "#found")
        .with("Skip to findings");
    let main = el("main")
        .with(first::first(content))
        .with_all(sections.iter().map(|section| {
            let heading = el("h2")
                .attr("id", format!("{}-title", section.id))
                .with(section.title);
            el("section")
                .attr("id", section.id)
                .attr("aria-labelledby", format!("{}-title", section.id))
                .with(heading)
                .with(section.body.clone())
        }));
    let nav = el("nav").attr("aria-label", "Sections").with(links);
    let footer = el("footer").with(p(format!(
        "haltwise {}. Made from the capture alone; nothing was sent anywhere, and this file asks for \
         nothing from any network.",
        env!("CARGO_PKG_VERSION")
    )));
    Markup::none()
        .and(skip)
        .and(head(content))
        .and(nav)
        .and(main)
        .and(footer)
}

/// Contents, place and time of the recording, and whether anything is missing from it.
fn head(content: &Content) -> Element {
    let (report, recording) = (&content.report, &content.report.recording);
    let host = &report.host;
    let of = match recording.side {
        Side::Host => "Halts of virtual machines on ",
        Side::Guest => "Idle periods of the CPUs of the guest ",
    };
    let title = el("p").class("title").with(of).with(name(&host.name));
    let mut facts = Markup::none();
    if let Some(utc) = &recording.started_utc {
        facts.push(el("li").with(time(utc)));
    }
    facts.push(el("li").with(nanos(recording.duration_ns)));
    for fact in counts(report) {
        facts.push(el("li").with(fact));
    }
    facts.push(el("li").with("Linux ").with(name(&host.kernel)));
    let trust = el("li").with(trust(content));
    el("header")
        .with(title)
        .with(el("ul").class("facts").with(facts).with(trust))
}

/// VMs, vCPUs and halts that the page is about: all of the host's, or those of the VMs that were asked for.
fn counts(report: &Report) -> [String; 3] {
    let (host, vms) = (&report.host, &report.vms);
    let all = plural(host.vms as u64, "VM");
    if vms.len() == host.vms {
        let account = &host.account;
        return [
            all,
            plural(account.vcpus as u64, "vCPU"),
            plural(account.halts, "halt"),
        ];
    }
    let vcpus: usize = vms.iter().map(|vm| vm.account.vcpus).sum();
    let halts = total(vms.iter().map(|vm| vm.account.halts));
    [
        format!("{} of {all}", vms.len()),
        plural(vcpus as u64, "vCPU"),
        plural(halts, "halt"),
    ]
}

/// How it was recorded in a word, with a mark where something is missing.
fn trust(content: &Content) -> Element {
    let recording = &content.report.recording;
    let mut said = vec![format!("source {}", recording.rung)];
    if recording.lost > 0 {
        said.push(format!("{} lost", plural(recording.lost, "event")));
    }
    if recording.cut {
        said.push("cut off".to_owned());
    }
    if content.recording.damaged {
        said.push("damaged".to_owned());
    }
    let blind = content.report.vms.iter();
    let blind = blind.filter(|vm| vm.not_observable.is_some()).count();
    if blind > 0 {
        said.push(format!("{} not observable", plural(blind as u64, "VM")));
    }
    let class = if said.len() > 1 { "chip warn" } else { "chip" };
    el("a")
        .class(class)
        .attr("href", "#quality")
        .with(said.join(", "))
}

/// A point in time: UTC as it stands, and the reader's own zone by the script.
fn time(utc: &str) -> Element {
    el("time")
        .attr("datetime", utc)
        .with(format!("{utc} (UTC)"))
}

fn p(text: impl AsRef<str>) -> Element {
    el("p").with(prose(text.as_ref()))
}

fn note(text: impl AsRef<str>) -> Element {
    p(text).class("note")
}

fn details(summary: impl Into<Markup>, body: impl Into<Markup>) -> Element {
    el("details").with(el("summary").with(summary)).with(body)
}

/// Halts that are in the file: `12 of 340 k halts, in whole stretches of time`, or `all 1200 halts`.
fn sampled(content: &Content) -> Option<String> {
    let sampled = content.sampled.as_ref()?;
    let all = plural(sampled.of, "halt");
    if sampled.is_whole() {
        return Some(format!("all {all}"));
    }
    let whose = match sampled.seats_left_out {
        0 => "",
        _ => " of the vCPUs that halt most",
    };
    let some = count(sampled.halts);
    Some(format!("{some} of {all}, in stretches of time{whose}"))
}
