//! A VM of one vCPU whose exits go to devices: made, loaded for a time or a number of rounds, ended, counted.
//!
//! ```text
//! create -> (shape memory, lines) -> start -> wait, again and again, with the device's work between -> end
//! ```
//! Its guest counts rounds and goes on until it has done as many as it is told; to end it is to tell it 0.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::Context as _;
use haltwise_core::units::Nanos;
use iced_x86::IcedError;
use kvm_ioctls::IoEventAddress;

use super::Devices;
use super::virtio::register;
use haltwise_lab::clock;
use haltwise_lab::event::Event;
use haltwise_lab::guest::Program;
use haltwise_lab::memory::{MMIO, counter, param};
use haltwise_lab::outcome::VcpuOutcome;
use haltwise_lab::routing::Interrupts;
use haltwise_lab::tally;
use haltwise_lab::vcpu::{Ends, VcpuThread};
use haltwise_lab::vm::{self, Vm, VmConfig};

/// A VM that does not run yet.
#[derive(Debug)]
pub struct Machine {
    pub vm: Vm,
    devices: Option<Box<dyn Devices>>,
}

impl Machine {
    /// With a guest, with KVM's irqchip or without.
    pub fn create(
        name: &str,
        irqchip: bool,
        program: Result<Program, IcedError>,
    ) -> anyhow::Result<Self> {
        let program = program.with_context(|| format!("assemble `{name}`"))?;
        let config = VmConfig {
            name: name.to_owned(),
            vcpus: 1,
            vm_max_halt_poll_ns: None,
            pit: false,
            interrupts: if irqchip {
                Interrupts::Msi
            } else {
                Interrupts::Vmm
            },
        };
        let vm = Vm::create(&vm::open()?, config, &program)?;
        Ok(Self { vm, devices: None })
    }

    /// Sends exits to `devices`; without devices, exits are counted and answered with zeroes.
    #[must_use]
    pub fn with(mut self, devices: impl Devices + 'static) -> Self {
        self.devices = Some(Box::new(devices));
        self
    }

    pub(crate) fn notify(&self, queue: usize, event: &Event) -> anyhow::Result<()> {
        let index = u32::try_from(queue).unwrap_or(u32::MAX);
        let address = u64::from(MMIO) + u64::from(register::QUEUE_NOTIFY);
        let fd = self.vm.fd();
        fd.register_ioevent(event.fd(), &IoEventAddress::Mmio(address), index)
            .with_context(|| format!("KVM_IOEVENTFD of VM `{}`", self.vm.config.name))
    }

    /// Starts it, on a CPU, for so many rounds, or for as long as it is left to.
    pub fn start(mut self, cpu: Option<u32>, rounds: Option<u32>) -> anyhow::Result<Running> {
        let name = self.vm.config.name.clone();
        self.vm
            .memory
            .set_word(0, param::ROUNDS, rounds.unwrap_or(u32::MAX))?;
        let mut vcpu = self.vm.vcpus.remove(0);
        vcpu.devices = self.devices;
        let ends = Arc::new(Ends::new().context("create an eventfd")?);
        let start_ns = clock::now_ns();
        let thread = vcpu
            .start(format!("{name}-vcpu"), cpu, Arc::clone(&ends))
            .with_context(|| format!("VM `{name}`"))?;
        Ok(Running {
            vm: self.vm,
            thread,
            ends,
            start_ns,
        })
    }
}

#[derive(Debug)]
pub struct Running {
    pub vm: Vm,
    thread: VcpuThread,
    ends: Arc<Ends>,
    pub start_ns: u64,
}

impl Running {
    /// Waits until an instant; false if the guest has ended or `interrupt` is readable before it.
    pub fn wait_until(&self, instant_ns: u64, interrupt: BorrowedFd<'_>) -> anyhow::Result<bool> {
        loop {
            let now = clock::now_ns();
            if now >= instant_ns {
                return Ok(true);
            }
            let files = [self.ends.event.as_fd(), interrupt];
            let ready = clock::wait_any(files, Some(Nanos(instant_ns - now)));
            if ready.context("wait for the guest")?.contains(&true) {
                return Ok(false);
            }
        }
    }

    /// Ends it after its round, kicks it out if it does not end, and counts.
    pub fn end(self) -> anyhow::Result<Ended> {
        self.vm.memory.set_word(0, param::ROUNDS, 0)?;
        let ended = self.ends.wait(|| std::iter::once(&self.thread));
        ended.context("wait for an end")?;
        let elapsed_ns = clock::now_ns().saturating_sub(self.start_ns);
        let end = self.thread.join();
        let end = end.with_context(|| format!("VM `{}`", self.vm.config.name))?;
        Ok(Ended {
            rounds: self.vm.memory.word(0, counter::ROUNDS)?,
            interrupts: self.vm.memory.word(0, counter::INTERRUPTS)?,
            counts: tally::vcpu(&self.vm.memory, &end)?,
            vm: self.vm,
            elapsed_ns,
        })
    }
}

#[derive(Debug)]
pub struct Ended {
    pub vm: Vm,
    pub rounds: u32,
    pub interrupts: u32,
    pub counts: VcpuOutcome,
    pub elapsed_ns: u64,
}

impl Ended {
    /// Exits to the VMM, other than the last.
    pub fn exits_to_vmm(&self) -> u64 {
        self.counts.exits.values().sum()
    }

    /// Times that the vCPU's thread waited; no number where the system does not tell.
    pub fn switches(&self) -> f64 {
        let switches = self.counts.voluntary_switches;
        switches.map_or(f64::NAN, |switches| switches as f64)
    }

    pub fn cpu_us(&self) -> f64 {
        self.counts.cpu_ns as f64 / 1e3
    }

    pub fn elapsed_us(&self) -> f64 {
        self.elapsed_ns as f64 / 1e3
    }

    pub fn per_second(&self, count: f64) -> f64 {
        count / (self.elapsed_ns as f64 / 1e9)
    }
}
