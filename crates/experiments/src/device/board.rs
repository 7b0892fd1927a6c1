//! A device at a port, whose lines go to a pair of 8259s: in the VMM, or in the kernel.
//!
//! The device is the same for both: an `out` of 1 to port [`LINE_PORT`] + N raises line N, of 0 lowers it,
//! of [`PULSE`] does both.

use std::sync::Arc;

use anyhow::Context as _;
use kvm_bindings::{
    KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, KvmIrqRouting, kvm_irq_routing_entry,
};
use kvm_ioctls::VmFd;

use super::Devices;
use super::pic::{LINES, PicPair};
use haltwise_lab::routing;
use haltwise_lab::vm::Vm;

pub const LINE_PORT: u16 = 0x700;
/// Raises and lowers a line: an edge.
pub const PULSE: u8 = 2;

/// Steps that an `out` to the device makes its line take, in order.
fn steps(port: u16, bytes: &[u8]) -> Option<(u8, &'static [bool])> {
    let line = u8::try_from(port.checked_sub(LINE_PORT)?).ok()?;
    let steps: &[bool] = match bytes {
        [0] => &[false],
        [1] => &[true],
        [PULSE] => &[true, false],
        _ => return None,
    };
    (line < LINES).then_some((line, steps))
}

/// The controllers are in the VMM: every access to them is an exit.
#[derive(Debug, Default)]
pub struct UserBoard {
    pub pic: PicPair,
}

impl Devices for UserBoard {
    fn pio_in(&mut self, port: u16, bytes: &mut [u8]) {
        self.pic.read(port, bytes);
    }

    fn pio_out(&mut self, port: u16, bytes: &[u8]) {
        let Some((line, steps)) = steps(port, bytes) else {
            self.pic.write(port, bytes);
            return;
        };
        for raised in steps {
            self.pic.set(line, *raised);
        }
    }

    fn has_interrupt(&self) -> bool {
        self.pic.interrupts()
    }

    fn acknowledge(&mut self) -> Option<u8> {
        self.pic.interrupts().then(|| self.pic.acknowledge())
    }
}

/// The controllers are in the kernel: only the device itself is an exit.
#[derive(Debug)]
pub struct KernelBoard {
    vm: Arc<VmFd>,
}

impl KernelBoard {
    /// Routes GSIs 0 to 15 to the controllers' lines, in place of all that was routed.
    ///
    /// # Panics
    /// Never: KVM takes 4096 entries, and these are 16.
    pub fn new(vm: &Vm) -> anyhow::Result<Self> {
        let entries: Vec<_> = (0..u32::from(LINES)).map(line).collect();
        let routing = KvmIrqRouting::from_entries(&entries).expect("16 entries, 4096 are allowed");
        let vm_fd = Arc::clone(vm.fd());
        let routed = vm_fd.set_gsi_routing(&routing);
        routed.with_context(|| format!("KVM_SET_GSI_ROUTING of VM `{}`", vm.config.name))?;
        Ok(Self { vm: vm_fd })
    }
}

impl Devices for KernelBoard {
    fn pio_out(&mut self, port: u16, bytes: &[u8]) {
        // Other accesses are none to the device; KVM takes every line that there is.
        if let Some((line, steps)) = steps(port, bytes) {
            for raised in steps {
                let _set = self.vm.set_irq_line(line.into(), *raised);
            }
        }
    }
}

fn line(gsi: u32) -> kvm_irq_routing_entry {
    let irqchip = if gsi < 8 {
        KVM_IRQCHIP_PIC_MASTER
    } else {
        KVM_IRQCHIP_PIC_SLAVE
    };
    routing::line(gsi, irqchip, gsi % 8)
}
