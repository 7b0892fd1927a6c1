//! The last lines of a comparison: what it rests on, what is missing, what went wrong.

use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_document::{Document, Prose, Untrusted, prose};

use crate::number::{count, nanos, three_digits, whole};
use crate::prices::words;
use crate::proof::{MeasuredBlock, Proof, ProvenSetting, figure};
use crate::words::plural;

const MOST_NOTES: usize = 5;

pub(super) fn rests(document: &mut Document, view: &Proof) {
    document.heading("Basis of these figures");
    document.term("rounds", rounds(view));
    document.term("settings", settings(view));
    document.term("cost", cost(view));
    document.term(super::machine(view), host(view));
    for (figure, why) in &view.missing {
        let figure = format!("{figure}: ");
        document.term("missing", prose![figure, Untrusted::from(why)]);
    }
    for text in troubles(view) {
        document.term("!", text);
    }
    if let Some(ledger) = &view.ledger {
        let ledger = Untrusted::from(ledger);
        let text = prose!["predictions and outcomes added to ", ledger];
        document.term("ledger", text);
    }
}

fn rounds(view: &Proof) -> String {
    let design = &view.design;
    let cut = match design.warm_up_ns {
        None => "the first tenth of each is discarded".to_owned(),
        Some(0) => "nothing is discarded".to_owned(),
        Some(ns) => format!("the first {} of each is discarded", nanos(ns)),
    };
    format!(
        "{} of 3 blocks (A, B, A again), in an order drawn from seed {}; a block is {} and {} halts \
         {} (medians), {cut}",
        plural(design.rounds, "round"),
        design.seed,
        figure::value(
            haltwise_core::prove::figure::Unit::Nanos,
            design.block_seconds * 1e9
        ),
        count(whole(design.block_halts)),
        match view.side {
            Side::Host => format!("of {}", plural(design.vms, "VM")),
            Side::Guest => "of this guest's CPUs".to_owned(),
        },
    )
}

fn settings(view: &Proof) -> Prose {
    let how = match view.means.as_str() {
        "vm-ceiling" => "the command gave each VM its ceiling",
        "in-force" => "both are the current setting; nothing was set",
        "guest-parameters" => "set in the guest, and restored",
        _ => "set through the host's parameters, and restored",
    };
    let text = format!("{how}. A: {}. B: {}", values(&view.a), values(&view.b));
    if view.host.knobs_assumed.is_empty() {
        return text.into();
    }
    let assumed = Untrusted::from(view.host.knobs_assumed.join(", "));
    prose![
        text,
        "; not readable on this host, its kernel's default assumed: ",
        assumed
    ]
}

fn values(of: &ProvenSetting) -> String {
    let word = |(it, value): (Parameter, u32)| format!("{} {}", it.short(), it.written(value));
    of.values().listed().map(word).collect::<Vec<_>>().join(" ")
}

fn cost(view: &Proof) -> String {
    let cost = &view.cost;
    let exits = cost.price.map_or_else(String::new, |price| {
        format!("; of HLT exits {}", price.words())
    });
    format!(
        "polling, {} of CPU time per sleep ({}), and 1 ns of latency counted as {} of CPU time{exits}",
        nanos(cost.switch_cpu_ns),
        words::source(cost.switch_cpu_source),
        three_digits(cost.latency_weight),
    )
}

fn host(view: &Proof) -> Prose {
    let host = &view.host;
    let [name, kernel, rung] = [&host.hostname, &host.kernel, &host.rung].map(Untrusted::from);
    prose![name, ", Linux ", kernel, ", by ", rung]
}

fn troubles(view: &Proof) -> Vec<Prose> {
    let place = |block: &MeasuredBlock| {
        format!(
            "block {} (round {}, {})",
            block.number,
            block.round,
            block.block.as_str()
        )
    };
    let mut all: Vec<Prose> = Vec::new();
    for block in &view.blocks {
        if block.lost > 0 {
            let lost = plural(block.lost, "event");
            all.push(format!("{}: {lost} lost while recording", place(block)).into());
        }
        let notes = block.notes.iter();
        all.extend(notes.map(|note| prose![place(block), ": ", Untrusted::from(note)]));
    }
    let more = all.len().saturating_sub(MOST_NOTES);
    all.truncate(MOST_NOTES);
    if more > 0 {
        all.push(format!("and {more} more: see --json").into());
    }
    all
}
