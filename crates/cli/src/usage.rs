//! The CPU time of a VM, from the scheduler's counts of its VMM's threads.

use haltwise_core::event::{Observable, Vcpu, Vm};
use haltwise_document::figures;

figures! {
    /// CPU time of a VM between two looks at the threads of its VMM.
    #[derive(Clone, Copy)]
    #[expect(
        clippy::struct_field_names,
        reason = "names of figures say what they count"
    )]
    pub(crate) struct CpuFigures {
        /// All threads of the VMM.
        pub(crate) cpu_percent: f64 = CpuPercent "CPU",
        /// The guest, as the kernel's tick samples it; `null` where the kernel counts no guest time, as where KVM
        /// virtualises in software.
        pub(crate) guest_cpu_percent: Option<f64> = CpuPercent "guest",
        /// The rest of the threads that run vCPUs, without polling: exits, and what KVM and the VMM do about them.
        pub(crate) exits_cpu_percent: Option<f64> = CpuPercent "exits",
        /// Threads of the VMM that run no vCPU.
        pub(crate) vmm_cpu_percent: f64 = CpuPercent "VMM",
    }
}

impl CpuFigures {
    /// `None` where the CPU time of the vCPUs' threads was not recorded.
    pub(crate) fn of<'a>(
        vm: &Vm,
        vcpus: impl Iterator<Item = &'a Vcpu>,
        (halts, poll_cpu_percent): (u64, Option<f64>),
    ) -> Option<Self> {
        let is_seen = vm.observable == Observable::Yes;
        let no_halt = (halts == 0 && is_seen).then_some(0.0);
        let polling = poll_cpu_percent.or(no_halt);
        let times = vcpus.map(|vcpu| vcpu.time);
        let threads = vm.threads.as_ref()?;
        let spent = threads.cpu_use(times, polling.map(|percent| percent / 100.0))?;
        let percent = |cpus: f64| cpus * 100.0;
        Some(Self {
            cpu_percent: percent(spent.all),
            guest_cpu_percent: spent.guest.map(percent),
            exits_cpu_percent: spent.exits.map(percent),
            vmm_cpu_percent: percent(spent.vmm),
        })
    }
}
