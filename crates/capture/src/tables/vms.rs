//! `vms`: the VMs that were seen, as the roster in `capture.json` names them.

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{Observable, Paused, Vm};
use haltwise_core::identity::Identity;
use haltwise_core::ids::{Pid, VmIndex, VmKey, VmmKind};
use haltwise_core::vmm::{Machine, Threads};

use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::{Row, array};

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
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let maybe_u64s =
            |of: fn(&Self) -> Option<u64>| array(rows.iter().map(of).collect::<UInt64Array>());
        let observable = rows.iter().map(|vm| Some(vm.observable == Observable::Yes));
        let reason = rows.iter().map(|vm| match &vm.observable {
            Observable::Yes => None,
            Observable::No(reason) => Some(reason),
        });
        let mut columns = vec![
            u32s(|vm| vm.index.0),
            array(StringArray::from_iter_values(
                rows.iter().map(|vm| &vm.name),
            )),
            array(StringArray::from_iter_values(
                rows.iter().map(|vm| vm.vmm.as_str()),
            )),
            u32s(|vm| vm.key.pid.0),
            array(UInt64Array::from_iter_values(
                rows.iter().map(|vm| vm.key.start_ticks),
            )),
            u32s(|vm| vm.key.ordinal),
            array(observable.collect::<BooleanArray>()),
            array(reason.collect::<StringArray>()),
            maybe_u64s(|vm| vm.from_ns),
            maybe_u64s(|vm| vm.to_ns),
            maybe_u64s(|vm| Some(vm.paused?.over_ns)),
            maybe_u64s(|vm| vm.paused?.from_ns),
        ];
        columns.extend((0..Identity::KINDS).map(|kind| {
            let names = rows.iter().map(|vm| vm.identity.names()[kind].1);
            array(names.collect::<StringArray>())
        }));
        columns.extend(machine(rows));
        columns.extend(threads(rows));
        let settable = rows.iter().map(|vm| vm.ceiling_settable);
        columns.push(array(settable.collect::<BooleanArray>()));
        columns
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let index = columns.u32s("vm")?;
        let name = columns.texts("name")?;
        let vmm = columns.texts("vmm")?;
        let pid = columns.u32s("pid")?;
        let start_ticks = columns.u64s("start_ticks")?;
        let ordinal = columns.u32s("ordinal")?;
        let observable = columns.bools("observable")?;
        let reason = columns.maybe_texts("unobservable_reason")?;
        let (from_ns, to_ns) = (columns.later_u64s("from_ns")?, columns.later_u64s("to_ns")?);
        let over_ns = columns.later_u64s("paused_ns")?;
        let paused_from_ns = columns.later_u64s("paused_from_ns")?;
        let machines = machines_of(columns)?;
        let threads = threads_of(columns)?;
        let settable = columns.later_bools("ceiling_settable")?;
        let kinds = Identity::default().names().map(|(kind, _)| kind);
        let mut names = Vec::with_capacity(kinds.len());
        for kind in kinds {
            names.push(columns.later_texts(kind)?);
        }
        let identity = |row: usize| {
            Identity::from_names(std::array::from_fn(|kind| {
                let array = names[kind].filter(|array| array.is_valid(row))?;
                Some(array.value(row).to_owned())
            }))
        };
        let vm = |row: usize| Self {
            index: VmIndex(index[row]),
            key: VmKey {
                pid: Pid(pid[row]),
                start_ticks: start_ticks[row],
                ordinal: ordinal[row],
            },
            name: name.value(row).to_owned(),
            identity: identity(row),
            machine: machines[row],
            threads: threads[row].clone(),
            ceiling_settable: bool_at(settable, row),
            vmm: VmmKind::from_name(vmm.value(row)),
            observable: if observable.value(row) {
                Observable::Yes
            } else {
                let known = reason.is_valid(row).then(|| reason.value(row));
                Observable::No(known.unwrap_or_default().to_owned())
            },
            from_ns: at(from_ns, row),
            to_ns: at(to_ns, row),
            paused: at(over_ns, row).map(|over_ns| Paused {
                over_ns,
                from_ns: at(paused_from_ns, row),
            }),
        };
        Ok((0..columns.len()).map(vm).collect())
    }
}

/// What command lines say, in the order of their columns.
fn machine(rows: &[Vm]) -> [ArrayRef; 6] {
    let bools = |of: fn(&Machine) -> Option<bool>| {
        let each = rows.iter().map(|vm| of(vm.machine.as_ref()?));
        array(each.collect::<BooleanArray>())
    };
    let iothreads = rows.iter().map(|vm| Some(u64::from(vm.machine?.iothreads)));
    [
        bools(|machine| machine.hpet),
        bools(|machine| Some(machine.no_ioeventfd)),
        array(iothreads.collect::<UInt64Array>()),
        bools(|machine| Some(machine.vhost)),
        bools(|machine| Some(machine.huge_pages)),
        bools(|machine| Some(machine.cpu_pm)),
    ]
}

/// What VMMs' threads did, in the order of their columns.
fn threads(rows: &[Vm]) -> [ArrayRef; 7] {
    let u64s = |of: fn(&Threads) -> Option<u64>| {
        let each = rows.iter().map(|vm| of(vm.threads.as_ref()?));
        array(each.collect::<UInt64Array>())
    };
    let busiest = rows
        .iter()
        .map(|vm| vm.threads.as_ref()?.busiest.as_deref());
    [
        u64s(|it| Some(it.over_ns)),
        u64s(|it| it.vcpu_cpu_ns),
        u64s(|it| Some(it.main_cpu_ns)),
        u64s(|it| Some(it.main_runs)),
        u64s(|it| it.others_cpu_ns),
        array(busiest.collect::<StringArray>()),
        u64s(|it| it.busiest_cpu_ns),
    ]
}

/// The inverse of [`machine`]; where it was not known, no column but perhaps the first has a value.
fn machines_of(columns: &Columns<'_>) -> Result<Vec<Option<Machine>>, CaptureReadError> {
    let hpet = columns.later_bools("hpet")?;
    let no_ioeventfd = columns.later_bools("no_ioeventfd")?;
    let iothreads = columns.later_u64s("iothreads")?;
    let vhost = columns.later_bools("vhost")?;
    let huge_pages = columns.later_bools("huge_pages")?;
    let cpu_pm = columns.later_bools("cpu_pm")?;
    let machine = |row: usize| {
        Some(Machine {
            hpet: bool_at(hpet, row),
            no_ioeventfd: bool_at(no_ioeventfd, row)?,
            iothreads: u32::try_from(at(iothreads, row)?).unwrap_or(u32::MAX),
            vhost: bool_at(vhost, row)?,
            huge_pages: bool_at(huge_pages, row)?,
            cpu_pm: bool_at(cpu_pm, row)?,
        })
    };
    Ok((0..columns.len()).map(machine).collect())
}

fn threads_of(columns: &Columns<'_>) -> Result<Vec<Option<Threads>>, CaptureReadError> {
    let over_ns = columns.later_u64s("threads_ns")?;
    let vcpu_cpu_ns = columns.later_u64s("vcpu_cpu_ns")?;
    let main_cpu_ns = columns.later_u64s("main_cpu_ns")?;
    let main_runs = columns.later_u64s("main_runs")?;
    let others_cpu_ns = columns.later_u64s("others_cpu_ns")?;
    let busiest = columns.later_texts("busiest_thread")?;
    let busiest_cpu_ns = columns.later_u64s("busiest_cpu_ns")?;
    let name = |row: usize| {
        let array = busiest.filter(|array| array.is_valid(row))?;
        Some(array.value(row).to_owned())
    };
    let threads = |row: usize| {
        Some(Threads {
            over_ns: at(over_ns, row)?,
            vcpu_cpu_ns: at(vcpu_cpu_ns, row),
            main_cpu_ns: at(main_cpu_ns, row)?,
            main_runs: at(main_runs, row)?,
            others_cpu_ns: at(others_cpu_ns, row),
            busiest: name(row),
            busiest_cpu_ns: at(busiest_cpu_ns, row),
        })
    };
    Ok((0..columns.len()).map(threads).collect())
}

fn at(array: Option<&UInt64Array>, row: usize) -> Option<u64> {
    let array = array.filter(|array| array.is_valid(row))?;
    Some(array.value(row))
}

fn bool_at(array: Option<&BooleanArray>, row: usize) -> Option<bool> {
    let array = array.filter(|array| array.is_valid(row))?;
    Some(array.value(row))
}
