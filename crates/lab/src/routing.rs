//! Which way interrupts go from a GSI to a vCPU's local APIC.
//!
//! | GSI | from | vector of vCPU N |
//! |---|---|---|
//! | 0 | the in-kernel PIT | vCPU 0, [`guest::TICK`] |
//! | 24 + 2N | [`crate::vm::Lines::wake`], an irqfd | [`guest::WAKE`] |
//! | 25 + 2N | [`crate::vm::Lines::stop`], an irqfd | [`guest::STOP`] |
//!
//! As MSIs these need no IOAPIC, and KVM delivers them in the context that signals the irqfd. Through the IOAPIC
//! KVM hands each to a kernel thread first (`irqfd_inject` in `virt/kvm/eventfd.c`), as it does for the
//! level and edge interrupts of a VMM's ordinary devices.

use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_IRQCHIP_IOAPIC, KvmIrqRouting,
    kvm_ioapic_state, kvm_irq_routing_entry, kvm_irq_routing_entry__bindgen_ty_1,
    kvm_irq_routing_irqchip, kvm_irq_routing_msi, kvm_irqchip, kvm_irqchip__bindgen_ty_1,
};

use crate::guest;
use crate::memory::MAX_VCPUS;

const PIT_GSI: u32 = 0;
const FIRST_LINE_GSI: u32 = 24;
/// Pins of KVM's IOAPIC (`IOAPIC_NUM_PINS`); the lines of vCPUs begin at the second of these.
const PINS: u32 = 24;
const FIRST_LINE_PIN: u32 = 4;
/// Where an IOAPIC's registers lie on a PC (`IOAPIC_DEFAULT_BASE_ADDRESS`).
const IOAPIC_BASE: u64 = 0xfec0_0000;
/// An entry that delivers nothing: Intel 82093AA, "I/O redirection table".
const MASKED: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interrupts {
    /// As MSIs, to local APICs in KVM.
    #[default]
    Msi,
    Ioapic,
    /// KVM has no irqchip: the VMM handles halts and hands vectors in.
    Vmm,
}

impl Interrupts {
    /// Whether KVM emulates the local APICs, and so handles HLT.
    pub fn have_irqchip(self) -> bool {
        self != Self::Vmm
    }

    /// The most vCPUs that have lines of their own.
    pub fn max_vcpus(self) -> u32 {
        match self {
            Self::Ioapic => (PINS - FIRST_LINE_PIN) / 2,
            Self::Msi | Self::Vmm => MAX_VCPUS,
        }
    }
}

pub(crate) fn wake_gsi(vcpu: u32) -> u32 {
    FIRST_LINE_GSI + 2 * vcpu
}

pub(crate) fn stop_gsi(vcpu: u32) -> u32 {
    wake_gsi(vcpu) + 1
}

fn pin_of(gsi: u32) -> u32 {
    match gsi {
        PIT_GSI => 0,
        line => line - FIRST_LINE_GSI + FIRST_LINE_PIN,
    }
}

/// Each GSI with the vCPU and the vector that it is for.
fn lines(vcpus: u32) -> impl Iterator<Item = (u32, u32, u8)> {
    let lines = |vcpu| {
        [
            (wake_gsi(vcpu), vcpu, guest::WAKE),
            (stop_gsi(vcpu), vcpu, guest::STOP),
        ]
    };
    std::iter::once((PIT_GSI, 0, guest::TICK)).chain((0..vcpus).flat_map(lines))
}

pub(crate) fn table(interrupts: Interrupts, vcpus: u32) -> KvmIrqRouting {
    let entry = |(gsi, vcpu, vector)| match interrupts {
        Interrupts::Ioapic => line(gsi, KVM_IRQCHIP_IOAPIC, pin_of(gsi)),
        Interrupts::Msi | Interrupts::Vmm => msi(gsi, vcpu, vector),
    };
    let entries: Vec<_> = lines(vcpus).map(entry).collect();
    KvmIrqRouting::from_entries(&entries).expect("129 entries at most, 4096 are allowed")
}

/// The IOAPIC as a guest would have programmed it: fixed delivery, physical destination, edge.
pub(crate) fn ioapic(vcpus: u32) -> kvm_irqchip {
    let mut state = kvm_ioapic_state {
        base_address: IOAPIC_BASE,
        ..Default::default()
    };
    for entry in &mut state.redirtbl {
        entry.bits = MASKED;
    }
    for (gsi, vcpu, vector) in lines(vcpus) {
        state.redirtbl[pin_of(gsi) as usize].bits = u64::from(vcpu) << 56 | u64::from(vector);
    }
    kvm_irqchip {
        chip_id: KVM_IRQCHIP_IOAPIC,
        pad: 0,
        chip: kvm_irqchip__bindgen_ty_1 { ioapic: state },
    }
}

/// The line of a chip in the kernel.
pub fn line(gsi: u32, irqchip: u32, pin: u32) -> kvm_irq_routing_entry {
    kvm_irq_routing_entry {
        gsi,
        type_: KVM_IRQ_ROUTING_IRQCHIP,
        flags: 0,
        pad: 0,
        u: kvm_irq_routing_entry__bindgen_ty_1 {
            irqchip: kvm_irq_routing_irqchip { irqchip, pin },
        },
    }
}

/// Fixed delivery, physical destination, edge: Intel SDM volume 3, "Message Signalled Interrupts".
fn msi(gsi: u32, vcpu: u32, vector: u8) -> kvm_irq_routing_entry {
    kvm_irq_routing_entry {
        gsi,
        type_: KVM_IRQ_ROUTING_MSI,
        flags: 0,
        pad: 0,
        u: kvm_irq_routing_entry__bindgen_ty_1 {
            msi: kvm_irq_routing_msi {
                address_lo: 0xfee0_0000 | vcpu << 12,
                address_hi: 0,
                data: vector.into(),
                ..Default::default()
            },
        },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_line_has_a_pin_of_its_own_within_the_ioapic() {
        let pins = lines(Interrupts::Ioapic.max_vcpus()).map(|(gsi, ..)| pin_of(gsi));
        let pins: Vec<u32> = pins.collect();
        let mut unique = pins.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), pins.len());
        assert!(pins.iter().all(|pin| *pin < PINS), "{pins:?}");
    }
}
