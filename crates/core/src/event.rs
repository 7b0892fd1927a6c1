//! The facts a capture holds, as the kernel gave them. Meaning is computed elsewhere.
//!
//! `None` says that the source in use, or the running kernel, could not tell. It never means zero.

use serde::{Deserialize, Serialize};

use crate::hist::LogHist;
use crate::identity::Identity;
use crate::ids::{Tid, VcpuId, VmIndex, VmKey, VmmKind};
use crate::vmm::{Machine, Threads, VcpuTime};

crate::names! {
    /// Source of the wake-up that ended a halt.
    #[derive(Default)]
    pub enum WakeSource {
        /// A timer of this vCPU: LAPIC, PIT, arch timer.
        Timer = "timer",
        /// Another vCPU of the same VM.
        Ipi = "ipi",
        /// A device: irqfd, vhost, an ioctl of the VMM.
        Device = "device",
        /// Known, and none of these: a signal, an NMI, an unblock request.
        Other = "other",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

impl WakeSource {
    /// Its place in [`HaltCounts::wakes`], and its number in the sample of a page.
    pub fn code(self) -> u8 {
        self as u8
    }
}

crate::names! {
    /// Where the ceiling of a halt came from.
    #[derive(Default)]
    pub enum CeilingSource {
        /// The module parameter `halt_poll_ns`, live.
        Param = "param",
        /// The VM's own `max_halt_poll_ns`, set by `KVM_CAP_HALT_POLL`.
        Cap = "cap",
        /// The value that the VM took from the module parameter when it was made (kernels 5.8 to 6.0);
        /// on those kernels a cap looks the same.
        Snapshot = "snapshot",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

/// One halt of one vCPU: one pass through `kvm_vcpu_halt` (`kvm_vcpu_block` before 5.17).
///
/// Example: a window of 50 us, an interrupt after 70 us, awake 30 us later:
/// `poll_ns = 50_000`, `waited`, `wake_latency_ns = 30_000`, `halt_ns = 100_000`, gap 70 us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Halt {
    /// When the halt began: its end less `halt_ns`. `CLOCK_MONOTONIC` of the host.
    ///
    /// The end is when the kernel told of it. A thread that loses its CPU between KVM's last look at
    /// the clock and that moment is told late, and the wake-up latency is longer by as much.
    pub start_ns: u64,
    /// KVM's own measure of the whole halt, polling and wake-up latency included
    /// (`kvm_vcpu_wakeup.ns`).
    pub halt_ns: u64,
    /// The VM, where the thread could be placed.
    pub vm: Option<VmIndex>,
    /// The vCPU, where the thread could be placed.
    pub vcpu: Option<VcpuId>,
    /// The thread that ran the vCPU.
    pub tid: Tid,
    /// The vCPU was really scheduled out (`kvm_vcpu_wakeup.waited`).
    pub waited: bool,
    /// KVM counted the wake-up as valid (`kvm_vcpu_wakeup.valid`); false on s390 only.
    pub valid: bool,
    /// Polling window in force at entry, clamped to the ceiling as KVM does.
    pub window_ns: Option<u32>,
    /// Polling window that the rule left behind.
    pub window_next_ns: Option<u32>,
    pub ceiling_ns: Option<u32>,
    pub ceiling_source: CeilingSource,
    /// KVM called its grow or shrink for this halt (`kvm_halt_poll_ns` fired).
    pub change: WindowCall,
    /// Time polled, as KVM booked it. 0 where the vCPU was not allowed to poll. Where `poll_cut` is `None` and
    /// the vCPU slept, it is the longest that the poll can have taken.
    pub poll_ns: Option<u64>,
    /// KVM counted an attempted poll (`halt_attempted_poll`); `None` where that counter was not read. A poll
    /// that is met at its first look takes 0 ns. See [`Halt::has_polled`].
    pub polled: Option<bool>,
    /// From the wake event until KVM had the vCPU running again; 0 if it did not wait.
    pub wake_latency_ns: Option<u64>,
    pub wake: WakeSource,
    /// Polling stopped because another task wanted the CPU (`kvm_vcpu_can_poll`); `None` where that is not
    /// known.
    pub poll_cut: Option<bool>,
    /// CPU on which the vCPU ran when the halt ended.
    pub cpu: Option<u32>,
    /// CPU from which it was woken; `None` also where it did not sleep.
    pub waker_cpu: Option<u32>,
}

crate::names! {
    /// Which of the window's two rules KVM called.
    #[derive(Default)]
    pub enum WindowCall {
        /// Neither: the window stayed, or was clamped or zeroed in silence.
        #[default]
        None = "none",
        /// `grow_halt_poll_ns`.
        Grow = "grow",
        /// `shrink_halt_poll_ns`.
        Shrink = "shrink",
    }
}

impl Halt {
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.halt_ns)
    }

    /// Time until the wake event, which the guest's world decides.
    ///
    /// `None` where the wake-up latency of a halt that waited is not known.
    pub fn gap_ns(&self) -> Option<u64> {
        self.wake_latency_ns
            .map(|latency| self.halt_ns.saturating_sub(latency))
    }

    /// Whether KVM polled; `None` where the time polled is not known.
    ///
    /// Where KVM's counter was not read, a halt of 0 ns polled is taken for a poll that was met at its first
    /// look if there was a window and the vCPU did not sleep. This is wrong for a guest that disabled host
    /// polling: such halts were woken before `schedule()` on their way to sleep.
    pub fn has_polled(&self) -> Option<bool> {
        let poll_ns = self.poll_ns?;
        let at_first_look = !self.waited && self.window_ns.is_some_and(|window| window > 0);
        let by_its_looks = at_first_look || self.is_preempted();
        Some(poll_ns > 0 || self.polled.unwrap_or(by_its_looks))
    }

    /// Whether its poll is known to have been preempted.
    pub fn is_preempted(&self) -> bool {
        self.poll_cut == Some(true)
    }
}

/// KVM called grow or shrink (`kvm_halt_poll_ns`), changed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowChange {
    /// When, on the host's `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub vm: Option<VmIndex>,
    /// The vCPU, as the tracepoint names it.
    pub vcpu: Option<VcpuId>,
    /// The thread that ran the vCPU.
    pub tid: Tid,
    /// Grow (true) or shrink.
    pub grow: bool,
    pub old_ns: u32,
    /// Window after; may exceed the ceiling from 6.1 on, where the clamp comes at the next halt.
    pub new_ns: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Vm {
    /// Its row; what `vm` columns refer to.
    pub index: VmIndex,
    pub key: VmKey,
    /// Name that the operator gives to the VM, see [`Identity`]; else the process's name and number.
    pub name: String,
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    pub vmm: VmmKind,
    /// Whether its halts can be seen, and if not, why.
    pub observable: Observable,
    /// Facts about the machine from QEMU's command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Whether its ceiling could be set from outside its VMM; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_settable: Option<bool>,
    /// Activity of the VMM's threads; `None` where that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Threads>,
    /// When it came, if that was while recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// When it was gone, if that was while recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Whether its VMM let it run; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

/// When a VM was paused: when none of its vCPUs was in `KVM_RUN`, at several looks in turn. It is stopped, was
/// not started yet, or has stopped after an error; KVM's events and counters do not tell that from idleness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Paused {
    /// How long in all, of pauses that are over.
    pub over_ns: u64,
    /// Since when, of one that is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
}

/// Whether a VM's or vCPU's halts can be seen at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum Observable {
    /// Halts were seen, or nothing speaks against seeing them.
    #[default]
    Yes,
    /// Not observable, for this reason. Not the same as idle.
    No(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Vcpu {
    pub vm: VmIndex,
    pub id: VcpuId,
    pub tid: Tid,
    /// Window when last looked at.
    pub window_ns: Option<u32>,
    /// Ceiling when last looked at.
    pub ceiling_ns: Option<u32>,
    pub ceiling_source: CeilingSource,
    /// The guest switched host polling off (x86 `MSR_KVM_POLL_CONTROL` bit 0 clear).
    pub guest_veto: Option<bool>,
    /// Activity of that thread; `None` where that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<VcpuTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knob {
    /// When it had this value. Where it changes, the old value is told once more with the last moment
    /// at which it is known to have been there, then the new one.
    pub time_ns: u64,
    /// KVM's or the governor's name for it, for example `halt_poll_ns`.
    pub name: String,
    pub scope: KnobScope,
    /// Its value as the kernel prints it.
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnobScope {
    /// Every VM of the host (module `kvm`).
    Host,
    /// This machine as a guest of another (module `haltpoll`).
    GuestOfOther,
    /// One VM (`KVM_CAP_HALT_POLL`).
    Vm(VmIndex),
}

/// The host's own state, once per flush. In order of time: `time_ns` is the first field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct HostSample {
    pub time_ns: u64,
    pub cpus: u32,
    /// CPU time of all CPUs that was not idle, since boot.
    pub busy_ns: u64,
    /// CPU time of all CPUs, since boot.
    pub total_ns: u64,
    /// Time in which some task waited for a CPU, since boot (pressure stall information).
    pub cpu_pressure_ns: Option<u64>,
    /// CPU time that the recorder itself has used since it started.
    pub recorder_cpu_ns: u64,
    /// CPU time of the recorder's BPF programs, where the kernel accounts it.
    pub bpf_cpu_ns: Option<u64>,
    /// Resident memory of the recorder, in bytes.
    pub recorder_rss_bytes: u64,
    /// CPU time of all CPUs in which a hypervisor below ran something else while they had work, since boot. It is
    /// part of `busy_ns`.
    pub steal_ns: Option<u64>,
    /// Time that CPUs stood still, all of them together, since boot: all states of cpuidle but `POLL`. Looked at every
    /// ten seconds, at the beginning and at the end.
    pub idle_ns: Option<u64>,
    /// Energy that CPU packages used since the recording began, in microjoules (RAPL); at the same times.
    pub package_uj: Option<u64>,
    /// Cycles that CPUs ran since the recording began, all of them together (`PERF_COUNT_HW_CPU_CYCLES`, which stands
    /// still with the CPU); at the same times.
    pub cycles: Option<u64>,
    /// Instructions that they retired.
    pub instructions: Option<u64>,
}

/// A state of cpuidle, of all CPUs together, since boot. Looked at when [`HostSample::idle_ns`] is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IdleState {
    pub time_ns: u64,
    /// Its number, from the shallowest on.
    pub state: u32,
    /// The driver's name of the state, for example `POLL`, `C1E`.
    pub name: String,
    pub description: String,
    pub cpus: u32,
    pub entries: u64,
    pub residency_ns: u64,
    /// Entries that ended before the state's target residency, while a shallower one was to be had.
    pub above: Option<u64>,
    /// Entries that lasted long enough for the next deeper state.
    pub below: Option<u64>,
}

/// Events that never reached us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    pub time_ns: u64,
    pub count: u64,
    /// Which stage lost them, for example `ring buffer full`.
    pub place: String,
}

impl Lost {
    /// The place of losses that leave every halt and window whole: only a wake-up latency, or the
    /// length of a poll, is unknown for them.
    pub const SCHED: &str = "wake-up or sleep counted but not recorded";
}

/// One vCPU's halts of one interval, counted in the kernel (`--mode counts`).
///
/// Every histogram has the buckets of [`crate::hist::LogHist`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HaltCounts {
    /// End of the interval.
    pub time_ns: u64,
    pub interval_ns: u64,
    pub vm: Option<VmIndex>,
    pub vcpu: Option<VcpuId>,
    /// The thread that ran the vCPU.
    pub tid: Tid,
    pub halts: u64,
    /// How many of them were really scheduled out.
    pub waited: u64,
    /// Number of halts for which it is known whether they polled; the counts of polls are of these halts. `None`
    /// for older captures, see [`HaltCounts::polls_known`].
    pub poll_known: Option<u64>,
    /// How many polled at all, where known.
    pub polled: Option<u64>,
    /// How many polled and were never scheduled out (KVM's `halt_successful_poll`), where known.
    pub successful_polls: Option<u64>,
    /// How many polls were cut short for another task, where known.
    pub poll_cuts: Option<u64>,
    /// Time neither polled nor slept by halts that were woken before `schedule()`. `None` where it is not
    /// told; then it is in no other sum either.
    pub turned_back_ns: Option<u64>,
    /// Halts by [`WakeSource`], in the order of [`WakeSource::ALL`].
    pub wakes: [u64; 5],
    pub halt_ns: LogHist,
    /// Gaps of the halts whose wake-up latency is known.
    pub gap_ns: LogHist,
    /// Time polled by halts that were never scheduled out.
    pub poll_success_ns: LogHist,
    /// Time polled by halts that were scheduled out afterwards (failed polls).
    pub poll_fail_ns: LogHist,
    /// Wake-up latency of halts that waited.
    pub wake_latency_ns: LogHist,
}

impl HaltCounts {
    /// Number of halts for which it is known whether they polled.
    ///
    /// Older recorders told no count of polls where one halt of the interval did not say; the polls of the
    /// others are in the histograms all the same.
    pub fn polls_known(&self) -> u64 {
        let older = match (self.polled, self.polls_timed()) {
            (Some(_), _) => self.halts,
            (None, 0) => 0,
            (None, timed) => self.halts.saturating_sub(1).max(timed),
        };
        self.poll_known.unwrap_or(older).min(self.halts)
    }

    /// How many polled, of those of which it is known.
    pub fn polls(&self) -> u64 {
        let polls = self.polled.unwrap_or_else(|| self.polls_timed());
        polls.min(self.polls_known())
    }

    /// How many of these were successful.
    pub fn polls_met(&self) -> u64 {
        let timed = || self.poll_success_ns.count();
        self.successful_polls
            .unwrap_or_else(timed)
            .min(self.polls())
    }

    fn polls_timed(&self) -> u64 {
        let counts = [&self.poll_success_ns, &self.poll_fail_ns].map(LogHist::count);
        counts[0].saturating_add(counts[1])
    }
}

/// Rows of each table that a recorder hands to a capture in one flush.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Halts, in order of their end for each vCPU.
    pub halts: Vec<Halt>,
    pub windows: Vec<WindowChange>,
    /// Counts per vCPU and interval (counts mode).
    pub counts: Vec<HaltCounts>,
    /// Settings, when first read and whenever they change.
    pub knobs: Vec<Knob>,
    pub host: Vec<HostSample>,
    /// The states of its CPUs' idle time.
    pub idle_states: Vec<IdleState>,
    pub lost: Vec<Lost>,
    /// Exits, counted per vCPU, cause and interval.
    pub exits: Vec<crate::exit::Exits>,
    pub profile: crate::profile::Rows,
}

impl Facts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
impl Halt {
    /// A made-up halt of vCPU 0 of VM 0: the poll succeeds if the window covers the gap, otherwise the vCPU sleeps.
    pub(crate) fn under(window_ns: u32, start_ns: u64, gap_ns: u64, latency_ns: u64) -> Self {
        let window = u64::from(window_ns);
        let waited = window == 0 || gap_ns > window;
        let latency_ns = if waited { latency_ns } else { 0 };
        Self {
            start_ns,
            halt_ns: gap_ns + latency_ns,
            vm: Some(VmIndex(0)),
            vcpu: Some(VcpuId(0)),
            waited,
            valid: true,
            window_ns: Some(window_ns),
            poll_ns: Some(gap_ns.min(window)),
            wake_latency_ns: Some(latency_ns),
            ..Self::default()
        }
    }
}
