//! Watching this host without keeping a capture: `top` and `metrics`.

use std::time::Duration;

use haltwise_core::exit::Recorded;
use haltwise_core::recording::{Missing, Mode, Rung};
use haltwise_host::collector::{CollectOptions, Collector};
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;
use haltwise_host::root::Root;

use super::attach::{self, explain};
use crate::exit::Failure;

#[derive(Debug)]
pub(crate) struct ToWatch {
    /// Only these VMs; empty for all.
    pub(crate) vms: Vec<VmSelector>,
    /// The source of the facts, or the best that works.
    pub(crate) rung: Option<Rung>,
    pub(crate) mode: Mode,
    /// Every halt where counts come of tracepoints: each comes to us there anyway, and counts of intervals of its own
    /// come late.
    pub(crate) each_halt_of_tracepoints: bool,
    pub(crate) interval: Duration,
    pub(crate) exits: Option<ExitOptions>,
}

pub(crate) struct Watching {
    pub(crate) collector: Box<dyn Collector>,
    pub(crate) options: CollectOptions,
    pub(crate) exits: Option<Recorded>,
    pub(crate) began_ns: u64,
    pub(crate) missing: Vec<Missing>,
}

impl ToWatch {
    pub(crate) fn begin(&self, root: &Root) -> Result<Watching, Failure> {
        attach::check_kvm(root)?;
        let exits = attach::recorded_exits(self.exits.as_ref(), self.rung, root)?;
        let mut options = CollectOptions {
            mode: self.mode,
            vms: attach::select(&self.vms, root)?,
            interval: self.interval,
            exits: self.exits.clone(),
            ..CollectOptions::default()
        };
        let rung = exits.as_ref().map_or(self.rung, |_| Some(Rung::Bpf));
        let mut collector = attach::attach(rung, &options, root)?;
        let counts_elsewhere = collector.rung() != Rung::Bpf && options.mode == Mode::Counts;
        if self.each_halt_of_tracepoints && counts_elsewhere {
            options.mode = Mode::Full;
            drop(collector);
            collector = attach::attach(Some(Rung::Tracepoints), &options, root)?;
        }
        let began_ns = collector.begin().map_err(explain)?;
        let mut missing = collector.missing();
        if collector.rung() == Rung::Bpf {
            // The walk over the vCPUs reads both.
            missing.retain(|it| it.field != "window_ns" && it.field != "ceiling_ns");
        }
        Ok(Watching {
            collector,
            options,
            exits,
            began_ns,
            missing,
        })
    }
}
