//! Price of a remedy, and where the remedy does harm: no remedy is given without both.

/// The price of a remedy, and when it does harm, each in sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub price: &'static str,
    pub harm: &'static str,
}

impl Terms {
    pub(super) const fn new(price: &'static str, harm: &'static str) -> Self {
        Self { price, harm }
    }
}

pub(super) const HOST_POLLS_MORE: Terms = Terms::new(
    "CPU time and power of the host: a poll that fails takes the whole window, and then the vCPU sleeps all the \
     same.",
    "Where the CPUs have no time to spare, or a vCPU's hyperthread sibling or the turbo frequency is wanted by \
     others.",
);

pub(super) const HOST_POLLS_LESS: Terms = Terms::new(
    "Latency: wake-ups that polls met until now take a sleep and its wake-up.",
    "A guest whose replies come within the window: each of them gets later.",
);

pub(super) const GUEST_POLLS_MORE: Terms = Terms::new(
    "CPU time and power: a poll that ends by its limit takes the whole limit, and then the CPU executes HLT all the \
     same. The host sees the vCPU as busy.",
    "Where the host has other work for the CPU (steal): it cannot end a guest's poll, as it ends its own.",
);

pub(super) const GUEST_POLLS_LESS: Terms = Terms::new(
    "Latency: halts that a poll ended until now take an exit, and the wake-up of a vCPU.",
    "A guest on CPUs of its own whose tasks wake each other within the limit: each wake gets later, and needs an \
     IPI.",
);

/// The guest stops to poll for itself, and leaves that to the host.
pub(super) const HOST_POLLS_FOR_GUEST: Terms = Terms::new(
    "A restart of the guest, or the removal of a module; each halt then exits.",
    "A guest on CPUs of its own that wakes within its guest_halt_poll_ns: its wake-ups take an exit and an \
     interrupt longer.",
);

pub(super) const NOTHING_DONE: Terms = Terms::new(
    "None: nothing is changed.",
    "None, as long as what is read from the recording takes it into account.",
);

pub(super) const FEWER_VCPUS: Terms = Terms::new(
    "The CPUs that are added, or another host for the VMs that leave; a VM with fewer vCPUs has less throughput at \
     its peak.",
    "A VM that needs all of its vCPUs at once gets slower, and CPUs of another NUMA node make its memory remote.",
);

pub(super) const MODULE_RELOADED: Terms = Terms::new(
    "All VMs of the host have to stop, or move to another host, while the module is loaded again.",
    "Where VMs must not stop, or where the parameter was set otherwise because of a processor erratum.",
);

pub(super) const HYPERV: Terms = Terms::new(
    "It holds from the VM's next start, and every host to which the VM may migrate has to offer the same.",
    "A Linux guest: it then uses Hyper-V's interface in place of KVM's. `hv-synic` without `hv-avic` (QEMU 6.2, Linux \
     5.15) switches APICv and AVIC off; leave `hv-avic` out where the CPU has neither.",
);
