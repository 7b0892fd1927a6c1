//! Activity of each vCPU, moment by moment: lanes over the whole recording, which the script zooms down to
//! single halts where they are in the file.

use haltwise_core::replay::VcpuKey;

use super::{note, p, plural, sampled};
use crate::html::chart::{Path, bars};
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, short};
use crate::html::overview::{STATES, STEPS, VcpuLane};
use crate::number::nanos;

/// Lanes that are drawn without script.
const STILL: usize = 16;

const CLASSES: [&str; STATES.len()] = [
    "s-guest",
    "s-poll-woken",
    "s-poll-vain",
    "s-sleep",
    "s-wake",
    "s-turned",
    "s-unknown",
];

/// Height of a lane in its own units.
const FULL: u32 = 255;

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
        let (vm, rest) = named(content, &row.seat);
        let label = Markup::from(vm.map(name)).and(rest);
        let title = el("span").class("lane-name").with(label);
        let whose = seat_name(content, &row.seat);
        let said = format!("{whose}: what it did over the recording");
        let lane = lane(row, overview.span_ns, &said);
        el("li").with(title).with(lane)
    });
    let mut out = Markup::none()
        .and(p(text))
        .and(singles.map(|text| p(text).class("needs-script")))
        .and(legend)
        .and(el("div").attr("id", "zoom").flag("hidden"))
        .and(el("ul").class("lanes").attr("id", "lanes").with_all(lanes));
    let more = overview.rows.len().saturating_sub(STILL);
    if more > 0 {
        let more = plural(more as u64, "vCPU");
        let text = format!("{more} more with the page's script.");
        out.push(p(text).class("note still-only"));
    }
    if overview.left_out > 0 {
        let left_out = plural(overview.left_out as u64, "vCPU");
        out.push(note(format!("{left_out} that halt least are left out.")));
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

pub(super) fn seat_name(content: &Content, seat: &VcpuKey) -> String {
    let (vm, rest) = named(content, seat);
    vm.map(short).unwrap_or_default() + &rest
}

/// Activity of a vCPU over the whole recording, as a lane of stacked shares.
fn lane(row: &VcpuLane, span_ns: u64, label: &str) -> Markup {
    let shares = row.shares(span_ns);
    let mut svg = el("svg")
        .class("lane")
        .attr("viewBox", format!("0 0 {STEPS} {FULL}"))
        .attr("preserveAspectRatio", "none")
        .attr("role", "img")
        .attr("aria-label", label);
    for (state, class) in CLASSES.into_iter().enumerate() {
        let drawn = shares.iter().map(|shares| {
            let below: u32 = shares[..state].iter().map(|&n| u32::from(n)).sum();
            let below = below.min(FULL);
            (below, u32::from(shares[state]).min(FULL - below))
        });
        let drawn: Vec<(u32, u32)> = drawn.collect();
        let (mut path, mut from) = (Path::default(), 0);
        // Steps that look alike are one piece.
        for piece in drawn.chunk_by(|a, b| a == b) {
            let to = from + piece.len();
            let (below, height) = piece[0];
            if height > 0 {
                let (top, bottom) = (FULL - below - height, FULL - below);
                path.area((from as f64, top.into()), (to as f64, bottom.into()));
            }
            from = to;
        }
        svg = svg.with(path.drawn(class));
    }
    svg.into()
}
