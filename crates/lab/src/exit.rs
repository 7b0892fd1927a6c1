//! Exits of a vCPU from `KVM_RUN`, parsed once; nothing else looks at `VcpuExit`.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use kvm_ioctls::VcpuExit;

/// Where a guest says that it has finished: any `out` to it ends the vCPU's thread.
pub const STOP_PORT: u16 = 0xf4;
/// Where a guest says that another thread shall run the vCPU from here on.
pub const HOP_PORT: u16 = 0xf5;
/// Where vCPU 0 of a guest announces and answers; vCPU N uses this plus N. Each has an ioeventfd,
/// so these never reach the VMM as exits.
pub const ANSWER_PORT: u16 = 0x600;

/// A userspace exit that a guest may make and that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserspaceExit {
    PioOut(u16),
    PioIn(u16),
    MmioRead(u64),
    MmioWrite(u64),
    /// HLT, where KVM has no irqchip.
    Hlt,
    /// The guest takes interrupts again, where KVM has no irqchip and the VMM asked to be told.
    IrqWindow,
}

impl fmt::Display for UserspaceExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PioOut(port) => write!(f, "pio-out-{port:#x}"),
            Self::PioIn(port) => write!(f, "pio-in-{port:#x}"),
            Self::MmioRead(address) => write!(f, "mmio-read-{address:#x}"),
            Self::MmioWrite(address) => write!(f, "mmio-write-{address:#x}"),
            Self::Hlt => f.write_str("user-hlt"),
            Self::IrqWindow => f.write_str("irq-window"),
        }
    }
}

pub type ExitCounts = BTreeMap<UserspaceExit, u64>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Counts it and runs on; reads have been answered with zeroes.
    Count(UserspaceExit),
    /// Counts it and runs on in another thread.
    Hop(UserspaceExit),
    /// Counts it, waits until something comes for the vCPU, and runs on.
    Halt,
    Stop,
    /// Ends with an error: no guest of ours does this.
    Unexpected(String),
}

/// Devices that a vCPU's exits go to, and that its interrupts come from if KVM has no irqchip.
pub trait Devices: Debug + Send {
    /// `in` from a port; the bytes are zeroes until they are answered.
    fn pio_in(&mut self, _port: u16, _bytes: &mut [u8]) {}

    fn pio_out(&mut self, _port: u16, _bytes: &[u8]) {}

    /// A read where no memory is; the bytes are zeroes until they are answered.
    fn mmio_read(&mut self, _address: u64, _bytes: &mut [u8]) {}

    fn mmio_write(&mut self, _address: u64, _bytes: &[u8]) {}

    /// Whether an interrupt controller in the VMM wants to interrupt the vCPU.
    fn has_interrupt(&self) -> bool {
        false
    }

    fn acknowledge(&mut self) -> Option<u8> {
        None
    }
}

/// Reads an exit, answering reads with zeroes where `devices` have no answer.
pub fn parse(exit: VcpuExit<'_>, devices: Option<&mut (dyn Devices + 'static)>) -> Next {
    let mut nothing = Nothing;
    let devices = devices.unwrap_or(&mut nothing);
    match exit {
        VcpuExit::IoOut(STOP_PORT, _) => Next::Stop,
        VcpuExit::IoOut(HOP_PORT, _) => Next::Hop(UserspaceExit::PioOut(HOP_PORT)),
        VcpuExit::IoOut(port, data) => {
            devices.pio_out(port, data);
            Next::Count(UserspaceExit::PioOut(port))
        }
        VcpuExit::IoIn(port, data) => {
            data.fill(0);
            devices.pio_in(port, data);
            Next::Count(UserspaceExit::PioIn(port))
        }
        VcpuExit::MmioRead(address, data) => {
            data.fill(0);
            devices.mmio_read(address, data);
            Next::Count(UserspaceExit::MmioRead(address))
        }
        VcpuExit::MmioWrite(address, data) => {
            devices.mmio_write(address, data);
            Next::Count(UserspaceExit::MmioWrite(address))
        }
        VcpuExit::IrqWindowOpen => Next::Count(UserspaceExit::IrqWindow),
        VcpuExit::Hlt => Next::Halt,
        other => Next::Unexpected(format!("{other:?}")),
    }
}

#[derive(Debug)]
struct Nothing;

impl Devices for Nothing {}

#[cfg(test)]
mod test {
    use super::*;

    fn parse(exit: VcpuExit<'_>) -> Next {
        super::parse(exit, None)
    }

    #[test]
    fn exits_are_told_apart() {
        let mut data = [9];
        assert_eq!(parse(VcpuExit::IoOut(STOP_PORT, &[0])), Next::Stop);
        assert_eq!(
            parse(VcpuExit::IoIn(5, &mut data)),
            Next::Count(UserspaceExit::PioIn(5))
        );
        assert_eq!(data, [0]);
        assert_eq!(
            parse(VcpuExit::MmioWrite(0xd000_0000, &[1])),
            Next::Count(UserspaceExit::MmioWrite(0xd000_0000))
        );
        assert_eq!(
            parse(VcpuExit::Shutdown),
            Next::Unexpected("Shutdown".to_owned())
        );
    }
}
