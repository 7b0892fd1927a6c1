//! Summary of an import that has ended.

use haltwise_capture::import::{Imported, Progress};
use haltwise_core::units::Nanos;

use crate::number::counted;

pub(super) fn skipped(imported: &Imported) -> Vec<String> {
    let skipped = imported.skipped.iter();
    let mut skipped: Vec<_> = skipped.map(|(why, count)| (why.as_str(), count)).collect();
    skipped.sort_unstable();
    let line = |(why, count)| format!("Skipped: {count} ({why})");
    skipped.into_iter().map(line).collect()
}

pub(super) fn text(imported: &Imported) -> String {
    let exits = match imported.exits {
        0 => String::new(),
        exits => format!(" and {}", counted(exits, "exit")),
    };
    let spinning = imported.spinning.iter().map(ToString::to_string);
    let spinning: String = spinning.map(|line| line + "\n").collect();
    let kernel = imported
        .missing
        .iter()
        .find(|it| it.field == "host.kernel_release");
    let kernel = kernel.map_or_else(String::new, |it| format!("note: {}\n", it.reason));
    let section = if imported.halts > 0 { "" } else { "--exits " };
    format!(
        "Read {}, {} of them events\n\
             Imported {}{exits} of {} over {} to {} ({:.1} MB)\n\
             {}{kernel}Next: haltwise report {section}{}\n",
        counted(imported.lines, "line"),
        imported.events,
        counted(imported.halts, "halt"),
        who(imported),
        Nanos(imported.span_ns),
        imported.directory.display(),
        imported.bytes_written as f64 / 1e6,
        spinning,
        imported.directory.display(),
    )
}

fn who(imported: &Imported) -> String {
    let vms = counted(imported.vms as u64, "VM");
    match imported.vcpus {
        0 => vms,
        vcpus => format!("{vms} and {}", counted(vcpus as u64, "vCPU")),
    }
}

pub(super) fn so_far(now: Progress, size: Option<u64>) -> String {
    let of = size.map_or(String::new(), |size| {
        format!(" of {:.0}", size as f64 / 1e6)
    });
    format!("{:.0}{of} MB, {} halts", now.bytes as f64 / 1e6, now.halts)
}
