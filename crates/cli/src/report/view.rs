//! What a report says, as data. This is the JSON of `--json`: see `docs/report-json.md`.
//!
//! Times are nanoseconds. `null` means that the recording cannot tell; it never means zero.

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::account::worth::Worth;
use haltwise_core::event::CeilingSource;
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmmKind;
use haltwise_core::recording::{Missing, Mode, Overhead, Rung};
use serde::Serialize;

use crate::recommend::Recommendation;

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Version of this layout.
    pub(crate) schema: u32,
    /// How it was recorded.
    pub(crate) recording: RecordingView,
    /// The host.
    pub(crate) host: HostView,
    /// What `tune` recommends for KVM's parameters, by the goal balanced.
    pub(crate) recommendation: Recommendation,
    /// The VMs, in the order in which they were seen.
    pub(crate) vms: Vec<VmView>,
    /// Halts that could not be given to a VM.
    pub(crate) unplaced: Option<AccountView>,
}

/// How the facts were obtained, and what is missing from them.
#[derive(Debug, Serialize)]
pub(crate) struct RecordingView {
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) recorder: String,
    /// Wall clock at the start, RFC 3339.
    pub(crate) started_utc: Option<String>,
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    /// It did not end by itself.
    pub(crate) cut: bool,
    pub(crate) lost: u64,
    pub(crate) lost_by_place: Vec<LossView>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    pub(crate) overhead: Option<Overhead>,
}

/// Events lost at one stage.
#[derive(Debug, Serialize)]
pub(crate) struct LossView {
    pub(crate) place: String,
    pub(crate) count: u64,
}

/// The host.
#[derive(Debug, Serialize)]
pub(crate) struct HostView {
    pub(crate) name: String,
    pub(crate) kernel: String,
    pub(crate) cpus: Option<u32>,
    /// CPUs busy on average.
    pub(crate) busy_cpus: Option<f64>,
    /// Share of the time in which some task waited for a CPU.
    pub(crate) cpu_pressure: Option<f64>,
    pub(crate) knobs: Vec<KnobView>,
    /// VMs that were seen, reported here or not.
    pub(crate) vms: usize,
    /// All halts, placed or not.
    pub(crate) account: AccountView,
}

/// A setting in force.
#[derive(Debug, Serialize)]
pub(crate) struct KnobView {
    pub(crate) name: String,
    /// `host`, `guest-of-other` or `vm`.
    pub(crate) scope: &'static str,
    /// The VM's index, for scope `vm`.
    pub(crate) vm: Option<u32>,
    /// At the end of the recording.
    pub(crate) value: String,
    /// How often it changed during the recording.
    pub(crate) changes: u64,
}

/// A VM.
#[derive(Debug, Serialize)]
pub(crate) struct VmView {
    pub(crate) index: u32,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Identity::is_empty")]
    pub(crate) identity: Identity,
    pub(crate) vmm: VmmKind,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) ordinal: u32,
    /// Why its halts cannot be seen; `null` if they can.
    pub(crate) not_observable: Option<String>,
    /// When it came and when it was gone, if that was while recording.
    pub(crate) from_ns: Option<u64>,
    pub(crate) to_ns: Option<u64>,
    /// How long none of its vCPUs was in `KVM_RUN`; `null` where that is not known.
    pub(crate) paused_ns: Option<u64>,
    pub(crate) account: AccountView,
    pub(crate) vcpus: Vec<VcpuView>,
}

/// A vCPU.
#[derive(Debug, Serialize)]
pub(crate) struct VcpuView {
    pub(crate) id: u32,
    pub(crate) tid: Option<u32>,
    /// Window at the end of the recording.
    pub(crate) window_ns: Option<u32>,
    /// Ceiling at the end of the recording.
    pub(crate) ceiling_ns: Option<u32>,
    pub(crate) ceiling_source: CeilingSource,
    /// The guest switched host polling off.
    pub(crate) guest_veto: Option<bool>,
    pub(crate) account: AccountView,
}

/// A halt account.
#[derive(Debug, Serialize)]
pub(crate) struct AccountView {
    /// The time over which rates and shares are taken.
    pub(crate) span_ns: u64,
    /// The vCPUs that it sums up.
    pub(crate) vcpus: usize,
    pub(crate) halts: u64,
    pub(crate) halts_per_s: f64,
    /// Halts in which the vCPU was scheduled out.
    pub(crate) waits: u64,
    pub(crate) waits_per_s: f64,
    /// Wake-ups that KVM did not count as valid.
    pub(crate) invalid: u64,
    pub(crate) halted_ns: u64,
    /// Share of the vCPUs' time, 0 to 1.
    pub(crate) halted_share: f64,
    /// What the halted time was spent on; the parts add up to `halted_ns`.
    pub(crate) parts: Parts,
    pub(crate) poll: PollView,
    pub(crate) wakes: WakesView,
    pub(crate) halt_ns: Option<Spread>,
    pub(crate) gap_ns: Option<Spread>,
    pub(crate) wake_latency_ns: Option<Spread>,
    /// Histograms by powers of two.
    pub(crate) gap_histogram: Vec<BucketView>,
    pub(crate) wake_latency_histogram: Vec<BucketView>,
    pub(crate) window: WindowView,
    /// Ceilings that were in force, lowest first.
    pub(crate) ceilings: Vec<CeilingView>,
    pub(crate) worth: Worth,
    /// Share of halts that lack a field, 0 to 1.
    pub(crate) unknown: UnknownView,
}

/// Polling.
#[derive(Debug, Serialize)]
pub(crate) struct PollView {
    /// Halts of which it is known whether they polled.
    pub(crate) known: u64,
    pub(crate) polled: u64,
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    /// Polls that stopped because another task wanted the CPU; `null` where not known.
    pub(crate) cut: Option<u64>,
    pub(crate) not_polled: Option<u64>,
    /// CPU time burnt.
    pub(crate) ns: Option<u64>,
    /// The same in % of one CPU.
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) useful_cpu_percent: Option<f64>,
    pub(crate) wasted_cpu_percent: Option<f64>,
    /// Polls of no time at all.
    pub(crate) zero: PollBarView,
    /// *Poll time against count*, by powers of two.
    pub(crate) time_against_count: Vec<PollBarView>,
}

/// One bar of *poll time against count*.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PollBarView {
    pub(crate) low_ns: u64,
    pub(crate) high_ns: u64,
    pub(crate) successful: u64,
    pub(crate) failed: u64,
}

/// Halts by what ended them.
#[derive(Debug, Serialize)]
pub(crate) struct WakesView {
    pub(crate) timer: u64,
    pub(crate) ipi: u64,
    pub(crate) device: u64,
    pub(crate) other: u64,
    pub(crate) unknown: u64,
}

/// One bucket of a histogram, both ends included.
#[derive(Debug, Serialize)]
pub(crate) struct BucketView {
    pub(crate) low_ns: u64,
    pub(crate) high_ns: u64,
    pub(crate) count: u64,
}

/// The window over time.
#[derive(Debug, Serialize)]
pub(crate) struct WindowView {
    pub(crate) grows: u64,
    pub(crate) shrinks: u64,
    /// What the newest halt left behind.
    pub(crate) now_ns: Option<u32>,
    pub(crate) slot_ns: u64,
    /// Slots in which something ended, oldest first.
    pub(crate) slots: Vec<SlotView>,
}

/// A slot of time.
#[derive(Debug, Serialize)]
pub(crate) struct SlotView {
    /// When it begins, on the host's `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
    pub(crate) halts: u64,
    pub(crate) waits: u64,
    pub(crate) poll_ns: u64,
    /// Mean window: over halts where they know it, else over the calls of grow and shrink.
    pub(crate) window_mean_ns: Option<u64>,
    pub(crate) window_max_ns: Option<u32>,
}

/// A ceiling that was in force.
#[derive(Debug, Serialize)]
pub(crate) struct CeilingView {
    pub(crate) ns: u32,
    pub(crate) source: CeilingSource,
    /// Halts that it governed.
    pub(crate) halts: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// Shares of halts that lack a field.
#[derive(Debug, Serialize)]
pub(crate) struct UnknownView {
    pub(crate) window_ns: f64,
    pub(crate) ceiling_ns: f64,
    pub(crate) poll_ns: f64,
    pub(crate) wake_latency_ns: f64,
    pub(crate) wake: f64,
}
