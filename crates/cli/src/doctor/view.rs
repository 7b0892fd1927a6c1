//! Result of doctor: each figure with its name, unit and meaning, and how the host is asked for it. Nothing is changed.

use haltwise_core::event::{CeilingSource, KnobScope};
use haltwise_core::identity::Identity;
use haltwise_core::ids::Pid;
use haltwise_core::recording::Rung;
use haltwise_document::figures;
use haltwise_host::bpf::{self, FoundVcpu};
use haltwise_host::discovery::{self, VcpuThreads, VmProcess};
use haltwise_host::knob::effect::FoundVm;
use haltwise_host::root::Root;
use haltwise_host::support::{self, CAPABILITIES, Finding, Level, Refusal, Support};
use haltwise_host::{ceiling, clock, params};

use super::SCHEMA;

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

pub(crate) fn examine(root: &Root) -> anyhow::Result<Diagnosis> {
    let support = support::inspect(root, clock::monotonic_ns())?;
    let scan = discovery::scan(root)?;
    let (found, vms_unread) = match &support.bpf {
        Ok(()) => match bpf::vcpus() {
            Ok(found) => (found, None),
            Err(error) => (Vec::new(), Some(format!("{:#}", anyhow::Error::new(error)))),
        },
        Err(refusal) => (Vec::new(), Some(refusal.to_string())),
    };
    let ceiling = params::param_halt_poll_ns(root).ok();
    let mut vms = vms(&scan.vms, &found, ceiling, &|vms| {
        discovery::are_running(root, vms)
    });
    if root.is_host() {
        let processes = vms.iter().map(|vm| Pid(vm.pid)).collect();
        let obstacles = ceiling::obstacles(root, &processes);
        for vm in &mut vms {
            vm.ceiling_obstacle = obstacles.get(&Pid(vm.pid)).cloned();
            vm.ceiling_settable = Some(vm.ceiling_obstacle.is_none());
        }
    }
    let mut findings = support.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    Ok(Diagnosis {
        schema: SCHEMA,
        kernel: support.kernel.to_string(),
        best_rung: support.best_rung(),
        rungs: rungs(&support),
        capabilities: capabilities(&support),
        knobs: knobs(&support),
        vms,
        vms_unread,
        processes_denied: scan.denied,
        findings,
    })
}

fn rungs(support: &Support) -> Vec<EventSource> {
    let view = |rung, allowed: &Result<(), Refusal>| EventSource {
        rung,
        refused: allowed.as_ref().err().map(ToString::to_string),
        denied: matches!(allowed, Err(Refusal::Denied { .. })),
    };
    vec![
        view(Rung::Bpf, &support.bpf),
        view(Rung::Tracepoints, &support.tracepoints),
    ]
}

fn capabilities(support: &Support) -> Vec<HeldCapability> {
    let view = CAPABILITIES.map(|capability| HeldCapability {
        name: capability.name,
        held: support.rights.has(capability.own),
        gives: capability.gives,
    });
    view.into()
}

fn knobs(support: &Support) -> Vec<SettingInForce> {
    let rows = support.knobs.iter();
    rows.map(|knob| SettingInForce {
        name: knob.name.clone(),
        value: knob.value.clone(),
        binds: binds(support, &knob.name, knob.scope),
    })
    .collect()
}

/// Scope of a setting, by name: only the ceiling has exceptions.
fn binds(support: &Support, name: &str, scope: KnobScope) -> &'static str {
    let snapshots = support.kernel.is_from(5, 8) && !support.kernel.is_from(6, 1);
    match (scope, name) {
        (KnobScope::Host, "halt_poll_ns") if snapshots => "VMs started after it was set",
        (KnobScope::Host, "halt_poll_ns") => "every VM without a cap of its own",
        (KnobScope::Host, _) if name.starts_with("halt_poll") => "every VM of the host",
        (KnobScope::Host, _) => "the host",
        (KnobScope::GuestOfOther, _) => "this host, as a guest itself",
        (KnobScope::Vm(_), _) => "one VM",
    }
}

/// Tells which VMs run, by their processes and the threads of their vCPUs.
type Runs<'a> = &'a dyn Fn(&[(Pid, VcpuThreads)]) -> Vec<Option<bool>>;

/// A row for each VM: what the walk over vCPUs found, with the names that discovery found, and the
/// VMs that only discovery found.
fn vms(
    named: &[VmProcess],
    found: &[FoundVcpu],
    param: Option<u32>,
    runs: Runs<'_>,
) -> Vec<RunningVm> {
    let walked = FoundVm::all(found);
    let is_walked = |vm: &&VmProcess| walked.iter().any(|it| it.pid == vm.pid());
    let others: Vec<&VmProcess> = named.iter().filter(|vm| !is_walked(vm)).collect();
    let process = |pid: Pid| named.iter().find(|vm| vm.pid() == pid);
    let mut rows: Vec<RunningVm> = (walked.iter())
        .map(|vm| row(vm, process(vm.pid), param))
        .collect();
    let mut threads: Vec<(Pid, VcpuThreads)> = walked.iter().map(FoundVm::threads).collect();
    for vm in others {
        let unwalked = FoundVm {
            pid: vm.pid(),
            number: None,
            vcpus: Vec::new(),
        };
        rows.push(RunningVm {
            vcpus: vm.vcpus.len(),
            ..row(&unwalked, Some(vm), None)
        });
        threads.push((vm.pid(), threads_of(vm)));
    }
    for (row, running) in rows.iter_mut().zip(runs(&threads)) {
        // A VMM that handles halts itself holds its idle vCPUs too.
        row.running = running.filter(|_| row.not_observable.is_none());
    }
    rows
}

/// The threads that run its vCPUs, where their names tell them all.
fn threads_of(vm: &VmProcess) -> VcpuThreads {
    if vm.threads.len() < vm.vcpus.len() {
        return VcpuThreads::Any;
    }
    VcpuThreads::Known(vm.threads.iter().map(|thread| thread.tid).collect())
}

fn row(vm: &FoundVm<'_>, named: Option<&VmProcess>, param: Option<u32>) -> RunningVm {
    let (ceiling_ns, ceiling_source) = match vm.ceiling() {
        Some((ns, source)) => (Some(ns), source),
        None if param.is_some() => (param, CeilingSource::Param),
        None => (None, CeilingSource::Unknown),
    };
    RunningVm {
        name: vm.name(named),
        identity: named.and_then(|vm| vm.label.identity.known()),
        vmm: named.map_or("other", |vm| vm.label.vmm.as_str()),
        pid: vm.pid.0,
        vcpus: vm.vcpus.len(),
        ceiling_ns,
        ceiling_source,
        ceiling_settable: None,
        ceiling_obstacle: None,
        window_ns: vm.window_ns(),
        vetoed_vcpus: vm.disabled(),
        not_observable: vm.blind().map(str::to_owned),
        running: None,
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::{Tid, VcpuId, VmKey, VmmKind};
    use haltwise_host::discovery::VmLabel;

    use super::*;

    fn found(pid: u32, vm: u64, id: u32) -> FoundVcpu {
        FoundVcpu {
            pid: Pid(pid),
            vm,
            address: u64::from(id) + vm,
            id: VcpuId(id),
            tid: Some(Tid(pid + id)),
            window_ns: 10_000 * id,
            vm_ceiling: None,
            guest_veto: None,
            hlt_in_guest: false,
            no_lapic: false,
        }
    }

    fn named(pid: u32, name: &str) -> VmProcess {
        VmProcess {
            key: VmKey {
                pid: Pid(pid),
                start_ticks: 1,
                ordinal: 0,
            },
            label: VmLabel {
                vmm: VmmKind::Qemu,
                name: name.to_owned(),
                ..VmLabel::default()
            },
            vcpus: vec![VcpuId(0)],
            ..VmProcess::default()
        }
    }

    #[test]
    fn a_vm_has_its_own_ceiling_or_that_of_the_module() {
        let capped = FoundVcpu {
            vm_ceiling: Some((50_000, CeilingSource::Cap)),
            ..found(10, 2, 0)
        };
        let vms = vms(
            &[named(10, "a")],
            &[found(10, 1, 0), found(10, 1, 3), capped],
            Some(200_000),
            &|vms| vec![Some(true); vms.len()],
        );
        let rows: Vec<_> = vms
            .iter()
            .map(|vm| {
                let ceiling = (vm.ceiling_ns, vm.ceiling_source);
                (&*vm.name, vm.vcpus, ceiling, vm.window_ns)
            })
            .collect();
        assert_eq!(
            rows,
            [
                (
                    "a-0",
                    2,
                    (Some(200_000), CeilingSource::Param),
                    Some((0, 30_000))
                ),
                ("a-1", 1, (Some(50_000), CeilingSource::Cap), Some((0, 0))),
            ],
            "two VMs of one process"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_said_with_its_reason() {
        let pinned = FoundVcpu {
            hlt_in_guest: true,
            guest_veto: Some(true),
            ..found(10, 1, 5)
        };
        let vms = vms(&[named(11, "unwalked")], &[pinned], None, &|vms| {
            assert_eq!(vms[1], (Pid(11), VcpuThreads::Any));
            vec![Some(false); vms.len()]
        });
        assert_eq!(vms[0].vetoed_vcpus, [5]);
        assert_eq!(vms[0].window_ns, None, "nothing is polled");
        assert!(vms[0].not_observable.as_ref().unwrap().contains("HLT"));
        assert_eq!(vms[0].running, None, "its VMM holds idle vCPUs too");
        assert_eq!(
            (vms[0].name.as_str(), vms[0].ceiling_ns),
            ("process 10", None)
        );
        assert_eq!((vms[1].name.as_str(), vms[1].window_ns), ("unwalked", None));
    }
}
