//! VMs and vCPUs that were seen, as the roster in `capture.json` names them.

use arrow_array::ArrayRef;
use haltwise_core::event::{Observable, Vcpu, Vm};
use haltwise_core::identity::Identity;

use crate::cells::{Cell, Field, computed};
use crate::columns::Columns;
use crate::error::CaptureReadError;

table! {
    Vms: Vm {
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
    of {
        index as "vm", name, vmm, key, observable, from_ns/later, to_ns/later, paused,
        identity, machine, threads, ceiling_settable/later
    }
}

impl Field for Observable {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        to.push(computed(cells.clone(), |it| *it == Self::Yes));
        to.push(computed(cells, |it| match it {
            Self::Yes => None,
            Self::No(reason) => Some(reason.clone()),
        }));
    }

    fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
        let observable: Vec<bool> = Cell::read(columns, "observable")?;
        let reasons: Vec<Option<String>> = Cell::read(columns, "unobservable_reason")?;
        let both = observable.into_iter().zip(reasons);
        let both = both.map(|(observable, reason)| {
            if observable {
                Self::Yes
            } else {
                Self::No(reason.unwrap_or_default())
            }
        });
        Ok(both.collect())
    }
}

impl Field for Identity {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        let named = |kind: usize| move |it: &Self| it.names()[kind].1.map(str::to_owned);
        to.extend((0..Self::KINDS).map(|kind| computed(cells.clone(), named(kind))));
    }

    fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
        let kinds = Self::default().names().map(|(kind, _)| kind).into_iter();
        let names: Vec<Vec<Option<String>>> = kinds
            .map(|kind| columns.later(kind))
            .collect::<Result<_, _>>()?;
        let rows = 0..columns.len();
        let of_row = |row: usize| std::array::from_fn(|kind| names[kind][row].clone());
        Ok(rows.map(|row| Self::from_names(of_row(row))).collect())
    }
}

table! {
    Vcpus: Vcpu {
        vm: U32, "Its VM.";
        vcpu: U32, "Its number.";
        tid: U32, "The thread that runs it.";
        window_ns: U32, null "not readable", "Window when last looked at.";
        ceiling_ns: U32, null "not readable", "Ceiling when last looked at.";
        ceiling_source: Name, "Who set it, as in `halts`.";
        guest_veto: Bool, null "not readable",
            "The guest switched host polling off (x86 `MSR_KVM_POLL_CONTROL`, bit 0 clear).";
        cpu_ns: U64, null "not known", "CPU time of its thread in the VM's `threads_ns`. Older captures lack it.";
        queued_ns: U64, null "not known",
            "Time in which its thread was runnable and waited for a CPU. Older captures lack it.";
        guest_ns: U64, null "not known",
            "CPU time in the guest, as the kernel's tick samples it: 0 where the kernel counts none. Older captures lack it.";
        real_time: Bool, null "not known",
            "Its thread has the policy `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`. Older captures lack it.";
    }
    of {
        vm, id as "vcpu", tid, window_ns, ceiling_ns, ceiling_source, guest_veto, time
    }
}
