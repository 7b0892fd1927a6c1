//! What to do about a guest that recorded itself: its setting, polling in its host instead, or nothing.

use super::super::table::{Is, Table, cell};
use super::super::{command, note, prose};
use crate::html::markup::{Element, Markup, el};
use crate::number::{nanos, nanos_f64, share, three_digits};
use crate::recommend::guest::view::{GuestFigures, GuestTuneResult};
use crate::recommend::guest::{Place, say};

pub(super) fn title(tuned: &GuestTuneResult) -> String {
    let to = tuned.recommended.as_ref();
    let what = say::what(tuned.place, &tuned.in_force, to, &tuned.host);
    what.trim_end_matches('.').to_owned()
}

pub(super) fn reason(tuned: &GuestTuneResult) -> Markup {
    prose(&tuned.reason)
}

/// The commands, what must be known beside them, and the settings that were compared.
pub(super) fn to_do(tuned: &GuestTuneResult) -> Markup {
    let mut out = Markup::none();
    for (title, commands) in commands(tuned) {
        out.push(el("h2").with(title));
        out.push(command(&commands));
    }
    for text in &tuned.notes {
        out.push(note(text));
    }
    out.and(settings(tuned))
}

fn commands(tuned: &GuestTuneResult) -> Vec<(&'static str, Vec<String>)> {
    if let Some((on_host, in_guest)) = tuned.host_commands.split_last() {
        let in_guest = (!in_guest.is_empty()).then(|| ("In the guest", in_guest.to_vec()));
        let on_host = ("Then on its host", vec![on_host.clone()]);
        return in_guest.into_iter().chain([on_host]).collect();
    }
    let Some(apply) = &tuned.apply else {
        return Vec::new();
    };
    vec![
        ("Apply it, in the guest", vec![apply.clone()]),
        ("Undo it", vec!["haltwise undo".to_owned()]),
        (
            "Or for every boot, on the guest's kernel command line",
            vec![tuned.command_line.join(" ")],
        ),
    ]
}

fn settings(tuned: &GuestTuneResult) -> Element {
    let mut table = Table::new(
        "Settings compared on the second half of the recording",
        &[
            (Is::Text, "setting"),
            (Is::Number, "polling, of a CPU"),
            (Is::Number, "exits in a second"),
            (Is::Number, "IPIs in a second"),
            (Is::Number, "mean wake-up latency"),
            (Is::Number, "99 % within"),
            (Is::Number, "cost of a halt"),
        ],
    );
    let is_set = tuned.place == Place::Guest;
    for row in &tuned.rows {
        let GuestFigures {
            poll_cpu_percent,
            exits_per_s,
            ipis_per_s,
            ..
        } = *row;
        table.row(vec![
            cell(row.row.name(is_set)),
            cell(share(poll_cpu_percent / 100.0)),
            cell(three_digits(exits_per_s)),
            cell(three_digits(ipis_per_s)),
            cell(nanos_f64(row.latency_mean_ns)),
            cell(nanos(row.latency_p99_ns)),
            cell(nanos_f64(row.cost_ns_per_halt)),
        ]);
    }
    table.finish()
}
