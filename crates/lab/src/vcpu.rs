//! KVM's vCPU object: how it is set up, and the thread that runs it.
//!
//! Every vCPU starts in 16-bit real mode at the program's entry, runnable, its local APIC enabled in
//! x2APIC mode by the VMM, interrupts off. Segments are set by base, not by selector:
//! `cs` = 0, `ds` = its own page, `ss` = its stack, `fs` = MMIO, `gs` = table of timer deltas;
//! `bp` = its answer port. Where KVM has no irqchip there is no local APIC, and every HLT comes out to
//! the VMM, whose [`crate::halt_loop`] waits and injects. Delivery of an interrupt changes none of them but `cs`, which is 0 again.
//!
//! ```text
//! created -- start() --> running -- out STOP_PORT --> ended(Ok)
//!                           |------ unexpected exit -> ended(Err)
//!                           '------ kick() ----------> ended(Err(Kicked))
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use haltwise_core::ids::{Tid, VcpuId};
use haltwise_core::units::Nanos;
use kvm_bindings::{CpuId, KVM_MP_STATE_RUNNABLE, kvm_lapic_state, kvm_mp_state, kvm_regs};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::signal::Killable;

use crate::clock;
use crate::clock::ThreadUse;
use crate::drive::Round;
use crate::event::Event;
use crate::exit::{self, ANSWER_PORT, Devices, ExitCounts, Next, UserspaceExit};
use crate::halt_loop::{UserHalt, UserHalts};
use crate::ioctl;
use crate::memory::{GuestMemory, MMIO, STACK_TOP, TABLE, vcpu_page};
use crate::stats_fd::{Growth, Stats, StatsFd};
use crate::tsc::{Moment, TscClock};

/// The signal that gets a thread out of `KVM_RUN`; its handler only exists.
const KICK: i32 = signal_hook::consts::SIGUSR1;

/// A vCPU that does not end by its stop line within this time is kicked out of `KVM_RUN`.
pub(crate) const STOP_GRACE: Nanos = Nanos(2_000_000_000);
/// Between two kicks of a vCPU: a signal just before `KVM_RUN` is lost.
pub(crate) const KICK_INTERVAL: Nanos = Nanos(10_000_000);

/// A vCPU that has not been started.
#[derive(Debug)]
pub struct Vcpu {
    pub id: VcpuId,
    /// Its statistics, if the kernel keeps them.
    pub stats: Option<Arc<StatsFd>>,
    /// Handler of the vCPU's halts, where KVM does not handle halts.
    pub(crate) user_halts: Option<UserHalts>,
    /// Devices that the vCPU's exits go to, and that its interrupts come from where KVM has no irqchip.
    pub devices: Option<Box<dyn Devices>>,
    fd: VcpuFd,
    /// Keeps the guest's memory mapped as long as this may run.
    _memory: GuestMemory,
}

impl Vcpu {
    /// Creates vCPU `id`, ready to run from `entry`.
    pub fn create(
        vm: &VmFd,
        id: u32,
        cpuid: &CpuId,
        memory: &GuestMemory,
        entry: u16,
        irqchip: bool,
    ) -> anyhow::Result<Self> {
        let of = |step| of(step, VcpuId(id));
        let fd = vm
            .create_vcpu(id.into())
            .with_context(of("KVM_CREATE_VCPU"))?;
        let cpuid = cpuid_of(cpuid, id);
        fd.set_cpuid2(&cpuid).with_context(of("KVM_SET_CPUID2"))?;
        let mut sregs = fd.get_sregs().with_context(of("KVM_GET_SREGS"))?;
        let page = vcpu_page(id);
        for (segment, base) in [
            (&mut sregs.cs, 0),
            (&mut sregs.ds, page),
            (&mut sregs.ss, page + u32::from(STACK_TOP)),
            (&mut sregs.fs, MMIO),
            (&mut sregs.gs, TABLE),
        ] {
            segment.base = base.into();
            segment.selector = u16::try_from(base >> 4).unwrap_or(0);
        }
        if irqchip {
            sregs.apic_base |= APIC_ENABLED | X2APIC_MODE;
        }
        fd.set_sregs(&sregs).with_context(of("KVM_SET_SREGS"))?;
        let regs = kvm_regs {
            rip: entry.into(),
            rsp: STACK_TOP.into(),
            rbp: u64::from(ANSWER_PORT) + u64::from(id),
            rflags: 2,
            ..Default::default()
        };
        fd.set_regs(&regs).with_context(of("KVM_SET_REGS"))?;
        if irqchip {
            let mut lapic = fd.get_lapic().with_context(of("KVM_GET_LAPIC"))?;
            set_apic_register(&mut lapic, 0xf0, APIC_SOFTWARE_ENABLED | 0xff);
            fd.set_lapic(&lapic).with_context(of("KVM_SET_LAPIC"))?;
        }
        let runnable = kvm_mp_state {
            mp_state: KVM_MP_STATE_RUNNABLE,
        };
        let set = fd.set_mp_state(runnable);
        set.with_context(of("KVM_SET_MP_STATE"))?;
        let stats = StatsFd::of(&fd).ok().map(Arc::new);
        Ok(Self {
            id: VcpuId(id),
            stats,
            user_halts: None,
            devices: None,
            fd,
            _memory: memory.clone(),
        })
    }

    pub fn tsc_khz(&self) -> anyhow::Result<u32> {
        let khz = self.fd.get_tsc_khz();
        khz.with_context(of("KVM_GET_TSC_KHZ", self.id))
    }

    /// Ticks by which the vCPU's TSC is ahead of the host's, modulo 2^64; fails before 5.16.
    pub fn tsc_offset(&self) -> std::io::Result<u64> {
        ioctl::tsc_offset(&self.fd)
    }

    /// Starts its thread; `ends` hears of its end.
    pub fn start(
        mut self,
        thread_name: String,
        cpu: Option<u32>,
        ends: Arc<Ends>,
    ) -> anyhow::Result<VcpuThread> {
        let id = self.id;
        let stats = Growth::begin(self.stats.as_ref())?;
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(KICK, ignored)
            .with_context(of("register the kick signal", id))?;
        let [kicked, ended] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        let (thread_kicked, thread_ended) = (Arc::clone(&kicked), Arc::clone(&ended));
        let handle = std::thread::Builder::new()
            .name(thread_name)
            .spawn(move || {
                let end = self.account(cpu, &thread_kicked);
                thread_ended.store(true, Ordering::Release);
                let signalled = ends.signal(end.is_err());
                let signalled = signalled.with_context(of("signal the end", id));
                (end.and_then(|end| signalled.map(|()| end)), self)
            })
            .with_context(of("start the thread", id))?;
        Ok(VcpuThread {
            id,
            kicked,
            ended,
            stats,
            handle,
        })
    }

    /// Runs, and takes the thread's use of CPU before and after.
    fn account(&mut self, cpu: Option<u32>, kicked: &AtomicBool) -> anyhow::Result<VcpuEnd> {
        let id = self.id;
        let pinned = cpu.map_or(Ok(()), clock::pin);
        pinned.with_context(of("pin the thread", id))?;
        let use_so_far = || ThreadUse::of_this_thread().with_context(of("read the CPU time", id));
        let first = Moment::now(&self.fd);
        let before = use_so_far()?;
        let mut exits = ExitCounts::new();
        self.run(kicked, &mut exits)?;
        let thread = use_so_far()?.since(&before);
        let both = first.zip(Moment::now(&self.fd));
        let halts = self.user_halts.take().map(|user| user.halts);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        Ok(VcpuEnd {
            id,
            tid: Tid(u32::try_from(tid).unwrap_or(0)),
            exits,
            thread,
            tsc: both.and_then(|(first, last)| TscClock::new(first, last)),
            halts: halts.unwrap_or_default(),
            rounds: None,
            stats: Stats::default(),
        })
    }

    /// Runs it, in one thread after another if the guest wants that.
    fn run(&mut self, kicked: &AtomicBool, exits: &mut ExitCounts) -> anyhow::Result<()> {
        let vcpu = self.id;
        let mut left = self.run_here(kicked, exits)?;
        while left == Left::ForAnotherThread {
            left = std::thread::scope(|scope| {
                let run = || self.run_here(kicked, exits);
                let thread = std::thread::Builder::new().spawn_scoped(scope, run);
                let thread = thread.with_context(of("start another thread", vcpu))?;
                thread.join().unwrap_or_else(|_| Err(panicked(vcpu)))
            })?;
        }
        Ok(())
    }

    fn run_here(&mut self, kicked: &AtomicBool, exits: &mut ExitCounts) -> anyhow::Result<Left> {
        let vcpu = self.id;
        loop {
            self.offer_interrupt()?;
            let devices = self.devices.as_deref_mut();
            match self.fd.run().map(|exit| exit::parse(exit, devices)) {
                Ok(Next::Count(exit)) => *exits.entry(exit).or_default() += 1,
                Ok(Next::Hop(exit)) => {
                    *exits.entry(exit).or_default() += 1;
                    return Ok(Left::ForAnotherThread);
                }
                Ok(Next::Halt) => {
                    *exits.entry(UserspaceExit::Hlt).or_default() += 1;
                    self.halt(kicked)?;
                }
                Ok(Next::Stop) => return Ok(Left::ForEver),
                Ok(Next::Unexpected(exit)) => return Err(unexpected(vcpu, &exit)),
                Err(errno) if errno.errno() == rustix::io::Errno::INTR.raw_os_error() => {
                    if kicked.load(Ordering::Acquire) {
                        return Err(kicked_out(vcpu));
                    }
                }
                Err(error) => return Err(error).with_context(of("KVM_RUN", vcpu)),
            }
        }
    }

    /// Hands in what an interrupt controller in the VMM has, or asks to be told when the guest takes it.
    fn offer_interrupt(&mut self) -> anyhow::Result<()> {
        let Some(devices) = &mut self.devices else {
            return Ok(());
        };
        if !devices.has_interrupt() {
            self.fd.get_kvm_run().request_interrupt_window = 0;
            return Ok(());
        }
        let run = self.fd.get_kvm_run();
        if run.ready_for_interrupt_injection != 0
            && run.if_flag != 0
            && let Some(vector) = devices.acknowledge()
        {
            ioctl::interrupt(&self.fd, vector).with_context(of("KVM_INTERRUPT", self.id))?;
        }
        let more = devices.has_interrupt();
        self.fd.get_kvm_run().request_interrupt_window = more.into();
        Ok(())
    }

    fn halt(&mut self, kicked: &AtomicBool) -> anyhow::Result<()> {
        let vcpu = self.id;
        let Some(user_halts) = &mut self.user_halts else {
            return Err(unexpected(vcpu, "Hlt"));
        };
        let failed = || format!("halt vCPU {vcpu}");
        let Some(vector) = user_halts.halt(kicked).with_context(failed)? else {
            return Err(kicked_out(vcpu));
        };
        ioctl::interrupt(&self.fd, vector).with_context(failed)
    }
}

fn of(step: &'static str, vcpu: VcpuId) -> impl FnOnce() -> String {
    move || format!("{step} of vCPU {vcpu}")
}

/// It left the guest for a reason that no guest of ours gives.
fn unexpected(vcpu: VcpuId, exit: &str) -> anyhow::Error {
    anyhow!("run vCPU {vcpu}: unexpected exit {exit}")
}

fn kicked_out(vcpu: VcpuId) -> anyhow::Error {
    anyhow!("run vCPU {vcpu}: it hung and was kicked out")
}

fn panicked(vcpu: VcpuId) -> anyhow::Error {
    anyhow!("run vCPU {vcpu}: its thread panicked")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    ForEver,
    ForAnotherThread,
}

/// Where the vCPUs of a run say that they have ended.
#[derive(Debug)]
pub struct Ends {
    pub event: Event,
    failed: AtomicBool,
}

impl Ends {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            event: Event::new()?,
            failed: AtomicBool::new(false),
        })
    }

    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits until threads have ended, and kicks those out that have not within a grace.
    pub fn wait<'a, I>(&self, threads: impl Fn() -> I) -> std::io::Result<()>
    where
        I: Iterator<Item = &'a VcpuThread>,
    {
        let running = || threads().filter(|thread| !thread.has_ended());
        let deadline = clock::now_ns().saturating_add(STOP_GRACE.0);
        while running().next().is_some() {
            if clock::now_ns() >= deadline {
                running().for_each(VcpuThread::kick);
            }
            clock::wait_readable(&self.event, Some(KICK_INTERVAL))?;
            self.event.take()?;
        }
        Ok(())
    }

    fn signal(&self, failed: bool) -> std::io::Result<()> {
        self.failed.fetch_or(failed, Ordering::AcqRel);
        self.event.signal()
    }
}

#[derive(Debug)]
pub struct VcpuThread {
    pub id: VcpuId,
    kicked: Arc<AtomicBool>,
    /// Set before the end is signalled: else a waiter that the signal wakes finds the thread running, and sleeps for
    /// [`KICK_INTERVAL`].
    ended: Arc<AtomicBool>,
    stats: Growth,
    /// Its file stays open until the thread is joined: others may still look at what KVM counted.
    handle: JoinHandle<(anyhow::Result<VcpuEnd>, Vcpu)>,
}

#[derive(Debug)]
pub struct VcpuEnd {
    pub id: VcpuId,
    /// The thread that it was started in.
    pub tid: Tid,
    /// Exits to the VMM, other than the last.
    pub exits: ExitCounts,
    /// Resources that the vCPU's thread used between its first and its last instruction.
    pub thread: ThreadUse,
    /// Clock that turns the vCPU's TSC into monotonic time, if KVM tells.
    pub tsc: Option<TscClock>,
    pub halts: Vec<UserHalt>,
    /// Rounds that the host played with it, where the host wakes the guest.
    pub(crate) rounds: Option<Vec<Round>>,
    pub stats: Stats,
}

impl VcpuThread {
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.handle.is_finished()
    }

    /// Asks it out of the guest. A signal just before `KVM_RUN` is lost, so call this until it has ended.
    fn kick(&self) {
        self.kicked.store(true, Ordering::Release);
        // It may have ended meanwhile: that is what we want.
        let _ = self.handle.kill(KICK);
    }

    pub fn join(self) -> anyhow::Result<VcpuEnd> {
        let (end, _) = self.handle.join().map_err(|_| panicked(self.id))?;
        let end = end?;
        let stats = self.stats.end()?;
        Ok(VcpuEnd { stats, ..end })
    }
}

const APIC_ENABLED: u64 = 1 << 11;
const X2APIC_MODE: u64 = 1 << 10;
/// Bit 8 of the spurious-interrupt vector register.
const APIC_SOFTWARE_ENABLED: u32 = 1 << 8;
/// CPUID leaf 1, register ecx.
const CPUID_X2APIC: u32 = 1 << 21;
const CPUID_TSC_DEADLINE: u32 = 1 << 24;

/// The host's CPUID with this vCPU's APIC id, x2APIC and the TSC deadline timer.
fn cpuid_of(supported: &CpuId, apic_id: u32) -> CpuId {
    let mut cpuid = supported.clone();
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            1 => {
                entry.ecx |= CPUID_X2APIC | CPUID_TSC_DEADLINE;
                entry.ebx = entry.ebx & 0x00ff_ffff | apic_id << 24;
            }
            0xb | 0x1f => entry.edx = apic_id,
            _ => {}
        }
    }
    cpuid
}

fn set_apic_register(lapic: &mut kvm_lapic_state, offset: usize, value: u32) {
    for (place, byte) in lapic.regs[offset..].iter_mut().zip(value.to_le_bytes()) {
        *place = byte.cast_signed();
    }
}
