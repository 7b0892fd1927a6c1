//! Tables of the host: its settings, its own state, and events that never reached the recorder.

use arrow_array::ArrayRef;
use haltwise_core::event::{HostSample, IdleState, Knob, KnobScope, Lost};
use haltwise_core::ids::VmIndex;

use crate::cells::{Cell, Field, computed};
use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::tables::Law;

const SCOPES: [&str; 3] = ["host", "guest-of-other", "vm"];

table! {
    Knobs: Knob {
        time_ns: U64, "When it had this value.";
        name: Text, "KVM's or the governor's name for it, for example `halt_poll_ns`.";
        scope: Name,
            "What it applies to: `host` (module `kvm`), `guest-of-other` (module `haltpoll`: this machine \
         as a guest), `vm` (one VM).";
        vm: U32, null "scope is not `vm`", "The VM.";
        value: Text, "Its value as the kernel prints it.";
    }
    of { time_ns, name, scope, value }
}

impl Field for KnobScope {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        let scopes = cells.clone().map(|scope| match scope {
            Self::Host => 0,
            Self::GuestOfOther => 1,
            Self::Vm(_) => 2,
        });
        to.push(name_array(&SCOPES, scopes));
        to.push(computed(cells, |scope| match scope {
            Self::Vm(vm) => Some(*vm),
            Self::Host | Self::GuestOfOther => None,
        }));
    }

    fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
        let scopes = columns.names("scope", |name| SCOPES.iter().position(|s| *s == name))?;
        let vms = Cell::read(columns, "vm")?;
        let scope = |(row, (scope, vm)): (usize, (usize, Option<VmIndex>))| match (scope, vm) {
            (0, _) => Ok(Self::Host),
            (1, _) => Ok(Self::GuestOfOther),
            (_, Some(vm)) => Ok(Self::Vm(vm)),
            (_, None) => Err(columns.bad_value("vm", row, "NULL in the scope `vm`")),
        };
        let scopes = scopes.into_iter().zip(vms).enumerate();
        scopes.map(scope).collect()
    }
}

table! {
    HostSamples: HostSample {
        time_ns: U64, "When.";
        cpus: U32, "CPUs online.";
        busy_ns: U64, "CPU time of all CPUs that was not idle, since boot.";
        total_ns: U64, "CPU time of all CPUs, since boot.";
        cpu_pressure_ns: U64, null "no pressure stall information",
            "Time in which some task waited for a CPU, since boot.";
        recorder_cpu_ns: U64, "CPU time that the recorder itself has used since it started.";
        bpf_cpu_ns: U64, null "not accounted", "CPU time of the recorder's BPF programs.";
        recorder_rss_bytes: U64, "Resident memory of the recorder.";
        steal_ns: U64, null "not accounted, or recorded before this column" later,
            "CPU time of all CPUs in which a hypervisor ran something else while they had work, since boot; part of `busy_ns`.";
        idle_ns: U64, null "no cpuidle, not looked at in this row, or recorded before this column" later,
            "Time that CPUs stood still, all of them together, since boot: all states of cpuidle but `POLL`. Looked at every \
             10 s, at the beginning and at the end.";
        package_uj: U64, null "no RAPL, not looked at in this row, or recorded before this column" later,
            "Energy that CPU packages used since the recording began, in microjoules.";
        cycles: U64, null "no PMU or not permitted, not looked at in this row, or recorded before this column" later,
            "Cycles that CPUs ran since the recording began, all of them together (perf's `cycles`, which stand still with the \
             CPU). Looked at like `idle_ns`.";
        instructions: U64, null "the same" later, "Instructions that CPUs retired since the recording began.";
    }
    const LAW: Option<Law<Self>> = Some(Laws::host_sample);
}

table! {
    IdleStates: IdleState {
        time_ns: U64, "When.";
        state: U32, "The state's number, from the shallowest on.";
        name: Text, "What its driver calls it, for example `POLL`, `C1E`.";
        description: Text, "How its driver describes it.";
        cpus: U32, "CPUs that have it.";
        entries: U64, "How often they entered it since boot (`usage`).";
        residency_ns: U64, "How long they were in it since boot (`time`).";
        above: U64, null "not counted by this kernel",
            "Entries that ended before the state's target residency, while a shallower one was enabled.";
        below: U64, null "not counted by this kernel", "Entries that lasted long enough for the next deeper state.";
    }
    const LAW: Option<Law<Self>> = Some(Laws::idle_state);
}

table! {
    Lost: Lost {
        time_ns: U64, "When the loss was noticed.";
        count: U64, "How many events.";
        place: Text, "Which stage lost them, for example `ring buffer full`.";
    }
}
