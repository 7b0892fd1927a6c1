//! What is said when an import has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use haltwise_capture::import::{Imported, Progress, Spinning};
use haltwise_core::recording::Missing;
use haltwise_core::units::Nanos;
use serde::Serialize;

use crate::number::counted;
use crate::terminal;

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    schema: u32,
    output: PathBuf,
    bytes_read: u64,
    lines: u64,
    events: u64,
    halts: u64,
    exits: u64,
    window_changes: u64,
    /// vCPUs that do nothing but run at one address, in words.
    spinning: Vec<String>,
    vms: usize,
    vcpus: usize,
    span_ns: u64,
    bytes_written: u64,
    skipped: BTreeMap<&'static str, u64>,
    missing: Vec<Missing>,
}

impl Summary {
    pub(super) fn of(imported: &Imported) -> Self {
        let skipped = imported.skipped.iter();
        Self {
            schema: 1,
            output: imported.directory.clone(),
            bytes_read: imported.bytes_read,
            lines: imported.lines,
            events: imported.events,
            halts: imported.halts,
            exits: imported.exits,
            spinning: imported.spinning.iter().map(spins).collect(),
            window_changes: imported.window_changes,
            vms: imported.vms,
            vcpus: imported.vcpus,
            span_ns: imported.span_ns,
            bytes_written: imported.bytes_written,
            skipped: skipped.map(|(why, n)| (why.as_str(), *n)).collect(),
            missing: imported.missing.clone(),
        }
    }

    pub(super) fn is_partial(&self) -> bool {
        self.skipped.values().any(|count| *count > 0)
    }

    pub(super) fn skipped(&self) -> Vec<String> {
        let line = |(why, count): (&&str, &u64)| format!("Skipped: {count} ({why})");
        self.skipped.iter().map(line).collect()
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        terminal::json(self)
    }

    pub(super) fn text(&self) -> String {
        let exits = match self.exits {
            0 => String::new(),
            exits => format!(" and {}", counted(exits, "exit")),
        };
        let mut spinning = self.spinning.join("\n");
        if !spinning.is_empty() {
            spinning.push('\n');
        }
        let next = if self.halts > 0 { "report" } else { "exits" };
        format!(
            "Read {}, {} of them events\n\
             Imported {}{exits} of {} over {} to {} ({:.1} MB)\n\
             {}Next: haltwise {next} {}\n",
            counted(self.lines, "line"),
            self.events,
            counted(self.halts, "halt"),
            self.who(),
            Nanos(self.span_ns),
            self.output.display(),
            self.bytes_written as f64 / 1e6,
            spinning,
            self.output.display(),
        )
    }

    fn who(&self) -> String {
        let vms = counted(self.vms as u64, "VM");
        match self.vcpus {
            0 => vms,
            vcpus => format!("{vms} and {}", counted(vcpus as u64, "vCPU")),
        }
    }
}

fn spins(spinning: &Spinning) -> String {
    let Spinning {
        vm,
        vcpu,
        entries,
        address,
    } = spinning;
    let vcpu = vcpu.map_or_else(|| "a vCPU".to_owned(), |vcpu| format!("vCPU {vcpu}"));
    format!(
        "Spins: {vcpu} of {vm}: {entries} entries at one address ({address:#x}), no HLT; look in the guest, no setting \
         of KVM helps"
    )
}

pub(super) fn so_far(now: Progress, size: Option<u64>) -> String {
    let of = size.map_or(String::new(), |size| {
        format!(" of {:.0}", size as f64 / 1e6)
    });
    format!("{:.0}{of} MB, {} halts", now.bytes as f64 / 1e6, now.halts)
}
