//! Activity of a vCPU over the whole recording, as a lane of stacked shares.

use super::Path;
use crate::html::markup::{Markup, el};
use crate::html::overview::{STATES, STEPS, VcpuLane};

pub(crate) const CLASSES: [&str; STATES.len()] = [
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

pub(crate) fn lane(row: &VcpuLane, span_ns: u64, label: &str) -> Markup {
    let shares = row.shares(span_ns);
    let mut svg = el("svg")
        .class("lane")
        .attr("viewBox", format!("0 0 {STEPS} {FULL}"))
        .attr("preserveAspectRatio", "none")
        .attr("role", "img")
        .attr("aria-label", label);
    for (state, class) in CLASSES.iter().enumerate() {
        let mut path = Path::default();
        let mut open: Option<(usize, u32, u32)> = None;
        for step in 0..=STEPS {
            let now = shares.get(step).map(|shares| {
                let below: u32 = shares[..state].iter().map(|&n| u32::from(n)).sum();
                (
                    below.min(FULL),
                    u32::from(shares[state]).min(FULL - below.min(FULL)),
                )
            });
            // Steps that look alike are one piece.
            if let Some((from, below, height)) = open
                && now != Some((below, height))
            {
                if height > 0 {
                    let top = f64::from(FULL - below - height);
                    let bottom = f64::from(FULL - below);
                    path.area((from as f64, top), (step as f64, bottom));
                }
                open = None;
            }
            if open.is_none() {
                open = now.map(|(below, height)| (step, below, height));
            }
        }
        if !path.is_empty() {
            svg = svg.with(path.drawn(class));
        }
    }
    svg.into()
}
