//! Activity of each vCPU, moment by moment: lanes over the whole recording, which the script zooms down to
//! single halts where they are in the file.

use haltwise_core::replay::VcpuKey;

use super::{note, p, plural, sampled};
use crate::html::chart::bars;
use crate::html::chart::lanes::{CLASSES, lane};
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, short};
use crate::html::overview::{STATES, VcpuLane};
use crate::number::nanos;

/// Lanes that are drawn without script.
const STILL: usize = 16;

/// The section. `None` without single halts.
pub(super) fn timeline(content: &Content) -> Option<Markup> {
    let overview = &content.overview;
    if overview.rows.is_empty() {
        return None;
    }
    let text = format!(
        "The whole recording, {}, from left to right; each lane is a vCPU, and the height of a colour is \
         its share of that moment.",
        nanos(overview.span_ns)
    );
    let singles = sampled(content).map(|halts| {
        format!("Zoomed in, single halts are seen where they are in this file: {halts}.")
    });
    let legend = bars::legend(CLASSES.into_iter().zip(STATES));
    let lanes = overview.rows.iter().take(STILL).map(|row| {
        let label = label(content, row);
        let title = el("span").class("lane-name").with(label.clone());
        let said = format!(
            "{}: what it did over the recording",
            seat_name(content, &row.seat)
        );
        el("li")
            .with(title)
            .with(lane(row, overview.span_ns, &said))
    });
    let mut out = Markup::none()
        .and(p(text))
        .and(singles.map(|text| p(text).class("needs-script")))
        .and(legend)
        .and(el("div").attr("id", "zoom").flag("hidden"))
        .and(el("ul").class("lanes").attr("id", "lanes").with_all(lanes));
    let more = overview.rows.len().saturating_sub(STILL);
    if more > 0 {
        let text = format!(
            "{} more with the page's script.",
            plural(more as u64, "vCPU")
        );
        out.push(p(text).class("note still-only"));
    }
    if overview.left_out > 0 {
        let text = format!(
            "{} that halt least are left out.",
            plural(overview.left_out as u64, "vCPU")
        );
        out.push(note(text));
    }
    let beside = "Wake-up latency is all of the time from the wake event until the vCPU ran: a capture \
                  does not contain how much of it the vCPU was runnable and waited for a CPU. What a \
                  vCPU did before its first and after its last halt is unknown.";
    Some(out.and(note(beside)))
}

/// The name of a vCPU's VM, where that is known, and what follows it.
fn named<'a>(content: &'a Content, seat: &VcpuKey) -> (Option<&'a str>, String) {
    let mut vms = content.recording.info.roster.vms.iter();
    let vm = vms.find(|vm| Some(vm.index) == seat.vm);
    match (vm, seat.vcpu, seat.tid) {
        (Some(vm), Some(vcpu), _) => (Some(&vm.name), format!(" vCPU {vcpu}")),
        (_, _, Some(tid)) => (None, format!("thread {tid}")),
        _ => (None, "not known".to_owned()),
    }
}

fn label(content: &Content, row: &VcpuLane) -> Markup {
    let (vm, rest) = named(content, &row.seat);
    Markup::from(vm.map(name)).and(rest)
}

pub(super) fn seat_name(content: &Content, seat: &VcpuKey) -> String {
    let (vm, rest) = named(content, seat);
    vm.map(short).unwrap_or_default() + &rest
}
