//! cpuidle's own counts of this machine's CPUs, read once an interval (`haltwise record --guest --mode stats`).
//!
//! Nothing of ours runs when a CPU is idle, and it takes no rights: any user may read the files. cpuidle counts entries
//! into each state and the time there. It counts neither idle periods nor what ended them, and keeps no histograms, so
//! that rows have sums alone.

use std::collections::BTreeMap;
use std::time::Duration;

use haltwise_core::decode::idle::{Period, THIS_VM};
use haltwise_core::event::{CeilingSource, Facts, HaltCounts, IdleState, WakeSource};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmKey};
use haltwise_core::recording::{Missing, Roster, Rung};

use crate::clock;
use crate::collector::{CollectError, Collector, Counting};
use crate::discovery::{RosterBuilder, VmLabel, printable};
use crate::root::{Root, RootError};
use crate::usage::{POLL, cpus_with_cpuidle, states_of_cpu};

#[derive(Debug)]
pub struct CpuidleCollector {
    machine: Machine,
    cpus: Vec<u32>,
    interval_ns: u64,
    before: BTreeMap<u32, Counters>,
    last_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counters {
    polls: u64,
    poll_ns: u64,
    halts: u64,
    halt_ns: u64,
}

impl CpuidleCollector {
    pub fn start(interval: Duration, root: Root) -> Result<Self, CollectError> {
        let cpus = cpus_with_cpuidle(&root).map_err(explain)?;
        let mut collector = Self {
            machine: Machine::new(root, &cpus),
            cpus,
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
            before: BTreeMap::new(),
            last_ns: clock::monotonic_ns(),
        };
        collector.before = collector.read()?;
        Ok(collector)
    }

    fn read(&self) -> Result<BTreeMap<u32, Counters>, CollectError> {
        let mut all = BTreeMap::new();
        for &cpu in &self.cpus {
            match states_of_cpu(self.machine.root(), cpu) {
                Ok(states) => {
                    all.insert(cpu, Counters::of(&states));
                }
                // It went offline, and takes its counters with it.
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(explain(error)),
            }
        }
        Ok(all)
    }

    fn take_rows(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        let read = self.read()?;
        let now_ns = clock::monotonic_ns();
        let interval_ns = now_ns.saturating_sub(self.last_ns);
        for (&cpu, counters) in &read {
            let before = self.before.get(&cpu).copied().unwrap_or_default();
            let row = counters.since(before).row(self.machine.is_haltpoll);
            if row.halts > 0 {
                facts.counts.push(HaltCounts {
                    time_ns: now_ns,
                    interval_ns,
                    vm: Some(THIS_VM),
                    vcpu: Some(VcpuId(cpu)),
                    tid: Tid(cpu),
                    ..row
                });
            }
        }
        self.before = read;
        self.last_ns = now_ns;
        Ok(now_ns)
    }
}

impl Counters {
    fn of(states: &[IdleState]) -> Self {
        let mut counters = Self::default();
        for state in states {
            let (entries, ns) = if state.name == POLL {
                (&mut counters.polls, &mut counters.poll_ns)
            } else {
                (&mut counters.halts, &mut counters.halt_ns)
            };
            *entries = entries.saturating_add(state.entries);
            *ns = ns.saturating_add(state.residency_ns);
        }
        counters
    }

    /// Counts since `before`. All counts where a counter has shrunk: the CPU was offline meanwhile.
    fn since(self, before: Self) -> Self {
        let grown = || {
            Some(Self {
                polls: self.polls.checked_sub(before.polls)?,
                poll_ns: self.poll_ns.checked_sub(before.poll_ns)?,
                halts: self.halts.checked_sub(before.halts)?,
                halt_ns: self.halt_ns.checked_sub(before.halt_ns)?,
            })
        };
        grown().unwrap_or(self)
    }

    /// As counts of idle periods. The governor haltpoll halts after each poll that ends by its limit, and polls before each
    /// halt unless its limit is 0: of polls and halts, the fewer are a part of the others' periods. Other governors choose
    /// anew: each entry counts as a period. The time of all polls is divided between those that failed and those that did not by
    /// their numbers: at one limit the failed ones take longer, so that theirs is the least that they took.
    fn row(self, is_haltpoll: bool) -> HaltCounts {
        let (periods, failed) = if is_haltpoll {
            (self.polls.max(self.halts), self.polls.min(self.halts))
        } else {
            (self.polls.saturating_add(self.halts), 0)
        };
        let share = u128::from(self.poll_ns) * u128::from(failed);
        let fail_ns = share.checked_div(u128::from(self.polls)).unwrap_or(0);
        let fail_ns = u64::try_from(fail_ns).unwrap_or(self.poll_ns);
        let mut wakes = [0; 5];
        wakes[usize::from(WakeSource::Unknown.code())] = periods;
        HaltCounts {
            halts: periods,
            waited: self.halts,
            poll_known: Some(periods),
            polled: Some(self.polls),
            successful_polls: Some(self.polls - failed),
            wakes,
            halt_ns: sum_alone(self.poll_ns.saturating_add(self.halt_ns)),
            poll_success_ns: sum_alone(self.poll_ns - fail_ns),
            poll_fail_ns: sum_alone(fail_ns),
            ..HaltCounts::default()
        }
    }
}

/// Times whose distribution is not known: their sum, and no counts.
fn sum_alone(ns: u64) -> LogHist {
    LogHist::from_parts(Vec::new(), ns, 0).unwrap_or_default()
}

fn explain(error: RootError) -> CollectError {
    if error.is_absent() {
        return CollectError::unsupported(format!("read cpuidle's counters: {error}"));
    }
    CollectError::unread(error)
}

impl Collector for CpuidleCollector {
    fn rung(&self) -> Rung {
        Rung::Cpuidle
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        if clock::monotonic_ns().saturating_sub(self.last_ns) >= self.interval_ns {
            self.take_rows(facts)?;
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), CollectError> {
        std::thread::sleep(at_most);
        Ok(())
    }

    fn begin(&mut self) -> Result<u64, CollectError> {
        self.before = self.read()?;
        self.last_ns = clock::monotonic_ns();
        self.machine.begin(self.last_ns);
        Ok(self.last_ns)
    }

    fn end(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        if let Some(ended_ns) = self.machine.counting.ended_ns {
            return Ok(ended_ns);
        }
        let ended_ns = self.take_rows(facts)?;
        self.machine.counting.ended_ns = Some(ended_ns);
        Ok(ended_ns)
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        self.end(facts).map(drop)
    }

    fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        let periods = if self.machine.is_haltpoll {
            "cpuidle counts entries into states: of polls and halts of an interval the more numerous are taken for its idle \
             periods, the least that there were"
        } else {
            "cpuidle counts entries into states: each is taken for an idle period, also a halt after a poll"
        };
        let all = [
            ("halts", periods),
            (
                "halt_ns, gap_ns",
                "cpuidle keeps sums of times and no histograms",
            ),
            (
                "poll_fail_ns",
                "cpuidle sums up all polls: their time is divided between failed and successful ones by their numbers, so \
                 that the failed ones took at least that",
            ),
            (
                "wake, wake_latency_ns, window_ns",
                "cpuidle does not count what ended idle periods, and does not report limits",
            ),
        ];
        all.map(|(field, reason)| Missing::new(field, reason))
            .into()
    }
}

/// This machine: the one VM of the capture, whose vCPUs are its CPUs.
#[derive(Debug)]
pub(crate) struct Machine {
    root: Root,
    roster: RosterBuilder,
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

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;
    use crate::root::made_up;

    fn counters(polls: u64, poll_ns: u64, halts: u64, halt_ns: u64) -> Counters {
        Counters {
            polls,
            poll_ns,
            halts,
            halt_ns,
        }
    }

    #[test]
    fn under_haltpoll_the_fewer_are_part_of_the_others_periods() {
        // Ten polls, of which four ended by their limit.
        let row = counters(10, 1_000, 4, 8_000).row(true);
        assert_eq!((row.halts, row.waited), (10, 4));
        assert_eq!((row.polled, row.successful_polls), (Some(10), Some(6)));
        assert_eq!(
            (row.poll_fail_ns.sum(), row.poll_success_ns.sum()),
            (400, 600)
        );
        assert_eq!((row.halt_ns.sum(), row.halt_ns.count()), (9_000, 0));
        // Without a limit it halts at once.
        let row = counters(0, 0, 4, 8_000).row(true);
        assert_eq!((row.halts, row.waited, row.polled), (4, 4, Some(0)));
        let row = counters(10, 1_000, 4, 8_000).row(false);
        assert_eq!((row.halts, row.successful_polls), (14, Some(10)));
        assert_eq!(row.poll_fail_ns.sum(), 0);
    }

    proptest! {
        /// No part exceeds its whole, and no time is lost.
        #[test]
        fn rows_are_lawful(numbers in any::<[u32; 4]>(), haltpoll in any::<bool>()) {
            let [polls, poll_ns, halts, halt_ns] = numbers.map(u64::from);
            // Without an entry there is no time.
            let read = counters(polls, if polls > 0 { poll_ns } else { 0 }, halts, halt_ns);
            let row = read.row(haltpoll);
            prop_assert!(row.waited <= row.halts);
            prop_assert!(row.polls() <= row.halts && row.polls_met() <= row.polls());
            prop_assert_eq!(row.poll_fail_ns.sum() + row.poll_success_ns.sum(), read.poll_ns);
            prop_assert_eq!(row.halt_ns.sum(), read.poll_ns + read.halt_ns);
        }
    }

    #[test]
    fn a_recording_has_what_the_counters_grew_by() {
        let cpuidle = "sys/devices/system/cpu/cpu0/cpuidle";
        let (dir, root) = made_up(&[
            (
                "sys/devices/system/cpu/cpuidle/current_governor_ro",
                "haltpoll\n",
            ),
            ("proc/sys/kernel/hostname", "web\n"),
            (&format!("{cpuidle}/state0/name"), "POLL\n"),
            (&format!("{cpuidle}/state0/usage"), "100\n"),
            (&format!("{cpuidle}/state0/time"), "5000\n"),
            (&format!("{cpuidle}/state1/name"), "haltpoll idle\n"),
            (&format!("{cpuidle}/state1/usage"), "50\n"),
            (&format!("{cpuidle}/state1/time"), "90000\n"),
        ]);
        let mut collector = CpuidleCollector::start(Duration::from_secs(1), root).unwrap();
        assert_eq!(collector.roster().vms[0].name, "web");
        collector.begin().unwrap();
        let set = |file: &str, text: &str| {
            std::fs::write(dir.path().join(cpuidle).join(file), text).unwrap();
        };
        set("state0/usage", "103\n");
        set("state0/time", "5030\n");
        set("state1/usage", "51\n");
        set("state1/time", "90100\n");
        let mut facts = Facts::default();
        let ended_ns = collector.end(&mut facts).unwrap();
        collector.stop(&mut facts).unwrap();
        let [row] = &facts.counts[..] else {
            panic!("{:?}", facts.counts)
        };
        assert_eq!((row.time_ns, row.vcpu), (ended_ns, Some(VcpuId(0))));
        assert_eq!((row.halts, row.waited, row.polled), (3, 1, Some(3)));
        assert_eq!(row.halt_ns.sum(), 130_000);
        assert_eq!(row.poll_fail_ns.sum(), 10_000);
    }

    #[test]
    fn a_machine_without_cpuidle_is_refused() {
        let (_dir, root) = made_up(&[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        let error = CpuidleCollector::start(Duration::from_secs(1), root).unwrap_err();
        assert!(matches!(error, CollectError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("cpu0/cpuidle"), "{error}");
    }
}
