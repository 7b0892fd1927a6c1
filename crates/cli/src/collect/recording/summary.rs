//! Summary of a recording that has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use haltwise_capture::files::directory::DirectoryId;
use haltwise_core::recording::{MOST_WAITING_BYTES, Overhead, Rung};
use haltwise_core::units::Nanos;
use serde::Serialize;

use super::RecordingRequest;
use super::ring::RingSummary;
use super::session::Session;
use crate::exit::Failure;
use crate::number::{counted, whole};
use crate::terminal;

impl Session {
    pub(crate) fn greeting(&self, wanted: &RecordingRequest) -> String {
        let end = match (wanted.duration, wanted.command.is_empty()) {
            (Some(duration), _) => format!("For {:.1} s, or until Ctrl-C", duration.as_secs_f64()),
            (None, true) => "Ctrl-C to end".to_owned(),
            (None, false) => "Until the command ends".to_owned(),
        };
        format!(
            "Recording halts of {} ({}) and of those to come, by {}. {end}.",
            counted(self.roster.vms.len() as u64, "VM"),
            counted(self.roster.vcpus.len() as u64, "vCPU"),
            self.collector.rung(),
        )
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) output: PathBuf,
    #[serde(skip)]
    pub(crate) id: DirectoryId,
    pub(crate) ended_by: String,
    pub(crate) rung: Rung,
    pub(crate) seconds: f64,
    pub(crate) vms: usize,
    pub(crate) vcpus: usize,
    pub(crate) halts: u64,
    /// Exits counted; null if they were not asked for.
    pub(crate) exits: Option<u64>,
    /// Samples kept; null if they were not asked for.
    pub(crate) samples: Option<u64>,
    /// Cost of a sample in the kernel, in ns; null where the cost was not accounted.
    pub(crate) ns_per_sample: Option<f64>,
    pub(crate) bytes: u64,
    pub(crate) lost: BTreeMap<String, u64>,
    pub(crate) overhead: Overhead,
    /// Kept and dropped parts of a ring; absent without a ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ring: Option<RingSummary>,
    /// Why the capture has no Parquet tables, and is read from its streams.
    #[serde(skip)]
    pub(crate) unfinished: Option<Failure>,
}

impl Summary {
    pub(crate) fn is_partial(&self) -> bool {
        self.unfinished.is_some() || self.lost.values().any(|count| *count > 0)
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(self)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("schema".to_owned(), 1.into());
        }
        terminal::json(&value)
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.what()];
        lines.extend(self.exits.map(|exits| format!("Counted {exits} exits")));
        lines.extend(
            self.samples
                .map(|samples| format!("Kept {samples} samples")),
        );
        lines.push(self.cost());
        lines.extend(self.ring.map(|ring| ring.text()));
        lines.extend(
            self.lost
                .iter()
                .map(|(place, count)| format!("Lost: {count} events ({place})")),
        );
        lines.push(if self.halts == 0 {
            "No halt was seen; `haltwise status --check` lists possible reasons".to_owned()
        } else {
            format!("Next: haltwise report {}", self.output.display())
        });
        if self.exits.is_some() {
            lines.push(format!(
                "Next: haltwise report --exits {}",
                self.output.display()
            ));
        }
        if self.samples.is_some() {
            lines.push(format!(
                "Next: haltwise report --profile {}",
                self.output.display()
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn what(&self) -> String {
        let per_halt = match self.halts {
            0 => String::new(),
            halts => format!(", {:.1} bytes per halt", self.bytes as f64 / halts as f64),
        };
        format!(
            "Recorded {} of {} and {} in {:.1} s to {} ({:.1} MB{per_halt})",
            counted(self.halts, "halt"),
            counted(self.vms as u64, "VM"),
            counted(self.vcpus as u64, "vCPU"),
            self.seconds,
            self.output.display(),
            self.bytes as f64 / 1e6,
        )
    }

    fn cost(&self) -> String {
        let recorder = self.overhead.recorder_cpu_ns as f64 / 1e7 / self.seconds.max(1e-9);
        // Where KVM virtualises in software it tells no exits.
        let exit = match self.exits {
            Some(0) => "emulated instruction",
            _ => "exit",
        };
        let each = [
            (self.overhead.added_ns_per_halt, "halt"),
            (self.overhead.added_ns_per_exit, exit),
        ];
        let each = each
            .into_iter()
            .filter_map(|(added, what)| Some(format!("{} per {what}", Nanos(whole(added?)))));
        let programs = match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            each => format!("; BPF programs {each}"),
        };
        let sampling = match self.ns_per_sample {
            Some(each) => format!("; {} per sample", Nanos(whole(each))),
            None => String::new(),
        };
        let waiting = match self.overhead.most_waiting_bytes {
            Some(bytes) if bytes >= 1 << 20 => {
                let [most, of] = [bytes, MOST_WAITING_BYTES].map(|bytes| bytes >> 20);
                format!("; at most {most} of {of} MiB of records waiting")
            }
            _ => String::new(),
        };
        format!(
            "Cost: recorder {recorder:.1} % of a CPU, {:.0} MB{programs}{sampling}{waiting}",
            self.overhead.recorder_rss_bytes as f64 / 1e6,
        )
    }
}
