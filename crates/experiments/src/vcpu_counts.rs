//! The counts that an observer from outside must have of one vCPU, by what [`haltwise_lab::run`] knows of it.

use std::collections::BTreeMap;

use haltwise_lab::outcome::VcpuOutcome;

/// Returns of `KVM_RUN` to the VMM by KVM's names (`KVM_EXIT_IO`), the last one included, by which the guest ended.
pub(crate) fn userspace(vcpu: &VcpuOutcome) -> BTreeMap<&'static str, u64> {
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
    userspace
}

/// KVM's `halt_exits`. A HLT that exits to the VMM is not among them.
pub(crate) fn halt_exits(vcpu: &VcpuOutcome) -> Option<u64> {
    let to_vmm = userspace(vcpu).get("KVM_EXIT_HLT").copied().unwrap_or(0);
    // KVM counts a HLT before it knows who handles it.
    Some(vcpu.stat("halt_exits")?.saturating_sub(to_vmm))
}
