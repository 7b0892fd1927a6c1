//! The page of metrics and their labels, from their declarations.

use std::fmt::Write as _;

use haltwise_document::Figures as _;
use haltwise_document::figure::{Figure, Leaf, leaves};
use haltwise_document::openmetrics::Kind::{Counter, Gauge};
use haltwise_document::openmetrics::{Declared, Kind, declared};

use super::figures::{
    BuildNames, CostState, CostTotals, CpuTotals, ExitTotals, HaltTotals, HostState, HostTotals,
    LostTotals, MissingNames, Parameter, ScrapeState, ScrapeTotals, VmLabels, VmNames, VmState,
    WakeTotals,
};
use crate::pilot_state::metrics::{LISTED, PilotVmNames};

/// Metrics that have labels alone, and the labels that all of VMs have.
pub(super) const NAMES: &[(&str, &[Figure])] = &[
    ("haltwise_vm_*", VmLabels::FIGURES),
    ("haltwise_vm_info", VmNames::FIGURES),
    ("haltwise_pilot_vm_info", PilotVmNames::FIGURES),
    ("haltwise_build_info", BuildNames::FIGURES),
    ("haltwise_missing_info", MissingNames::FIGURES),
];

/// Labels, beginning of the names, kind, declarations.
pub(crate) type Row = (&'static str, &'static str, Kind, &'static [Figure]);

const VM: &str = "haltwise_vm";
const HOST: &str = "haltwise_host";
const OWN: &str = "haltwise_exporter";

const METRICS: [Row; 15] = [
    ("vm, uuid, pid", VM, Counter, HaltTotals::FIGURES),
    ("vm, uuid, pid", VM, Counter, CpuTotals::FIGURES),
    ("vm, uuid, pid, source", VM, Counter, WakeTotals::FIGURES),
    ("vm, uuid, pid, reason", VM, Counter, ExitTotals::FIGURES),
    ("vm, uuid, pid", VM, Gauge, VmState::FIGURES),
    ("", HOST, Counter, HaltTotals::FIGURES),
    ("source", HOST, Counter, WakeTotals::FIGURES),
    ("", HOST, Counter, HostTotals::FIGURES),
    ("", HOST, Gauge, HostState::FIGURES),
    ("parameter", "haltwise_kvm", Gauge, Parameter::FIGURES),
    ("place", "haltwise", Counter, LostTotals::FIGURES),
    ("", OWN, Counter, CostTotals::FIGURES),
    ("", OWN, Gauge, CostState::FIGURES),
    ("", OWN, Counter, ScrapeTotals::FIGURES),
    ("", OWN, Gauge, ScrapeState::FIGURES),
];

/// All metrics with their labels, those of the pilot last.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Declared)> {
    let rows = METRICS.into_iter().chain(LISTED);
    rows.flat_map(|(labels, prefix, kind, figures)| {
        let metrics = leaves(figures).into_iter();
        metrics.filter_map(move |leaf| Some((labels, declared(kind, prefix, &leaf)?)))
    })
}

pub(crate) fn page() -> String {
    let mut page = "# List of metrics\n\n[Metrics](metrics.md) says how they are served.\n\n\
                    | metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        .to_owned();
    // Writing to a String cannot fail.
    for (labels, metric) in all() {
        let (name, kind, help) = (metric.sample(), metric.kind.as_str(), metric.help);
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
    }
    page += "\n| metric | label | meaning |\n| --- | --- | --- |\n";
    for (metric, figures) in NAMES {
        for Leaf { figure, .. } in leaves(figures) {
            let _ = writeln!(
                page,
                "| `{metric}` | `{}` | {} |",
                figure.name,
                figure.meaning()
            );
        }
    }
    page
}
