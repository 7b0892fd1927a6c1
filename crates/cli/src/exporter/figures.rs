//! The metrics, declared. Counters and gauges of one subject are structs of their own; the list of metrics and HELP
//! come of these.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use haltwise_document::figure::{Figure, Leaf, leaves};
use haltwise_document::openmetrics::Kind::{self, Counter, Gauge};
use haltwise_document::openmetrics::{Buckets, Declared, declared};
use haltwise_document::{Figures as _, figures};

use crate::pilot_state::metrics::{LISTED, PilotVmNames};

impl VmLabels {
    /// The labels of a VM, which join those of others: one that is alike in name and UUID gets its process beside them.
    pub(crate) fn among(
        others: &mut BTreeSet<Self>,
        vm: &str,
        uuid: Option<&String>,
        pid: impl FnOnce() -> String,
    ) -> Self {
        let plain = Self {
            vm: vm.to_owned(),
            uuid: uuid.cloned(),
            pid: None,
        };
        let pid = others.contains(&plain).then(pid);
        let labels = Self { pid, ..plain };
        others.insert(labels.clone());
        labels
    }
}

figures! {
    #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct VmLabels {
        /// Name that its operator uses: libvirt's domain, OpenStack's display name, `NAMESPACE/NAME` of KubeVirt.
        pub(crate) vm: String = Name,
        /// Its UUID, where known.
        pub(crate) uuid: Option<String> = Name,
        /// The process of its VMM, where another VM has the same name and UUID.
        pub(crate) pid: Option<String> = Name,
    }

    /// Other properties of a VM, for joins.
    pub(crate) struct VmNames {
        #[serde(flatten)]
        pub(crate) labels: VmLabels = Flat(VmLabels::FIGURES),
        /// Its VMM.
        pub(crate) vmm: String = Word,
        /// The process of its VMM.
        pub(crate) vmm_pid: String = Word,
        /// The name that its VMM was given, where its operator knows it by another.
        pub(crate) domain: Option<String> = Name,
        /// Proxmox VE's number of it.
        pub(crate) vmid: Option<String> = Name,
        /// KubeVirt's namespace.
        pub(crate) namespace: Option<String> = Name,
        /// KubeVirt's pod.
        pub(crate) pod: Option<String> = Name,
        /// The UID of that pod.
        pub(crate) pod_uid: Option<String> = Name,
        /// The cgroup of its VMM.
        pub(crate) cgroup: Option<String> = Name,
    }

    /// Halts, counted: of a VM, or of all VMs of the host together.
    pub(crate) struct HaltTotals {
        /// Halts: how often a vCPU had nothing to do.
        pub(crate) halts: u64 = Count,
        /// Halts in which the vCPU was scheduled out: two context switches each.
        pub(crate) sleeps: u64 = Count,
        /// Halts that polled, as KVM counts them (`halt_attempted_poll`).
        pub(crate) polls: Option<u64> = Count,
        /// Polls that a wake event ended in time (`halt_successful_poll`).
        pub(crate) successful_polls: Option<u64> = Count,
        /// Polls after which the vCPU slept nevertheless: CPU time without use.
        pub(crate) failed_polls: Option<u64> = Count,
        /// Polls that ended since another task wanted the CPU.
        pub(crate) preempted_polls: Option<u64> = Count,
        /// CPU time of successful polls.
        pub(crate) poll_success_ns: Option<u64> = Nanos,
        /// CPU time of failed polls.
        pub(crate) poll_fail_ns: Option<u64> = Nanos,
        /// Time in which vCPUs slept and left the CPU to others, where it is known.
        pub(crate) sleep_ns: Option<u64> = Nanos,
        /// Halts by duration, as KVM measures it: polls, sleep and wake-up.
        pub(crate) halt_ns: Buckets = Buckets,
        /// Halts that slept by wake-up latency: from the wake event until the vCPU runs.
        pub(crate) wake_latency_ns: Option<Buckets> = Buckets,
    }

    /// CPU time of a VMM's threads, by the scheduler's counts.
    #[expect(
        clippy::struct_field_names,
        reason = "names of metrics say what they count"
    )]
    pub(crate) struct CpuTotals {
        /// CPU time of all threads of its VMM. Read every ten seconds.
        pub(crate) cpu_ns: Option<u64> = Nanos,
        /// CPU time in the guest, as the kernel's tick samples it; absent where the kernel counts none.
        pub(crate) guest_cpu_ns: Option<u64> = Nanos,
        /// CPU time of threads of its VMM that run no vCPU.
        pub(crate) vmm_cpu_ns: Option<u64> = Nanos,
    }

    /// Halts of one wake source, in the label `source`: timer, ipi, device, other, unknown.
    pub(crate) struct WakeTotals {
        /// Halts by what woke the vCPU.
        pub(crate) wakes: u64 = Count,
    }

    /// Exits of one reason, in the label `reason`; with `--exits`.
    pub(crate) struct ExitTotals {
        /// VM exits by reason.
        pub(crate) exits: u64 = Count,
        /// Time from the exit to the next entry; of HLT that includes the time halted.
        pub(crate) exit_ns: u64 = Nanos,
    }

    pub(crate) struct VmState {
        /// Its vCPUs.
        pub(crate) vcpus: u64 = Count,
        /// Whether its halts can be observed. Not the same as idle: a guest that polls for itself, or a VM without KVM's irqchip, shows none.
        pub(crate) observable: bool = Flag,
        /// Whether its VMM holds it; absent where that is not known.
        pub(crate) paused: Option<bool> = Flag,
        /// The ceiling of its polling window: the effective `halt_poll_ns`.
        pub(crate) ceiling_ns: Option<u64> = Nanos,
        /// Whether that ceiling is its own (`KVM_CAP_HALT_POLL`), and not the host's parameter.
        pub(crate) ceiling_own: Option<bool> = Flag,
        /// The largest polling window of its vCPUs.
        pub(crate) window_ns: Option<u64> = Nanos,
        /// Its vCPUs whose guest disabled host polling (`MSR_KVM_POLL_CONTROL`).
        pub(crate) vcpus_polling_disabled: Option<u64> = Count,
    }

    /// The host, counted since it booted.
    pub(crate) struct HostTotals {
        /// CPU time of all CPUs that was not idle; polls are part of it.
        pub(crate) cpu_busy_ns: Option<u64> = Nanos,
        /// CPU time of all CPUs, idle or not.
        pub(crate) cpu_ns: Option<u64> = Nanos,
        /// Time in which some task waited for a CPU (pressure stall information).
        pub(crate) cpu_pressure_ns: Option<u64> = Nanos,
        /// CPU time that a hypervisor below gave to others.
        pub(crate) cpu_steal_ns: Option<u64> = Nanos,
        /// Energy of the CPU packages since haltwise started (RAPL).
        pub(crate) package_uj: Option<u64> = Microjoules,
    }

    pub(crate) struct HostState {
        /// CPUs online.
        pub(crate) cpus: Option<u64> = Count,
        /// VMs that are there.
        pub(crate) vms: u64 = Count,
        /// Their vCPUs.
        pub(crate) vcpus: u64 = Count,
        /// VMs of which no halts can be observed.
        pub(crate) unobservable_vms: u64 = Count,
    }

    /// A parameter of KVM, or of the governor haltpoll, in the label `parameter`.
    pub(crate) struct Parameter {
        /// The parameter's value, as the kernel prints it: times in nanoseconds, Y as 1.
        pub(crate) parameter: u64 = Number,
    }

    /// Events that never reached haltwise, in the label `place`.
    pub(crate) struct LostTotals {
        /// Events lost; totals above are too low by so many.
        pub(crate) lost_events: u64 = Count,
    }

    #[derive(Default)]
    pub(crate) struct BuildNames {
        /// Version of haltwise.
        pub(crate) version: String = Word,
        /// Where the facts come from: bpf or tracepoints.
        pub(crate) source: String = Word,
        /// Mode of counting: by programs of haltwise (counts), or by KVM itself (stats).
        pub(crate) mode: String = Word,
        /// The host's name.
        pub(crate) host: String = Name,
        /// Its kernel's release.
        pub(crate) kernel: String = Name,
    }

    /// A figure that cannot be observed here.
    pub(crate) struct MissingNames {
        /// The field.
        pub(crate) field: String = Name,
        /// Why.
        pub(crate) reason: String = Name,
    }

    /// Cost of this program, counted since its start.
    pub(crate) struct CostTotals {
        /// CPU time of this process.
        pub(crate) cpu_ns: Option<u64> = Nanos,
        /// CPU time of its BPF programs, where the kernel accounts it (`kernel.bpf_stats_enabled`).
        pub(crate) bpf_cpu_ns: Option<u64> = Nanos,
    }

    pub(crate) struct CostState {
        /// Resident memory of this process.
        pub(crate) resident_bytes: Option<u64> = Bytes,
        /// Time that its programs add to a halt, measured on this host.
        pub(crate) added_per_halt_ns: Option<f64> = MeanNanos,
        /// Age of the newest counts.
        pub(crate) age_ns: u64 = Nanos,
    }

    /// Cost of serving metrics, counted since the program started.
    #[derive(Clone, Copy, Default)]
    pub(crate) struct ScrapeTotals {
        /// Times that metrics were rendered, for a scrape or a file.
        pub(crate) renders: u64 = Count,
        /// CPU time of these.
        pub(crate) render_cpu_ns: u64 = Nanos,
        /// Requests that were refused, or did not come in time.
        pub(crate) refused_requests: u64 = Count,
        /// Series left out, in all renders: beyond `--max-series`, or alike in name and labels.
        pub(crate) left_out_series: u64 = Count,
    }

    pub(crate) struct ScrapeState {
        /// Series of this text, but for those of the exporter itself.
        pub(crate) series: u64 = Count,
    }
}

/// Metrics that have labels alone, and the labels that all of VMs have.
pub(super) const NAMES: &[(&str, &[Figure])] = &[
    ("haltwise_vm_*", VmLabels::FIGURES),
    ("haltwise_vm_info", VmNames::FIGURES),
    ("haltwise_pilot_vm_info", PilotVmNames::FIGURES),
    ("haltwise_build_info", BuildNames::FIGURES),
    ("haltwise_missing_info", MissingNames::FIGURES),
];

/// Labels, beginning of the names, kind, declarations.
pub(crate) type Row = (&'static str, &'static str, Kind, &'static [Figure]);

const VM: &str = "haltwise_vm";
const HOST: &str = "haltwise_host";
const OWN: &str = "haltwise_exporter";

const METRICS: [Row; 15] = [
    ("vm, uuid, pid", VM, Counter, HaltTotals::FIGURES),
    ("vm, uuid, pid", VM, Counter, CpuTotals::FIGURES),
    ("vm, uuid, pid, source", VM, Counter, WakeTotals::FIGURES),
    ("vm, uuid, pid, reason", VM, Counter, ExitTotals::FIGURES),
    ("vm, uuid, pid", VM, Gauge, VmState::FIGURES),
    ("", HOST, Counter, HaltTotals::FIGURES),
    ("source", HOST, Counter, WakeTotals::FIGURES),
    ("", HOST, Counter, HostTotals::FIGURES),
    ("", HOST, Gauge, HostState::FIGURES),
    ("parameter", "haltwise_kvm", Gauge, Parameter::FIGURES),
    ("place", "haltwise", Counter, LostTotals::FIGURES),
    ("", OWN, Counter, CostTotals::FIGURES),
    ("", OWN, Gauge, CostState::FIGURES),
    ("", OWN, Counter, ScrapeTotals::FIGURES),
    ("", OWN, Gauge, ScrapeState::FIGURES),
];

/// All metrics with their labels, those of the pilot last.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Declared)> {
    let rows = METRICS.into_iter().chain(LISTED);
    rows.flat_map(|(labels, prefix, kind, figures)| {
        let metrics = leaves(figures).into_iter();
        metrics.filter_map(move |leaf| Some((labels, declared(kind, prefix, &leaf)?)))
    })
}

pub(crate) fn page() -> String {
    let mut page = "# List of metrics\n\n[Metrics](metrics.md) says how they are served.\n\n\
                    | metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        .to_owned();
    // Writing to a String cannot fail.
    for (labels, metric) in all() {
        let (name, kind, help) = (metric.sample(), metric.kind.as_str(), metric.help);
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
    }
    page += "\n| metric | label | meaning |\n| --- | --- | --- |\n";
    for (metric, figures) in NAMES {
        for Leaf { figure, .. } in leaves(figures) {
            let _ = writeln!(
                page,
                "| `{metric}` | `{}` | {} |",
                figure.name,
                figure.meaning()
            );
        }
    }
    page
}
