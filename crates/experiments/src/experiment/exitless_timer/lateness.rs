//! How late timers were, as their guests noted it.

use haltwise_lab::guest::Clock;
use haltwise_lab::memory::{GuestMemory, timer, vcpu_page};
use haltwise_lab::run::Finished;
use haltwise_lab::tsc::TscClock;

const PIT_HZ: u64 = 1_193_182;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Timers {
    pub(super) came: u64,
    pub(super) hardware: u64,
    pub(super) early: u64,
    /// How late the last timers of each vCPU were, in nanoseconds.
    pub(super) late_ns: Vec<u64>,
}

/// Reads them once a run has ended.
pub(super) fn read(
    memories: &[GuestMemory],
    finished: &Finished,
    clock: Clock,
    tsc_khz: u32,
) -> anyhow::Result<Timers> {
    let mut found = Timers::default();
    for (memory, vcpus) in memories.iter().zip(&finished.rounds) {
        for (vcpu, rounds) in (0_u32..).zip(vcpus) {
            let count = memory.word(vcpu, timer::TIMERS)?;
            found.came += u64::from(count);
            found.early += u64::from(memory.word(vcpu, timer::EARLY)?);
            found.hardware += u64::from(memory.word(vcpu, timer::HARDWARE)?);
            let samples = ring(memory, vcpu, count as usize)?;
            if clock == Clock::Pit {
                let last = memory.double_word(vcpu, timer::DUE)?;
                let divisor = memory.word(vcpu, haltwise_lab::memory::param::PERIOD)?;
                let stamps = rounds.tsc.map(|tsc| times(&samples, last, &tsc));
                let late = off_the_grid(&stamps.unwrap_or_default(), divisor, PIT_HZ);
                found.late_ns.extend(late);
            } else {
                let ns = |ticks: &u32| u64::from(*ticks) * 1_000_000 / u64::from(tsc_khz.max(1));
                found.late_ns.extend(samples.iter().map(ns));
            }
        }
    }
    Ok(found)
}

fn ring(memory: &GuestMemory, vcpu: u32, count: usize) -> anyhow::Result<Vec<u32>> {
    let room = usize::from(timer::SAMPLE_COUNT);
    let mut bytes = vec![0; room * 4];
    memory.read(vcpu_page(vcpu) + u32::from(timer::SAMPLES), &mut bytes)?;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, b| word << 8 | u32::from(*b))
    };
    let mut samples: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    if count < room {
        samples.truncate(count);
    } else {
        samples.rotate_left(count % room);
    }
    Ok(samples)
}

/// Monotonic times of stamps of which only the low half was kept, but of the last.
fn times(low_halves: &[u32], last: u64, tsc: &TscClock) -> Vec<u64> {
    let mut stamp = last;
    let mut newest_first = Vec::new();
    let mut later = low_halves.last().copied().unwrap_or(0);
    for low in low_halves.iter().rev() {
        stamp = stamp.wrapping_sub(u64::from(later.wrapping_sub(*low)));
        later = *low;
        newest_first.push(tsc.ns(stamp));
    }
    newest_first.reverse();
    newest_first
}

/// How far behind its tick each time is. Ticks come every `divisor / hz` seconds; their phase is not known: the
/// widest gap between the times, laid over each other, ends where no tick is late. The least late counts as 0.
fn off_the_grid(times: &[u64], divisor: u32, hz: u64) -> Vec<u64> {
    // In units of 1/hz nanoseconds a period is a whole number.
    let (hz, period) = (u128::from(hz), u128::from(divisor) * 1_000_000_000);
    let Some(first) = times.first().filter(|_| period > 0) else {
        return Vec::new();
    };
    let phase = |at: &u64| u128::from(at.saturating_sub(*first)) * hz % period;
    let phases: Vec<u128> = times.iter().map(phase).collect();
    let mut sorted = phases.clone();
    sorted.sort_unstable();
    let after = |from: u128, to: u128| (to + period - from) % period;
    let next = sorted.iter().cycle().skip(1);
    let gaps = sorted.iter().zip(next).map(|(a, b)| (after(*a, *b), *b));
    let start = gaps.max().map_or(0, |(_, start)| start);
    let late = |phase: &u128| u64::try_from(after(start, *phase) / hz).unwrap_or(u64::MAX);
    phases.iter().map(late).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_lab::tsc::Moment;

    #[test]
    fn lateness_is_the_distance_from_a_grid_that_nobody_tells() {
        // Ticks every 1000 from 300 on, one of them lost.
        let late = [40, 0, 7, 999, 0];
        let ticks = [300, 1_300, 2_300, 4_300, 5_300];
        let times: Vec<u64> = ticks.iter().zip(late).map(|(t, late)| t + late).collect();
        let found = off_the_grid(&times, 1_000, 1_000_000_000);
        // 999 late cannot be told from 1 early: the widest gap decides.
        assert_eq!(found, [41, 1, 8, 0, 1]);
        let times: Vec<u64> = ticks
            .iter()
            .zip([40, 0, 7, 500, 0])
            .map(|(t, l)| t + l)
            .collect();
        assert_eq!(
            off_the_grid(&times, 1_000, 1_000_000_000),
            [40, 0, 7, 500, 0]
        );
        assert!(off_the_grid(&[], 1_000, 1).is_empty());
    }

    #[test]
    fn halves_of_stamps_become_whole_again() {
        let clock = TscClock::new(Moment { tsc: 0, ns: 0 }, Moment { tsc: 10, ns: 10 }).unwrap();
        let stamps = [
            0x0000_0001_ffff_fff0_u64,
            0x0000_0002_0000_0010,
            0x0000_0002_8000_0000,
        ];
        let low: Vec<u32> = stamps
            .iter()
            .map(|s| u32::try_from(s & 0xffff_ffff).unwrap())
            .collect();
        assert_eq!(times(&low, stamps[2], &clock), stamps);
        assert!(times(&[], 9, &clock).is_empty());
    }

    #[test]
    fn a_ring_is_read_oldest_first() {
        let memory = GuestMemory::new().unwrap();
        let room = timer::SAMPLE_COUNT;
        for index in 0..room + 3 {
            let place = timer::SAMPLES + index % room * 4;
            memory.set_word(2, place, index.into()).unwrap();
        }
        let samples = ring(&memory, 2, usize::from(room) + 3).unwrap();
        assert_eq!((samples[0], samples.len()), (3, usize::from(room)));
        assert_eq!(samples.last(), Some(&u32::from(room + 2)));
        assert_eq!(
            ring(&memory, 2, 2).unwrap(),
            [u32::from(room), u32::from(room + 1)]
        );
    }
}
