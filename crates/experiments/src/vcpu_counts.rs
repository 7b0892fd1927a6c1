//! The counts of one vCPU that whoever watches it from outside must come to.

use std::collections::BTreeMap;

use haltwise_lab::outcome::VcpuOutcome;

/// What the lab knows of one vCPU's halts and exits, from the guest, KVM's stats fd and the run loop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VcpuCounts {
    pub id: u32,
    pub hlts: u64,
    /// KVM's `halt_exits`. A HLT that exits to the VMM is not among them.
    pub halt_exits: Option<u64>,
    /// Halts that were scheduled out, KVM's `halt_wait_hist`.
    pub waits: Option<u64>,
    pub attempted: Option<u64>,
    pub successful: Option<u64>,
    pub success_ns: Option<u64>,
    pub fail_ns: Option<u64>,
    pub cpu_ns: u64,
    /// Context switches because it waited.
    pub voluntary_switches: Option<u64>,
    /// Returns of `KVM_RUN` to the VMM by KVM's names (`KVM_EXIT_IO`), the last one included.
    pub userspace: BTreeMap<&'static str, u64>,
}

impl VcpuCounts {
    /// Of a vCPU that [`haltwise_lab::run`] ran. Its last exit, by which the guest ended, is counted with the
    /// others.
    pub fn of(vcpu: &VcpuOutcome) -> Self {
        let stat = |name: &str| vcpu.stats.get(name).copied();
        let mut userspace = BTreeMap::from([("KVM_EXIT_IO", 1)]);
        for (name, count) in &vcpu.exits {
            let kind = match name.split('-').next() {
                Some("pio") => "KVM_EXIT_IO",
                Some("mmio") => "KVM_EXIT_MMIO",
                Some("user") => "KVM_EXIT_HLT",
                Some("irq") => "KVM_EXIT_IRQ_WINDOW_OPEN",
                // Counted by the guest: they never reach the VMM.
                _ => continue,
            };
            *userspace.entry(kind).or_default() += count;
        }
        let to_vmm = userspace.get("KVM_EXIT_HLT").copied().unwrap_or(0);
        Self {
            id: vcpu.id,
            hlts: vcpu.halts,
            // KVM counts a HLT before it knows who handles it.
            halt_exits: stat("halt_exits").map(|exits| exits.saturating_sub(to_vmm)),
            waits: vcpu.waits(),
            attempted: stat("halt_attempted_poll"),
            successful: stat("halt_successful_poll"),
            success_ns: stat("halt_poll_success_ns"),
            fail_ns: stat("halt_poll_fail_ns"),
            cpu_ns: vcpu.cpu_ns,
            voluntary_switches: vcpu.voluntary_switches,
            userspace,
        }
    }
}
