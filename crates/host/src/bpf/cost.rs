//! What the programs themselves cost, as the kernel accounts it.
//!
//! The kernel times BPF programs only while somebody asks for it, and that costs a little itself
//! (two looks at the clock for each run). So it is asked for in short samples: for
//! [`SAMPLE`] after attaching and then once in every [`PERIOD`].
#![allow(
    unsafe_code,
    reason = "bpf_enable_stats has no safe wrapper in libbpf-rs"
)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// How long one sample lasts, at least.
const SAMPLE_NS: u64 = 200_000_000;
/// From the start of one sample to the start of the next.
const PERIOD_NS: u64 = 4_000_000_000;

/// Runs and run time of some programs.
#[derive(Debug, Clone, Copy, Default)]
struct Runs {
    /// Of the halt program alone: one for each halt.
    halts: u64,
    /// Of all programs.
    time_ns: u64,
}

/// Samples the run time of our programs.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Held while the kernel is asked to time programs.
    timing: Option<OwnedFd>,
    sample_start_ns: u64,
    at_start: Runs,
    next_ns: u64,
    sampled: Runs,
    sampled_ns: u64,
    first_ns: Option<u64>,
}

impl Cost {
    /// Starts and ends samples as their time comes. `programs`: the halt program first.
    pub(super) fn tick(&mut self, now_ns: u64, programs: &[BorrowedFd<'_>]) {
        let first = *self.first_ns.get_or_insert(now_ns);
        if self.timing.is_some() {
            if now_ns.saturating_sub(self.sample_start_ns) >= SAMPLE_NS {
                self.end_sample(now_ns, programs);
            }
        } else if now_ns >= self.next_ns.max(first) {
            self.next_ns = now_ns + PERIOD_NS;
            self.sample_start_ns = now_ns;
            self.timing = start_timing();
            self.at_start = runs(programs);
        }
    }

    /// Ends a sample under way.
    pub(super) fn end_sample(&mut self, now_ns: u64, programs: &[BorrowedFd<'_>]) {
        if self.timing.take().is_none() {
            return;
        }
        let end = runs(programs);
        self.sampled.halts += end.halts.saturating_sub(self.at_start.halts);
        self.sampled.time_ns += end.time_ns.saturating_sub(self.at_start.time_ns);
        self.sampled_ns += now_ns.saturating_sub(self.sample_start_ns);
    }

    /// Time that all programs together add for each halt.
    pub(super) fn per_halt_ns(&self) -> Option<f64> {
        (self.sampled.halts > 0).then(|| self.sampled.time_ns as f64 / self.sampled.halts as f64)
    }

    /// CPU time of all programs since the first tick: the samples, stretched to the whole time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of non-negative numbers far below 2^63; the cast saturates"
    )]
    pub(super) fn total_ns(&self, now_ns: u64) -> Option<u64> {
        let elapsed = now_ns.saturating_sub(self.first_ns?);
        (self.sampled_ns > 0)
            .then(|| (self.sampled.time_ns as f64 * elapsed as f64 / self.sampled_ns as f64) as u64)
    }
}

fn start_timing() -> Option<OwnedFd> {
    // SAFETY: takes a plain enum value and returns a new descriptor or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn runs(programs: &[BorrowedFd<'_>]) -> Runs {
    let mut sum = Runs::default();
    for (index, program) in programs.iter().enumerate() {
        let Some((count, time_ns)) = run_count(*program) else {
            continue;
        };
        if index == 0 {
            sum.halts = count;
        }
        sum.time_ns += time_ns;
    }
    sum
}

/// How often a program ran and for how long, while timing was on.
fn run_count(program: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(size_of_val(&info)).ok()?;
    let target = std::ptr::from_mut(&mut info).cast();
    // SAFETY: `target` points to `size` bytes that live until the call returns; the kernel fills at
    // most that many.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), target, &raw mut size)
    };
    (failed == 0).then_some((info.run_cnt, info.run_time_ns))
}
