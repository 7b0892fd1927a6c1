//! Losses: what our programs could not hand over, and runs of theirs that the kernel left out.
//!
//! A program that is under way on a CPU is not begun again there (`__bpf_trace_run` in
//! `kernel/trace/bpf_trace.c`, from 6.1 on): the kernel counts a miss, and what the run would have told
//! is gone. Such a miss is a loss like that of a full ring, and told as one.

use haltwise_core::event::Lost;
use libbpf_rs::{MapCore, MapFlags};

use super::attach::explain;
use super::program::{ExitPrograms, Programs, misses};
use crate::collector::CollectError;

/// What each count of misses is of, where KVM's halts are recorded.
pub(super) const OF_KVM: [&str; 5] = [
    "halts: runs of kvm_vcpu_wakeup's program that the kernel left out",
    "grow and shrink: runs of kvm_halt_poll_ns's program that the kernel left out",
    "wake-ups: runs of sched_waking's program that the kernel left out",
    "what woke: runs of programs of interrupts and timers that the kernel left out",
    "exits: runs of programs that the kernel left out",
];

/// The same where idle CPUs are.
pub(super) const OF_IDLE: [&str; 5] = [
    "idle periods: runs of cpu_idle's program that the kernel left out",
    "grow and shrink: runs of guest_halt_poll_ns's program that the kernel left out",
    "wakes: runs of sched_wake_idle_without_ipi's program that the kernel left out",
    "what woke: runs of programs of interrupts and timers that the kernel left out",
    "exits: runs of programs that the kernel left out",
];

type Misses = [u64; OF_KVM.len()];

/// How often the programs could not hand something over, on all CPUs, by a cause of their map of losses.
pub(super) fn lost_by(map: &impl MapCore, cause: u32) -> Result<u64, CollectError> {
    let per_cpu = map
        .lookup_percpu(&cause.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| explain("read the count of losses", &error))?;
    let counts = per_cpu.unwrap_or_default();
    let each = counts.iter();
    Ok(each
        .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)))
        .sum())
}

#[derive(Debug)]
pub(super) struct Missed {
    places: &'static [&'static str; OF_KVM.len()],
    told: Misses,
}

impl Missed {
    /// None yet; `places` are what they are of.
    pub(super) fn new(places: &'static [&'static str; OF_KVM.len()]) -> Self {
        let told = Misses::default();
        Self { places, told }
    }

    /// What was missed since the last call.
    pub(super) fn lost(&mut self, now_ns: u64, programs: &Programs<'_>) -> Vec<Lost> {
        self.since(now_ns, all(programs))
    }

    fn since(&mut self, now_ns: u64, now: Misses) -> Vec<Lost> {
        let before = std::mem::replace(&mut self.told, now);
        let counts = now.into_iter().zip(before).zip(self.places);
        let lost = counts.map(|((now, before), place)| Lost {
            time_ns: now_ns,
            count: now.saturating_sub(before),
            place: (*place).to_owned(),
        });
        lost.filter(|lost| lost.count > 0).collect()
    }
}

fn all(programs: &Programs<'_>) -> Misses {
    let exits = programs.exits.iter().flat_map(ExitPrograms::each);
    [
        misses(programs.halt),
        misses(programs.window),
        misses(programs.waking),
        programs.others.iter().copied().map(misses).sum(),
        exits.map(misses).sum(),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_miss_is_told_once_with_what_it_is_of() {
        let mut missed = Missed::new(&OF_KVM);
        let mut told = |time_ns, misses| {
            let lost = missed.since(time_ns, misses).into_iter();
            lost.map(|lost| (lost.time_ns, lost.count, lost.place))
                .collect::<Vec<_>>()
        };
        let place = |nth: usize| OF_KVM[nth].to_owned();
        assert_eq!(told(1, [0; 5]), []);
        assert_eq!(
            told(2, [3, 0, 1, 0, 0]),
            [(2, 3, place(0)), (2, 1, place(2))]
        );
        assert_eq!(told(3, [3, 0, 1, 0, 0]), []);
        assert_eq!(
            told(4, [4, 9, 1, 0, 2]),
            [(4, 1, place(0)), (4, 9, place(1)), (4, 2, place(4))]
        );
    }
}
