//! KVM's VM object: memory, in-kernel irqchip and PIT, interrupt lines, polling cap, statistics.
//!
//! [`routing`] says which way interrupts go. Where the VMM handles halts itself ([`Interrupts::Vmm`]), there
//! is no irqchip: the lines are bells, and the vCPU's halt loop hands the vector in with `KVM_INTERRUPT`.

use std::io;
use std::sync::Arc;

use haltwise_core::units::HaltPollNs;
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_pit_config};
use kvm_ioctls::{IoEventAddress, Kvm, NoDatamatch, VmFd};

use crate::bell::{Bell, Line, Signal};
use crate::event::Event;
use crate::exit::ANSWER_PORT;
use crate::guest::Program;
use crate::ioctl::{self, SetMemoryError};
use crate::memory::{CODE, GuestMemory, MAX_VCPUS, MemoryError};
use crate::routing::{self, Interrupts};
use crate::stats_fd::StatsFd;
use crate::vcpu::{Vcpu, VcpuError};

/// Three pages that VMX uses for real mode on CPUs that cannot run it directly.
const TSS_ADDRESS: usize = 0xfffb_d000;
const IDENTITY_MAP_ADDRESS: u64 = 0xfffb_c000;

/// Why /dev/kvm could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No KVM here.
    #[error("open /dev/kvm: this host offers no KVM")]
    Unsupported(#[source] kvm_ioctls::Error),
    /// Not for us.
    #[error("open /dev/kvm: not permitted")]
    Denied(#[source] kvm_ioctls::Error),
    /// Anything else.
    #[error("open /dev/kvm")]
    Failed(#[source] kvm_ioctls::Error),
}

/// Why a VM could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VmError {
    #[error("{step} of VM `{vm}`")]
    Ioctl {
        step: &'static str,
        vm: String,
        #[source]
        source: kvm_ioctls::Error,
    },
    /// The kernel refused a step outside of kvm-ioctls.
    #[error("{step} of VM `{vm}`")]
    Io {
        step: &'static str,
        vm: String,
        #[source]
        source: io::Error,
    },
    #[error("lay out memory of VM `{vm}`")]
    Memory {
        vm: String,
        #[source]
        source: MemoryError,
    },
    #[error("give memory to VM `{vm}`")]
    SetMemory {
        vm: String,
        #[source]
        source: SetMemoryError,
    },
    #[error("create vCPU of VM `{vm}`")]
    Vcpu {
        vm: String,
        #[source]
        source: VcpuError,
    },
    /// This kernel has no per-VM cap.
    #[error("set the polling cap of VM `{vm}`: this kernel has no KVM_CAP_HALT_POLL (since 5.8)")]
    NoCap { vm: String },
    #[error("create {0} vCPUs in a VM: 1 to {MAX_VCPUS} are possible")]
    VcpuCount(u32),
}

pub fn open() -> Result<Kvm, OpenError> {
    Kvm::new().map_err(
        |error| match rustix::io::Errno::from_raw_os_error(error.errno()) {
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => OpenError::Denied(error),
            rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO => {
                OpenError::Unsupported(error)
            }
            _ => OpenError::Failed(error),
        },
    )
}

#[derive(Debug, Clone)]
pub struct VmConfig {
    pub name: String,
    pub vcpus: u32,
    /// Its ceiling of halt polling (`KVM_CAP_HALT_POLL`); the module parameter is in force if `None`.
    pub vm_max_halt_poll_ns: Option<HaltPollNs>,
    pub pit: bool,
    pub interrupts: Interrupts,
}

#[derive(Debug)]
pub struct Lines {
    /// Raises [`crate::guest::WAKE`].
    pub wake: Line,
    /// Raises [`crate::guest::STOP`].
    pub stop: Line,
    /// Signalled by the guest's `out` to its answer port.
    pub answer: Event,
    /// What both are, where there is no irqchip.
    pub bell: Option<Arc<Bell>>,
}

/// A VM whose vCPUs have not been started.
#[derive(Debug)]
pub struct Vm {
    pub config: VmConfig,
    pub memory: GuestMemory,
    pub lines: Vec<Arc<Lines>>,
    /// vCPUs by index, until their threads take them.
    pub vcpus: Vec<Vcpu>,
    /// Statistics of the VM itself, if the kernel keeps them.
    pub stats: Option<StatsFd>,
    fd: Arc<VmFd>,
}

impl Vm {
    /// Creates a VM that will run `program` from its first instruction on.
    pub fn create(kvm: &Kvm, config: VmConfig, program: &Program) -> Result<Self, VmError> {
        if !(1..=MAX_VCPUS).contains(&config.vcpus) {
            return Err(VmError::VcpuCount(config.vcpus));
        }
        let step = Steps(&config.name);
        let fd = step.ioctl("KVM_CREATE_VM", kvm.create_vm())?;
        // Where it cannot be announced, its ceiling cannot be set from outside.
        haltwise_governor::announce(&fd);
        let memory = step.memory(GuestMemory::new())?;
        ioctl::set_memory(&fd, &memory).map_err(|source| VmError::SetMemory {
            vm: config.name.clone(),
            source,
        })?;
        step.ioctl("KVM_SET_TSS_ADDR", fd.set_tss_address(TSS_ADDRESS))?;
        step.ioctl(
            "KVM_SET_IDENTITY_MAP_ADDR",
            fd.set_identity_map_address(IDENTITY_MAP_ADDRESS),
        )?;
        if config.interrupts.have_irqchip() {
            step.ioctl("KVM_CREATE_IRQCHIP", fd.create_irq_chip())?;
        }
        if config.pit {
            step.ioctl("KVM_CREATE_PIT2", fd.create_pit2(kvm_pit_config::default()))?;
            step.io("KVM_REINJECT_CONTROL", ioctl::disable_pit_reinjection(&fd))?;
        }
        if let Some(cap) = config.vm_max_halt_poll_ns {
            set_cap(&fd, &config.name, cap)?;
        }
        step.memory(load(&memory, program))?;
        route(&fd, &step, &config)?;
        let lines = (0..config.vcpus)
            .map(|vcpu| lines(&fd, &step, &config, vcpu))
            .collect::<Result<_, _>>()?;
        let cpuid = step.ioctl(
            "KVM_GET_SUPPORTED_CPUID",
            kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES),
        )?;
        let vcpus = create_vcpus(&fd, &config, &cpuid, &memory, program)?;
        let stats = StatsFd::of(&fd).ok();
        Ok(Self {
            config,
            memory,
            lines,
            vcpus,
            stats,
            fd: Arc::new(fd),
        })
    }

    pub fn set_cap(&self, ceiling: HaltPollNs) -> Result<(), VmError> {
        set_cap(&self.fd, &self.config.name, ceiling)
    }

    /// The VM's own descriptor, for what this type does not cover.
    pub fn fd(&self) -> &VmFd {
        &self.fd
    }

    /// The same for a device, which may outlive this.
    pub fn shared_fd(&self) -> Arc<VmFd> {
        Arc::clone(&self.fd)
    }
}

fn create_vcpus(
    fd: &VmFd,
    config: &VmConfig,
    cpuid: &CpuId,
    memory: &GuestMemory,
    program: &Program,
) -> Result<Vec<Vcpu>, VmError> {
    (0..config.vcpus)
        .map(|id| {
            Vcpu::create(
                fd,
                id,
                cpuid,
                memory,
                program.entry,
                config.interrupts.have_irqchip(),
            )
            .map_err(|source| VmError::Vcpu {
                vm: config.name.clone(),
                source,
            })
        })
        .collect()
}

fn set_cap(fd: &VmFd, vm: &str, ceiling: HaltPollNs) -> Result<(), VmError> {
    let unknown = rustix::io::Errno::INVAL.raw_os_error();
    haltwise_governor::set_ceiling(fd, ceiling.0).map_err(|source| {
        let vm = vm.to_owned();
        if source.raw_os_error() == Some(unknown) {
            return VmError::NoCap { vm };
        }
        let step = "KVM_ENABLE_CAP(KVM_CAP_HALT_POLL)";
        VmError::Io { step, vm, source }
    })
}

fn load(memory: &GuestMemory, program: &Program) -> Result<(), MemoryError> {
    memory.write(CODE.into(), &program.code)?;
    program
        .vectors
        .iter()
        .try_for_each(|&(vector, ip)| memory.set_vector(vector, ip))
}

/// Takes interrupts where they are to go.
fn route(fd: &VmFd, step: &Steps<'_>, config: &VmConfig) -> Result<(), VmError> {
    let interrupts = config.interrupts;
    if !interrupts.have_irqchip() {
        return Ok(());
    }
    let table = routing::table(interrupts, config.vcpus);
    step.ioctl("KVM_SET_GSI_ROUTING", fd.set_gsi_routing(&table))?;
    if interrupts == Interrupts::Ioapic {
        let ioapic = routing::ioapic(config.vcpus);
        step.ioctl("KVM_SET_IRQCHIP", fd.set_irqchip(&ioapic))?;
    }
    Ok(())
}

fn lines(fd: &VmFd, step: &Steps<'_>, config: &VmConfig, vcpu: u32) -> Result<Arc<Lines>, VmError> {
    let event = || step.io("eventfd", Event::new());
    let answer = event()?;
    let port = IoEventAddress::Pio(u64::from(ANSWER_PORT) + u64::from(vcpu));
    step.ioctl(
        "KVM_IOEVENTFD",
        fd.register_ioevent(answer.fd(), &port, NoDatamatch),
    )?;
    if !config.interrupts.have_irqchip() {
        let bell = Arc::new(step.io("eventfd", Bell::new())?);
        return Ok(Arc::new(Lines {
            wake: Line::Bell(Arc::clone(&bell), Signal::Wake),
            stop: Line::Bell(Arc::clone(&bell), Signal::Stop),
            answer,
            bell: Some(bell),
        }));
    }
    let irqfd = |gsi: u32| {
        let event = event()?;
        step.ioctl("KVM_IRQFD", fd.register_irqfd(event.fd(), gsi))?;
        Ok(Line::Irqfd(event))
    };
    Ok(Arc::new(Lines {
        wake: irqfd(routing::wake_gsi(vcpu))?,
        stop: irqfd(routing::stop_gsi(vcpu))?,
        answer,
        bell: None,
    }))
}

/// Puts the step and the VM's name to an error.
struct Steps<'a>(&'a str);

impl Steps<'_> {
    fn ioctl<T>(
        &self,
        step: &'static str,
        result: Result<T, kvm_ioctls::Error>,
    ) -> Result<T, VmError> {
        result.map_err(|source| VmError::Ioctl {
            step,
            vm: self.0.to_owned(),
            source,
        })
    }

    fn io<T>(&self, step: &'static str, result: io::Result<T>) -> Result<T, VmError> {
        result.map_err(|source| VmError::Io {
            step,
            vm: self.0.to_owned(),
            source,
        })
    }

    fn memory<T>(&self, result: Result<T, MemoryError>) -> Result<T, VmError> {
        result.map_err(|source| VmError::Memory {
            vm: self.0.to_owned(),
            source,
        })
    }
}
