//! Result of doctor: each figure with its name, unit and meaning.

use haltwise_core::event::CeilingSource;
use haltwise_core::identity::Identity;
use haltwise_core::recording::Rung;
use haltwise_document::figures;
use haltwise_host::support::{Finding, Level};

pub(crate) const ABOUT: &[&str] = &["`null` means that it is not known."];

figures! {
    pub(crate) struct Diagnosis {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// `uname -r`.
        pub(crate) kernel: String = Name,
        /// The best source that this host allows.
        pub(crate) best_rung: Option<Rung> = Word,
        /// The sources.
        pub(crate) rungs: Vec<EventSource> = List(EventSource::FIGURES),
        /// Capabilities of the process, one by one.
        pub(crate) capabilities: Vec<HeldCapability> = List(HeldCapability::FIGURES),
        /// The settings in force.
        pub(crate) knobs: Vec<SettingInForce> = List(SettingInForce::FIGURES),
        /// The VMs that run.
        pub(crate) vms: Vec<RunningVm> = List(RunningVm::FIGURES),
        /// Why windows, ceilings and vetoes of running VMs could not be read.
        pub(crate) vms_unread: Option<String> = Name,
        /// Processes that are not accessible.
        pub(crate) processes_denied: usize = Count,
        /// Findings that should be known besides.
        pub(crate) findings: Vec<Finding> = List(FINDING),
    }

    pub(crate) struct EventSource {
        /// `bpf` or `tracepoints`.
        pub(crate) rung: Rung = Word,
        /// Why it cannot be used here; `null` if it can.
        pub(crate) refused: Option<String> = Name,
        /// The refusal is about rights, not about the kernel.
        pub(crate) denied: bool = Flag,
    }

    pub(crate) struct HeldCapability {
        /// Its name.
        pub(crate) name: &'static str = Word,
        /// Whether the process has it.
        pub(crate) held: bool = Flag,
        /// Which sources, modes and names a recording has by it.
        pub(crate) gives: &'static str = Word,
    }

    pub(crate) struct SettingInForce {
        /// Its name.
        pub(crate) name: String = Name "setting",
        /// Its value.
        pub(crate) value: String = Name,
        /// VMs or host that it applies to.
        pub(crate) binds: &'static str = Word "applies to",
    }

    pub(crate) struct RunningVm {
        /// Its name.
        pub(crate) name: String = Name "VM",
        /// Its other names, as far as there are any: `domain` (what its VMM was given), `uuid`, `vmid` (Proxmox VE),
        /// `pod` and `pod_uid` (KubeVirt), `cgroup`; `null` where none is known.
        pub(crate) identity: Option<Identity> = Object,
        /// Which VMM.
        pub(crate) vmm: &'static str = Word "VMM",
        /// The VMM's process.
        pub(crate) pid: u32 = Number,
        /// How many vCPUs it has.
        pub(crate) vcpus: usize = Count "vCPUs",
        /// Ceiling in force.
        pub(crate) ceiling_ns: Option<u32> = Nanos,
        /// Source of the ceiling: `param`, `cap`, `snapshot` or `unknown`.
        pub(crate) ceiling_source: CeilingSource = Word,
        /// Whether a ceiling of its own can be set from outside its VMM (docs/ceilings.md).
        pub(crate) ceiling_settable: Option<bool> = Flag,
        /// Why it cannot be set.
        pub(crate) ceiling_obstacle: Option<String> = Name,
        /// Smallest and largest window of its vCPUs now.
        pub(crate) window_ns: Option<(u32, u32)> = Words,
        /// vCPUs for which the guest disabled host polling.
        pub(crate) vetoed_vcpus: Vec<u32> = Words,
        /// Why its halts cannot be seen; `null` if nothing speaks against it.
        pub(crate) not_observable: Option<String> = Name,
        /// False if none of its vCPUs is in `KVM_RUN`: paused, not started, or stopped after an error.
        pub(crate) running: Option<bool> = Flag,
    }
}

figures! {
    const FINDING: Finding {
        /// `problem`, `warning`, `note` or `good`.
        level: Level = Word,
        /// Description of the finding.
        what: String = Name,
        /// Why that matters.
        why: String = Name,
        /// Remedy for it.
        remedy: Option<String> = Name,
    }
}
