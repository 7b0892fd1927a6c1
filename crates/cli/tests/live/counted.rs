//! Counts of the lab and of KVM for a recording's VMs, beside the recorded data.

use haltwise_capture::capture::Capture;
use haltwise_core::event::{Halt, HaltCounts};
use serde_json::Value;

pub(crate) struct Recorded {
    pub(crate) capture: Capture,
    pub(crate) lab: Value,
}

/// One vCPU as the lab and KVM's stats fd counted it.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) vm: String,
    pub(crate) id: u32,
    pub(crate) tid: u32,
    pub(crate) hlts: u64,
    pub(crate) halt_exits: u64,
    pub(crate) waits: u64,
    pub(crate) attempted: u64,
    pub(crate) successful: u64,
    pub(crate) success_ns: u64,
    pub(crate) fail_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) involuntary: u64,
}

/// All vCPUs of all VMs, as the lab tells of them.
pub(crate) fn counted(lab: &Value) -> Vec<Counted> {
    let mut all = Vec::new();
    for vm in lab["vms"].as_array().unwrap() {
        for vcpu in vm["vcpus"].as_array().unwrap() {
            let stat = |name: &str| vcpu["stats"][name].as_u64().unwrap();
            let number = |name: &str| vcpu[name].as_u64().unwrap();
            let waits = vcpu["hist"]["halt_wait_hist"].as_array().unwrap();
            all.push(Counted {
                vm: vm["name"].as_str().unwrap().to_owned(),
                id: u32::try_from(number("id")).unwrap(),
                tid: u32::try_from(number("tid")).unwrap(),
                hlts: number("halts"),
                halt_exits: stat("halt_exits"),
                waits: waits.iter().map(|count| count.as_u64().unwrap()).sum(),
                attempted: stat("halt_attempted_poll"),
                successful: stat("halt_successful_poll"),
                success_ns: stat("halt_poll_success_ns"),
                fail_ns: stat("halt_poll_fail_ns"),
                wait_ns: stat("halt_wait_ns"),
                involuntary: number("involuntary_switches"),
            });
        }
    }
    all
}

impl Recorded {
    pub(crate) fn counted(&self) -> Vec<Counted> {
        counted(&self.lab)
    }

    /// Every halt of one thread, in order.
    pub(crate) fn halts_of(&self, tid: u32) -> Vec<Halt> {
        let rows = self.capture.halts().unwrap().map(Result::unwrap);
        rows.filter(|halt| halt.tid.0 == tid).collect()
    }

    /// Every row of counts mode of one thread.
    pub(crate) fn counts_of(&self, tid: u32) -> Vec<HaltCounts> {
        let rows = self.capture.halt_counts().unwrap().map(Result::unwrap);
        rows.filter(|row| row.tid.0 == tid).collect()
    }

    /// Events that the recording says were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.capture.info().lost.values().sum()
    }
}
