//! A calibration as it is written, by any program that measures one: each repetition gives one value of every cost, and
//! the value written is their median with its 95 % interval.

use serde::{Deserialize, Serialize};

use crate::stats::{Estimate, FEWEST, median_estimate, percentile_of_sorted};

/// Kind of the sleeper that was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sleeper {
    /// A vCPU, in its HLT.
    #[default]
    Vcpu,
    Thread,
}

/// Costs of blocking on a host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Written {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Kind of the sleeper. Calibrations made before there were two kinds lack this field.
    pub sleeper: Sleeper,
    /// CPU of what slept.
    pub vcpu_cpu: u32,
    /// CPU of the thread that woke it.
    pub host_cpu: u32,
    pub repetitions: u32,
    /// How long it all took.
    pub elapsed_ns: u64,
    /// Costs by gap, ascending.
    pub classes: Vec<GapClass>,
    /// The wake-up latency where the waker had the sleeper's CPU, so that it was not idle.
    pub same_cpu_wake_latency_ns: Option<Estimate>,
    /// CPU of the thread that slept for one block and wake, over all classes.
    pub switch_cpu_ns: Option<Estimate>,
    /// The same for the waker's thread.
    pub waker_cpu_ns: Option<Estimate>,
    /// CPU of one exit that KVM handles by itself.
    pub exit_cpu_ns: Option<Estimate>,
    /// CPU of one write of the timer, in a guest.
    pub timer_write_cpu_ns: Option<Estimate>,
    /// CPU that an IPI takes its sender, in a guest.
    pub ipi_cpu_ns: Option<Estimate>,
    /// By how much a vCPU's wake-up takes longer than a thread's, as sleeps of vCPUs have shown; the costs contain it.
    pub kvm_ns: Option<Estimate>,
    /// Where and when it was measured; `None` of a calibration that did not look.
    pub host: Option<Measured>,
    /// Signal to answer of plain `pingpong` when the poll succeeds.
    pub polled_round_trip_ns: Option<Estimate>,
    /// Values that could not be measured, and the reasons.
    pub notes: Vec<String>,
}

impl Written {
    /// Whether other tasks hardly wanted the CPUs: three in four of the polled runs were not preempted. Such a
    /// price is kept until the host changes.
    pub fn is_undisturbed(&self) -> bool {
        let polled = (self.classes.iter()).filter_map(|class| Some(class.wake_latency_ns?.samples));
        let wanted = self.repetitions as usize * self.classes.len();
        self.repetitions as usize >= FEWEST && polled.sum::<usize>() * 4 >= wanted * 3
    }
}

/// The host whose costs they are. Costs of another kernel, CPU or set of idle states are others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// When, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// `uname -r`.
    pub kernel_release: String,
    /// The CPU's name, where known.
    pub cpu_model: Option<String>,
    /// The idle driver and governor, and the idle states that are enabled.
    pub idle: Vec<String>,
}

/// Costs of one gap class. `None`: polling was cut in every repetition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GapClass {
    /// How long it was left to sleep.
    pub gap_ns: u64,
    /// Time that a wait adds between signal and sleeper.
    pub wake_latency_ns: Option<Estimate>,
    /// Quantiles of it over single wake-ups, each as likely as the others, in an order that mixes them.
    pub wake_latency_quantiles_ns: Vec<u64>,
    /// Signal to first instruction, blocked.
    pub signal_to_guest_blocked_ns: Option<Estimate>,
    /// Signal to first instruction, polled.
    pub signal_to_guest_polled_ns: Option<Estimate>,
    /// CPU of its thread for one block and wake.
    pub switch_cpu_ns: Option<Estimate>,
    /// Additional CPU that a wake-up costs the waker if the sleeper waits.
    pub waker_cpu_ns: Option<Estimate>,
}

/// Values of one class, one of each kind for each repetition that gave one.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Time that a wait adds.
    pub latency: Vec<f64>,
    /// Signal to sleeper, blocked.
    pub blocked: Vec<f64>,
    /// Signal to sleeper, polled.
    pub polled: Vec<f64>,
    /// CPU of one block and wake.
    pub switch_cpu: Vec<f64>,
    /// CPU that a wait costs the waker.
    pub waker_cpu: Vec<f64>,
    /// Time that a wait adds, wake-up by wake-up.
    pub single_ns: Vec<u64>,
}

const QUANTILES: usize = 32;

/// Quantiles in an order in which neighbours are far apart (bits reversed), so that any run of them is spread.
fn quantiles(of: &[u64]) -> Vec<u64> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    let at = |nth: usize| {
        let mixed = nth.reverse_bits() >> (usize::BITS - QUANTILES.ilog2());
        let share = (mixed as f64 + 0.5) / QUANTILES as f64;
        percentile_of_sorted(&sorted, share)
    };
    (0..QUANTILES).filter_map(at).collect()
}

impl Samples {
    pub fn estimate(&self, gap_ns: u64) -> GapClass {
        GapClass {
            gap_ns,
            wake_latency_ns: median_estimate(&self.latency),
            wake_latency_quantiles_ns: quantiles(&self.single_ns),
            signal_to_guest_blocked_ns: median_estimate(&self.blocked),
            signal_to_guest_polled_ns: median_estimate(&self.polled),
            switch_cpu_ns: median_estimate(&self.switch_cpu),
            waker_cpu_ns: median_estimate(&self.waker_cpu),
        }
    }

    /// Estimate over all classes together.
    pub fn over(all: &[Self], of: impl Fn(&Self) -> &[f64]) -> Option<Estimate> {
        let values: Vec<f64> = all
            .iter()
            .flat_map(|samples| of(samples).to_vec())
            .collect();
        median_estimate(&values)
    }
}

/// Notes on a calibration with `done` of the `wanted` repetitions.
pub fn of_repetitions(done: u32, wanted: u32) -> Vec<String> {
    let mut notes = Vec::new();
    if done < wanted {
        notes.push(format!(
            "ended early: {done} of {wanted} repetitions were done"
        ));
    }
    if (done as usize) < FEWEST {
        notes.push("fewer than six repetitions: an interval is their whole range".to_owned());
    }
    notes
}
