//! `vms`: the VMs that were seen, as the roster in `capture.json` names them.

use arrow_array::ArrayRef;
use haltwise_core::event::{Observable, Paused, Vm};
use haltwise_core::identity::Identity;
use haltwise_core::ids::{VmKey, VmmKind};
use haltwise_core::vmm::{Machine, Threads};

use crate::cells::{Cell, computed};
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::Row;

columns! {
    pub(crate) COLUMNS {
        vm: U32, "The number that `vm` columns hold.";
        name: Text, "What its operator calls it; else the process's name and number.";
        vmm: Text, "`qemu`, `crosvm`, `firecracker`, `cloud-hypervisor`, `haltwise-lab`, `other`.";
        pid: U32, "The VMM's process, in the root PID namespace.";
        start_ticks: U64,
            "Start of that process since boot (field 22 of `/proc/PID/stat`); distinguishes it from later \
         ones with the same number.";
        ordinal: U32, "0 for the first VM of the process, 1 for its second, and so on.";
        observable: Bool, "Whether its halts can be seen.";
        unobservable_reason: Text, null "observable", "Why they cannot.";
        from_ns: U64, null "it was there when the recording began", "When it came. Older captures lack it.";
        to_ns: U64, null "it was there when the recording ended", "When it was gone. Older captures lack it.";
        paused_ns: U64, null "not known",
            "How long none of its vCPUs was in `KVM_RUN`, in pauses that were over when the recording ended. Older captures lack it.";
        paused_from_ns: U64, null "not paused, or not known",
            "Since when none was, if that lasted until the recording ended. Older captures lack it.";
        domain: Text, null "its operator knows it by no other",
            "The name that its VMM was given, where `name` is another: OpenStack's `instance-…`, KubeVirt's `NAMESPACE_NAME`, Proxmox VE's without the number. Older captures lack it, and those of `record --no-command`.";
        uuid: Text, null "none, or not known",
            "Its UUID, in lower case; of an OpenStack instance the instance's. Older captures lack it, and those of `record --no-command`.";
        vmid: Text, null "not Proxmox VE's",
            "Proxmox VE's number of it. Older captures lack it, and those of `record --no-command`.";
        pod: Text, null "not in a pod, or not known",
            "The pod that it runs in, of KubeVirt. Older captures lack it, and those of `record --no-command`.";
        pod_uid: Text, null "not in a pod",
            "The UID of that pod. Older captures lack it, and those of `record --no-command`.";
        cgroup: Text, null "not known",
            "The cgroup of its VMM, from the root of the hierarchy to the scope. Older captures lack it, and those of `record --no-command`.";
        hpet: Bool, null "the machine's default decides, or not known",
            "Whether QEMU's command line gives the machine an HPET. Older captures lack it.";
        no_ioeventfd: Bool, null "not known",
            "QEMU's command line has a virtio device with `ioeventfd=off`. Older captures lack it.";
        iothreads: U64, null "not known", "Threads for devices (`-object iothread`). Older captures lack it.";
        vhost: Bool, null "not known",
            "A network device is served by the kernel, or by another process (vhost). Older captures lack it.";
        huge_pages: Bool, null "not known",
            "QEMU's command line puts the VM's memory on hugetlbfs. Older captures lack it.";
        cpu_pm: Bool, null "not known",
            "QEMU runs with `-overcommit cpu-pm=on`: halts stay inside the guest. Older captures lack it.";
        threads_ns: U64, null "not known",
            "The time between the first and the last look at the VMM's threads, to which the next six refer. Older captures lack it.";
        vcpu_cpu_ns: U64, null "not known", "CPU time of the threads that run vCPUs. Older captures lack it.";
        main_cpu_ns: U64, null "not known",
            "CPU time of the process's first thread: QEMU's main loop. Older captures lack it.";
        main_runs: U64, null "not known", "How often that thread was given a CPU. Older captures lack it.";
        others_cpu_ns: U64, null "not known",
            "CPU time of all threads that run no vCPU, the first one's with it. Older captures lack it.";
        busiest_thread: Text, null "there is none, or not known",
            "The name of the thread with most CPU time among those that are neither. Older captures lack it.";
        busiest_cpu_ns: U64, null "there is none, or not known", "Its CPU time. Older captures lack it.";
        ceiling_settable: Bool, null "not known",
            "Whether its ceiling could be set from outside its VMM (docs/ceilings.md). Older captures lack it.";
    }
}

impl Row for Vm {
    const TABLE: Table = Table::Vms;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let mut columns = vec![
            computed(rows, |vm| vm.index),
            Cell::array(rows.iter().map(|vm| &vm.name)),
            computed(rows, |vm| vm.vmm.to_string()),
            computed(rows, |vm| vm.key.pid),
            computed(rows, |vm| vm.key.start_ticks),
            computed(rows, |vm| vm.key.ordinal),
            computed(rows, |vm| vm.observable == Observable::Yes),
            computed(rows, |vm| match &vm.observable {
                Observable::Yes => None,
                Observable::No(reason) => Some(reason.clone()),
            }),
            computed(rows, |vm| vm.from_ns),
            computed(rows, |vm| vm.to_ns),
            computed(rows, |vm| Some(vm.paused?.over_ns)),
            computed(rows, |vm| vm.paused?.from_ns),
        ];
        columns.extend(
            (0..Identity::KINDS)
                .map(|kind| computed(rows, |vm| vm.identity.names()[kind].1.map(str::to_owned))),
        );
        columns.extend(machine(rows));
        columns.extend(threads(rows));
        columns.push(computed(rows, |vm| vm.ceiling_settable));
        columns
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let index = columns.reader("vm")?;
        let name = columns.reader("name")?;
        let vmm = columns.reader::<String>("vmm")?;
        let pid = columns.reader("pid")?;
        let start_ticks = columns.reader("start_ticks")?;
        let ordinal = columns.reader("ordinal")?;
        let observable = columns.reader("observable")?;
        let reason = columns.reader::<Option<String>>("unobservable_reason")?;
        let (from_ns, to_ns) = (columns.later("from_ns")?, columns.later("to_ns")?);
        let over_ns = columns.later("paused_ns")?;
        let paused_from_ns = columns.later("paused_from_ns")?;
        let machines = machines_of(columns)?;
        let threads = threads_of(columns)?;
        let settable = columns.later("ceiling_settable")?;
        let kinds = Identity::default().names().map(|(kind, _)| kind);
        let mut names = Vec::with_capacity(kinds.len());
        for kind in kinds {
            names.push(columns.later(kind)?);
        }
        let vm = |row: usize| Self {
            index: index.at(row),
            key: VmKey {
                pid: pid.at(row),
                start_ticks: start_ticks.at(row),
                ordinal: ordinal.at(row),
            },
            name: name.at(row),
            identity: Identity::from_names(std::array::from_fn(|kind| names[kind].at(row))),
            machine: machines[row],
            threads: threads[row].clone(),
            ceiling_settable: settable.at(row),
            vmm: VmmKind::from_name(&vmm.at(row)).unwrap_or_default(),
            observable: if observable.at(row) {
                Observable::Yes
            } else {
                Observable::No(reason.at(row).unwrap_or_default())
            },
            from_ns: from_ns.at(row),
            to_ns: to_ns.at(row),
            paused: over_ns.at(row).map(|over_ns| Paused {
                over_ns,
                from_ns: paused_from_ns.at(row),
            }),
        };
        Ok((0..columns.len()).map(vm).collect())
    }
}

/// What command lines say, in the order of their columns.
fn machine(rows: &[Vm]) -> [ArrayRef; 6] {
    [
        computed(rows, |vm| vm.machine?.hpet),
        computed(rows, |vm| Some(vm.machine?.no_ioeventfd)),
        computed(rows, |vm| Some(u64::from(vm.machine?.iothreads))),
        computed(rows, |vm| Some(vm.machine?.vhost)),
        computed(rows, |vm| Some(vm.machine?.huge_pages)),
        computed(rows, |vm| Some(vm.machine?.cpu_pm)),
    ]
}

/// What VMMs' threads did, in the order of their columns.
fn threads(rows: &[Vm]) -> [ArrayRef; 7] {
    [
        computed(rows, |vm| Some(vm.threads.as_ref()?.over_ns)),
        computed(rows, |vm| vm.threads.as_ref()?.vcpu_cpu_ns),
        computed(rows, |vm| Some(vm.threads.as_ref()?.main_cpu_ns)),
        computed(rows, |vm| Some(vm.threads.as_ref()?.main_runs)),
        computed(rows, |vm| vm.threads.as_ref()?.others_cpu_ns),
        computed(rows, |vm| vm.threads.as_ref()?.busiest.clone()),
        computed(rows, |vm| vm.threads.as_ref()?.busiest_cpu_ns),
    ]
}

/// The inverse of [`machine`]; where it was not known, no column but perhaps the first has a value.
fn machines_of(columns: &Columns<'_>) -> Result<Vec<Option<Machine>>, CaptureReadError> {
    let hpet = columns.later("hpet")?;
    let no_ioeventfd = columns.later("no_ioeventfd")?;
    let iothreads = columns.later::<u64>("iothreads")?;
    let vhost = columns.later("vhost")?;
    let huge_pages = columns.later("huge_pages")?;
    let cpu_pm = columns.later("cpu_pm")?;
    let machine = |row: usize| {
        Some(Machine {
            hpet: hpet.at(row),
            no_ioeventfd: no_ioeventfd.at(row)?,
            iothreads: u32::try_from(iothreads.at(row)?).unwrap_or(u32::MAX),
            vhost: vhost.at(row)?,
            huge_pages: huge_pages.at(row)?,
            cpu_pm: cpu_pm.at(row)?,
        })
    };
    Ok((0..columns.len()).map(machine).collect())
}

fn threads_of(columns: &Columns<'_>) -> Result<Vec<Option<Threads>>, CaptureReadError> {
    let over_ns = columns.later("threads_ns")?;
    let vcpu_cpu_ns = columns.later("vcpu_cpu_ns")?;
    let main_cpu_ns = columns.later("main_cpu_ns")?;
    let main_runs = columns.later("main_runs")?;
    let others_cpu_ns = columns.later("others_cpu_ns")?;
    let busiest = columns.later("busiest_thread")?;
    let busiest_cpu_ns = columns.later("busiest_cpu_ns")?;
    let threads = |row: usize| {
        Some(Threads {
            over_ns: over_ns.at(row)?,
            vcpu_cpu_ns: vcpu_cpu_ns.at(row),
            main_cpu_ns: main_cpu_ns.at(row)?,
            main_runs: main_runs.at(row)?,
            others_cpu_ns: others_cpu_ns.at(row),
            busiest: busiest.at(row),
            busiest_cpu_ns: busiest_cpu_ns.at(row),
        })
    };
    Ok((0..columns.len()).map(threads).collect())
}
