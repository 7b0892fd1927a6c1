//! The pilot's reports on itself, as metrics: the same figures as in its status.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use haltwise_core::pilot::standing::{PilotVm, VmState};
use haltwise_core::stats::Interval;
use haltwise_document::Figures as _;
use haltwise_document::figures;
use haltwise_document::openmetrics::{Kind, Labels, Metrics};
use haltwise_host::clock;

use crate::exporter::figures::{Row, VmLabels};
use crate::exporter::serving::Exposition;

use super::{DECISIONS, PilotStatus};

const PILOT: &str = "haltwise_pilot";
const VM: &str = "haltwise_pilot_vm";
const GUARD: &str = "haltwise_pilot_guard";

figures! {
    /// Properties of a VM that may change while its series go on.
    pub(crate) struct PilotVmNames {
        #[serde(flatten)]
        labels: VmLabels = Flat(VmLabels::FIGURES),
        /// The process of its VMM.
        vmm_pid: String = Word,
        /// Its goal; `excluded` where the pilot leaves it alone.
        goal: String = Name,
    }

    pub(crate) struct VmNow {
        /// The ceiling in force.
        ceiling_ns: Option<u32> = Nanos,
        /// The ceiling that the pilot found.
        found_ns: Option<u32> = Nanos,
        /// Where it observes: the ceiling that it would set.
        would_set_ns: Option<u32> = Nanos,
        /// Change of the cost of a halt as predicted before it was tried.
        predicted_share: Option<f64> = Share,
        /// Lower end of the interval of the predicted change.
        predicted_low_share: Option<f64> = Share,
        /// Upper end of the interval of the predicted change.
        predicted_high_share: Option<f64> = Share,
        /// Change of the cost of a halt as measured in on and off periods.
        measured_share: Option<f64> = Share,
        /// Lower end of the interval of the measured change.
        measured_low_share: Option<f64> = Share,
        /// Upper end of the interval of the measured change.
        measured_high_share: Option<f64> = Share,
        /// CPU time (with latency by the goal) saved since the pilot first looked at the VM, or its goal changed, by replay: of the setting found where it acts or what it set is in force, else of the one that it would set.
        saved_ns: Option<f64> = MeanNanos,
        /// Lower end of the interval of what was saved.
        saved_low_ns: Option<f64> = MeanNanos,
        /// Upper end of the interval of what was saved.
        saved_high_ns: Option<f64> = MeanNanos,
        /// Cost since the pilot first looked at the VM, or its goal changed, against that of the setting found, by replay; above 0 is worse.
        regret_share: Option<f64> = Share,
        /// For how long it has been in its state.
        state_age_ns: Option<u64> = Nanos,
    }

    /// The last decision about a VM, of the kind in the label `kind`.
    pub(crate) struct DecisionNow {
        /// How long ago the last decision about the VM was, periods of trials apart; the label has its kind.
        decision_age_ns: Option<u64> = Nanos,
    }

    /// The state of a VM, in the label `state`.
    pub(crate) struct StateNow {
        /// 1 for the state that the VM is in.
        state: u64 = Number,
    }

    /// Decisions of one kind, in the label `kind`.
    pub(crate) struct KindTotals {
        /// Decisions: `would_set`, `tried`, `kept`, `went_back`, `restored`, `hands_off`, `failed`.
        decisions: u64 = Count,
    }

    /// A guard, in the label `guard`.
    pub(crate) struct GuardNow {
        /// Whether it keeps the pilot from acting.
        holds: bool = Flag,
        /// Value that it looks at, in its own unit.
        value: Option<f64> = Real,
        /// From which value on it holds.
        limit: Option<f64> = Real,
    }

    /// The pilot, counted since it started.
    pub(crate) struct PilotTotals {
        /// Trials that measured a prediction.
        trials: u64 = Count,
        /// Readings that could not be true, and were dropped.
        dropped_readings: u64 = Count,
        /// Events lost.
        lost_events: u64 = Count,
        /// CPU time of this process.
        cpu_ns: u64 = Nanos,
        /// CPU time of its BPF programs, where the kernel accounts it (`kernel.bpf_stats_enabled`).
        bpf_cpu_ns: Option<u64> = Nanos,
    }

    pub(crate) struct PilotNow {
        /// Whether it may change settings, and does not only observe.
        may_act: bool = Flag,
        /// Proofs on this host that measured a prediction before the start, as the ledger has them.
        proofs: Option<u64> = Count,
        /// Halts that it holds in memory.
        held_halts: u64 = Count,
        /// Resident memory of this process.
        resident_bytes: Option<u64> = Bytes,
        /// Age of this state: it is renewed every 10 s.
        age_ns: u64 = Nanos,
        /// Half of its predictions were off by at most so much of a halt's cost.
        error_p50_share: Option<f64> = Share,
        /// Nine in ten were.
        error_p90_share: Option<f64> = Share,
    }
}

/// Metrics, as `haltwise pages` lists them.
pub(crate) const LISTED: [Row; 7] = [
    ("vm, uuid, pid", VM, Kind::Gauge, VmNow::FIGURES),
    ("vm, uuid, pid, state", VM, Kind::Gauge, StateNow::FIGURES),
    ("vm, uuid, pid, kind", VM, Kind::Gauge, DecisionNow::FIGURES),
    ("kind", PILOT, Kind::Counter, KindTotals::FIGURES),
    ("guard", GUARD, Kind::Gauge, GuardNow::FIGURES),
    ("", PILOT, Kind::Counter, PilotTotals::FIGURES),
    ("", PILOT, Kind::Gauge, PilotNow::FIGURES),
];

/// The state that is shown, and when it was that.
pub(crate) type Latest = Mutex<Option<(PilotStatus, u64)>>;

/// Shows the latest state, with room for so many series of VMs.
pub(crate) fn exposition(most_series: usize, latest: Arc<Latest>) -> Exposition {
    Exposition::new(most_series, move |metrics| {
        let latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((status, at_ns)) = &*latest {
            let age_ns = clock::monotonic_ns().saturating_sub(*at_ns);
            add(metrics, status, age_ns);
        }
    })
}

/// Adds all of it, of so long ago.
fn add(metrics: &mut Metrics, status: &PilotStatus, age_ns: u64) {
    let none = Labels::none();
    let totals = PilotTotals {
        trials: status.errors.trials as u64,
        dropped_readings: status.own.readings_dropped,
        lost_events: status.own.lost,
        cpu_ns: status.own.process_cpu_ns,
        bpf_cpu_ns: status.own.kernel_cpu_ns,
    };
    metrics.add(Kind::Counter, PILOT, &none, &totals);
    let now = PilotNow {
        may_act: status.mode == "act",
        proofs: status.errors.proofs.map(|it| it as u64),
        held_halts: status.own.halts_held,
        resident_bytes: status.own.memory_bytes,
        age_ns,
        error_p50_share: status.errors.p50,
        error_p90_share: status.errors.p90,
    };
    metrics.add(Kind::Gauge, PILOT, &none, &now);
    let decided = serde_json::to_value(status.decisions).unwrap_or_default();
    for kind in DECISIONS {
        let labels = none.and("kind", kind.name);
        let decisions = decided[kind.name].as_u64().unwrap_or(0);
        metrics.add(Kind::Counter, PILOT, &labels, &KindTotals { decisions });
    }
    for guard in &status.guards {
        let labels = none.and("guard", guard.guard.as_str());
        let now = GuardNow {
            holds: guard.holds,
            value: guard.value,
            limit: guard.limit,
        };
        metrics.add(Kind::Gauge, GUARD, &labels, &now);
    }
    let mut known = BTreeSet::new();
    for vm in &status.vms {
        let pid = || vm.pid.to_string();
        let labels = VmLabels::among(&mut known, &vm.vm, vm.uuid.as_ref(), pid);
        metrics.subject(|metrics| of_vm(metrics, vm, &labels));
    }
}

fn of_vm(metrics: &mut Metrics, vm: &PilotVm, labels: &VmLabels) {
    let names = PilotVmNames {
        labels: labels.clone(),
        vmm_pid: vm.pid.to_string(),
        goal: vm.goal.clone(),
    };
    let help = "Process and goal of a VM; join it by vm, uuid and pid.";
    metrics.info(VM, help, &Labels::of(&names));
    let labels = Labels::of(labels);
    let [predicted, measured, saved] =
        [&vm.predicted, &vm.measured, &vm.saved_ns].map(|it| ends(it.as_ref()));
    let now = VmNow {
        ceiling_ns: vm.ceiling_ns,
        found_ns: vm.found_ns,
        would_set_ns: vm.would_set_ns,
        predicted_share: predicted[0],
        predicted_low_share: predicted[1],
        predicted_high_share: predicted[2],
        measured_share: measured[0],
        measured_low_share: measured[1],
        measured_high_share: measured[2],
        saved_ns: saved[0],
        saved_low_ns: saved[1],
        saved_high_ns: saved[2],
        regret_share: vm.regret,
        state_age_ns: vm.state_ns,
    };
    metrics.add(Kind::Gauge, VM, &labels, &now);
    if let Some(kind) = &vm.decision {
        let decision = DecisionNow {
            decision_age_ns: vm.decision_ago_ns,
        };
        metrics.add(
            Kind::Gauge,
            VM,
            &labels.and("kind", kind.as_str()),
            &decision,
        );
    }
    for state in VmState::ALL {
        let labels = labels.and("state", state.as_str());
        let state = u64::from(state == vm.state);
        metrics.add(Kind::Gauge, VM, &labels, &StateNow { state });
    }
}

/// The value of an interval and its ends; an end that nothing bounds is not known.
fn ends(of: Option<&Interval>) -> [Option<f64>; 3] {
    of.map_or([None; 3], |it| {
        [it.value, it.low, it.high].map(|end| end.is_finite().then_some(end))
    })
}

#[cfg(test)]
mod test {
    use haltwise_document::openmetrics::Format;

    use super::*;

    fn series(status: &PilotStatus) -> BTreeSet<String> {
        let status = status.clone();
        let text = Exposition::new(1_000, move |metrics| add(metrics, &status, 0));
        let text = text.render(Format::Prometheus);
        let of_vms = text.lines().filter(|line| line.starts_with(VM));
        let names = of_vms.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()));
        names.filter(|name| !name.contains("_info{")).collect()
    }

    #[test]
    fn series_of_a_vm_have_the_labels_of_the_exporter_and_go_on_under_another_goal_or_process() {
        let kept = include_str!("../../tests/knob/pilot.json");
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        let mut status: PilotStatus = serde_json::from_value(kept["status"].clone()).unwrap();
        let mut vm = status.vms.remove(0);
        (vm.vm, vm.uuid) = ("web".to_owned(), Some("6f1d".to_owned()));
        let mut alike = vm.clone();
        alike.pid = 7;
        status.vms = vec![vm, alike];
        let before = series(&status);
        let state = |pid: &str| {
            format!("haltwise_pilot_vm_state{{vm=\"web\",uuid=\"6f1d\"{pid},state=\"kept\"}}")
        };
        for name in [state(""), state(",pid=\"7\"")] {
            assert!(before.contains(&name), "{name} {before:#?}");
        }
        (status.vms[0].goal, status.vms[0].pid) = ("latency".to_owned(), 9);
        assert_eq!(series(&status), before);
    }
}
