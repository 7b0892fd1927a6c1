//! This machine and its own idle CPUs, as all sources of `haltwise record --guest` see them: who is in the roster, which
//! ceiling is in force, which periods count.

use std::collections::BTreeMap;

use haltwise_core::decode::idle::{Period, THIS_VM};
use haltwise_core::event::{CeilingSource, Facts};
use haltwise_core::ids::{Tid, VcpuId, VmKey};
use haltwise_core::recording::Roster;

use crate::collector::Counting;
use crate::discovery::{RosterBuilder, VmLabel, printable};
use crate::root::Root;

/// This machine: the one VM of the capture, whose vCPUs are its CPUs.
#[derive(Debug)]
pub(crate) struct Machine {
    root: Root,
    roster: RosterBuilder,
    /// The governor is haltpoll, which has a ceiling.
    pub(crate) is_haltpoll: bool,
    ends: BTreeMap<u32, u64>,
    pub(crate) counting: Counting,
}

impl Machine {
    pub(crate) fn new(root: Root, cpus: &[u32]) -> Self {
        let governor = root.value("sys/devices/system/cpu/cpuidle/current_governor_ro");
        let mut machine = Self {
            root,
            roster: RosterBuilder::default(),
            is_haltpoll: governor.is_ok_and(|governor| governor == "haltpoll"),
            ends: BTreeMap::new(),
            counting: Counting::default(),
        };
        machine.enter(cpus);
        machine
    }

    /// Puts the machine into the roster; its CPUs each with its number in place of a thread's: the idle tasks of all
    /// CPUs have the thread number 0.
    fn enter(&mut self, cpus: &[u32]) {
        let name = self.root.value("proc/sys/kernel/hostname").ok();
        let name = name.and_then(|name| printable(&name));
        let name = name.unwrap_or_else(|| "guest".to_owned());
        let vm = self.roster.vm(VmKey::default(), || VmLabel::named(name));
        debug_assert_eq!(vm, THIS_VM);
        let ceiling_ns = self.ceiling_ns();
        for cpu in cpus {
            let row = self.roster.vcpu(vm, VcpuId(*cpu), Tid(*cpu));
            row.ceiling_ns = ceiling_ns;
            row.ceiling_source = match ceiling_ns {
                Some(_) => CeilingSource::Param,
                None => CeilingSource::Unknown,
            };
        }
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    pub(crate) fn roster(&self) -> &Roster {
        self.roster.roster()
    }

    /// `guest_halt_poll_ns`, which binds the governor haltpoll alone.
    pub(crate) fn ceiling_ns(&self) -> Option<u32> {
        let path = "sys/module/haltpoll/parameters/guest_halt_poll_ns";
        self.is_haltpoll.then(|| self.root.number(path).ok())?
    }

    /// Takes a period, under the ceiling in force, as the facts that it is.
    pub(crate) fn take(&mut self, period: &Period, ceiling_ns: Option<u32>, facts: &mut Facts) {
        let last = self.ends.entry(period.cpu).or_default();
        let halt = period.halt(*last, ceiling_ns);
        *last = halt.end_ns();
        if self.counting.holds(period.end_ns) {
            facts.halts.push(halt);
            facts
                .windows
                .extend(period.change.map(|call| call.row(&halt)));
        }
    }

    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.counting.began_ns = now_ns;
        self.roster.begin(now_ns);
    }
}

pub(crate) fn polls_in_state_0(root: &Root) -> bool {
    let name = root.value("sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    name.is_ok_and(|name| name == "POLL")
}
