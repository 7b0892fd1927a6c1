//! KVM's VM object: memory, in-kernel irqchip and PIT, interrupt lines, polling cap, statistics.
//!
//! [`routing`] says which way interrupts go. Where the VMM handles halts itself ([`Interrupts::Vmm`]), there
//! is no irqchip: the lines are bells, and the vCPU's halt loop hands the vector in with `KVM_INTERRUPT`.

use std::io;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use haltwise_core::units::HaltPollNs;
use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_pit_config};
use kvm_ioctls::{IoEventAddress, Kvm, NoDatamatch, VmFd};

use crate::bell::{Bell, Line};
use crate::event::Event;
use crate::exit::ANSWER_PORT;
use crate::guest::{self, Program};
use crate::ioctl;
use crate::memory::{CODE, GuestMemory, MAX_VCPUS};
use crate::routing::{self, Interrupts};
use crate::stats_fd::StatsFd;
use crate::vcpu::Vcpu;

/// Three pages that VMX uses for real mode on CPUs that cannot run it directly.
const TSS_ADDRESS: usize = 0xfffb_d000;
const IDENTITY_MAP_ADDRESS: u64 = 0xfffb_c000;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("open /dev/kvm: this host offers no KVM")]
    Unsupported(#[source] kvm_ioctls::Error),
    #[error("open /dev/kvm: not permitted")]
    Denied(#[source] kvm_ioctls::Error),
    #[error("open /dev/kvm")]
    Failed(#[source] kvm_ioctls::Error),
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
    /// Raises [`guest::WAKE`].
    pub wake: Line,
    /// Raises [`guest::STOP`].
    pub stop: Line,
    /// Signalled by the guest's `out` to its answer port.
    pub answer: Event,
    /// Bell behind `wake` and `stop`, where there is no irqchip.
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
    pub stats: Option<Arc<StatsFd>>,
    fd: Arc<VmFd>,
}

impl Vm {
    /// Creates a VM that will run `program` from its first instruction on.
    pub fn create(kvm: &Kvm, config: VmConfig, program: &Program) -> anyhow::Result<Self> {
        ensure!(
            (1..=MAX_VCPUS).contains(&config.vcpus),
            "create {} vCPUs in a VM: 1 to {MAX_VCPUS} are possible",
            config.vcpus
        );
        let of = |step| of(step, &config);
        let fd = create(kvm).with_context(of("KVM_CREATE_VM"))?;
        // Where it cannot be announced, its ceiling cannot be set from outside.
        haltwise_governor::announce(&fd);
        let memory = GuestMemory::new().with_context(of("lay out memory"))?;
        ioctl::set_memory(&fd, &memory)
            .with_context(|| format!("give memory to VM `{}`", config.name))?;
        fd.set_tss_address(TSS_ADDRESS)
            .with_context(of("KVM_SET_TSS_ADDR"))?;
        fd.set_identity_map_address(IDENTITY_MAP_ADDRESS)
            .with_context(of("KVM_SET_IDENTITY_MAP_ADDR"))?;
        if config.interrupts.have_irqchip() {
            fd.create_irq_chip()
                .with_context(of("KVM_CREATE_IRQCHIP"))?;
        }
        if config.pit {
            fd.create_pit2(kvm_pit_config::default())
                .with_context(of("KVM_CREATE_PIT2"))?;
            ioctl::disable_pit_reinjection(&fd).with_context(of("KVM_REINJECT_CONTROL"))?;
        }
        if let Some(cap) = config.vm_max_halt_poll_ns {
            set_cap(&fd, &config, cap)?;
        }
        load(&memory, program).with_context(of("lay out memory"))?;
        route(&fd, &config)?;
        let lines = (0..config.vcpus).map(|vcpu| lines(&fd, &config, vcpu));
        let lines = lines.collect::<Result<_, _>>()?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        let cpuid = cpuid.with_context(of("KVM_GET_SUPPORTED_CPUID"))?;
        let irqchip = config.interrupts.have_irqchip();
        let vcpus = (0..config.vcpus)
            .map(|id| Vcpu::create(&fd, id, &cpuid, &memory, program.entry, irqchip))
            .collect::<anyhow::Result<_>>()
            .with_context(of("create vCPU"))?;
        let stats = StatsFd::of(&fd).ok().map(Arc::new);
        Ok(Self {
            config,
            memory,
            lines,
            vcpus,
            stats,
            fd: Arc::new(fd),
        })
    }

    pub fn set_cap(&self, ceiling: HaltPollNs) -> anyhow::Result<()> {
        set_cap(&self.fd, &self.config, ceiling)
    }

    /// Beginning of error messages about the VM.
    pub fn title(&self) -> String {
        format!("VM `{}`", self.config.name)
    }

    /// The VM's own descriptor, for what this type does not cover; a device that has it may outlive this.
    pub fn fd(&self) -> &Arc<VmFd> {
        &self.fd
    }
}

/// A new VM. KVM gives up with EINTR while a signal or work of a ring (io-uring) is pending
/// (`mm_take_all_locks`).
fn create(kvm: &Kvm) -> Result<VmFd, kvm_ioctls::Error> {
    loop {
        match kvm.create_vm() {
            Err(error) if io::Error::from(error).kind() == io::ErrorKind::Interrupted => {}
            created => return created,
        }
    }
}

fn of(step: &'static str, config: &VmConfig) -> impl FnOnce() -> String {
    move || format!("{step} of VM `{}`", config.name)
}

fn set_cap(fd: &VmFd, config: &VmConfig, ceiling: HaltPollNs) -> anyhow::Result<()> {
    let unknown = rustix::io::Errno::INVAL.raw_os_error();
    let set = haltwise_governor::set_ceiling(fd, ceiling.0);
    ensure!(
        !matches!(&set, Err(error) if error.raw_os_error() == Some(unknown)),
        "set the polling cap of VM `{}`: this kernel has no KVM_CAP_HALT_POLL (since 5.8)",
        config.name
    );
    set.with_context(of("KVM_ENABLE_CAP(KVM_CAP_HALT_POLL)", config))
}

fn load(memory: &GuestMemory, program: &Program) -> anyhow::Result<()> {
    memory.write(CODE.into(), &program.code)?;
    program
        .vectors
        .iter()
        .try_for_each(|&(vector, ip)| memory.set_vector(vector, ip))
}

/// Takes interrupts where they are to go.
fn route(fd: &VmFd, config: &VmConfig) -> anyhow::Result<()> {
    let interrupts = config.interrupts;
    if !interrupts.have_irqchip() {
        return Ok(());
    }
    let table = routing::table(interrupts, config.vcpus);
    fd.set_gsi_routing(&table)
        .with_context(of("KVM_SET_GSI_ROUTING", config))?;
    if interrupts == Interrupts::Ioapic {
        let ioapic = routing::ioapic(config.vcpus);
        fd.set_irqchip(&ioapic)
            .with_context(of("KVM_SET_IRQCHIP", config))?;
    }
    Ok(())
}

fn lines(fd: &VmFd, config: &VmConfig, vcpu: u32) -> anyhow::Result<Arc<Lines>> {
    let event = || Event::new().with_context(of("eventfd", config));
    let answer = event()?;
    let port = IoEventAddress::Pio(u64::from(ANSWER_PORT) + u64::from(vcpu));
    fd.register_ioevent(answer.fd(), &port, NoDatamatch)
        .with_context(of("KVM_IOEVENTFD", config))?;
    if !config.interrupts.have_irqchip() {
        let bell = Arc::new(Bell::new().with_context(of("eventfd", config))?);
        return Ok(Arc::new(Lines {
            wake: Line::Bell(Arc::clone(&bell), guest::WAKE),
            stop: Line::Bell(Arc::clone(&bell), guest::STOP),
            answer,
            bell: Some(bell),
        }));
    }
    let irqfd = |gsi: u32| {
        let event = event()?;
        fd.register_irqfd(event.fd(), gsi)
            .with_context(of("KVM_IRQFD", config))?;
        anyhow::Ok(Line::Irqfd(event))
    };
    Ok(Arc::new(Lines {
        wake: irqfd(routing::wake_gsi(vcpu))?,
        stop: irqfd(routing::stop_gsi(vcpu))?,
        answer,
        bell: None,
    }))
}
