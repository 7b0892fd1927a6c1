//! Stats mode: what KVM itself has counted of each vCPU, as one row for each vCPU and interval.
//!
//! No program runs on a halt. KVM's counters are read in the walk over open files that finds vCPUs, once an interval, and
//! once more where a vCPU's thread ends: a process closes its files after that. Each of KVM's buckets is spread over eight
//! of ours, and `tune` folds them back.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};

use haltwise_core::event::{HaltCounts, WakeSource};
use haltwise_core::hist::{KVM_HIST_BUCKETS, KvmHist};
use haltwise_core::ids::{Tid, VcpuId};

use super::record::Place;
use super::skel::collector::types::{kvm_hist, stats_record};
use super::walk::FoundVcpu;
use crate::bytes::u64_at;

pub(super) const SIZE: usize = size_of::<stats_record>();
const HISTS: usize = kvm_hist::KVM_HISTS.0 as usize;
const _: () = assert!(
    SIZE == 5 * 8 + HISTS * KVM_HIST_BUCKETS * 8,
    "stats_record in intf.h changed: look at this decoder"
);

/// KVM's counts of one vCPU since the vCPU was made: counters that only grow, laid out as in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VcpuStats([u64; SIZE / 8]);

impl VcpuStats {
    const NONE: Self = Self([0; SIZE / 8]);

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut stats = Self::NONE;
        for (at, word) in stats.0.iter_mut().enumerate() {
            *word = u64_at(bytes, at * 8)?;
        }
        Some(stats)
    }

    /// Counts since `before`. All counts where a counter has shrunk: it was reset to zero
    /// (`/sys/kernel/debug/kvm`), or the address serves another vCPU now.
    fn since(&self, before: &Self) -> Self {
        let mut grown = *self;
        for (now, then) in grown.0.iter_mut().zip(before.0) {
            let Some(since) = now.checked_sub(then) else {
                return *self;
            };
            *now = since;
        }
        grown
    }

    fn word(&self, offset: usize) -> u64 {
        self.0[offset / 8]
    }

    fn success_ns(&self) -> u64 {
        self.word(offset_of!(stats_record, success_ns))
    }

    fn fail_ns(&self) -> u64 {
        self.word(offset_of!(stats_record, fail_ns))
    }

    fn wait_ns(&self) -> u64 {
        self.word(offset_of!(stats_record, wait_ns))
    }

    fn hist(&self, which: kvm_hist) -> KvmHist {
        let first = offset_of!(stats_record, hist) / 8 + which.0 as usize * KVM_HIST_BUCKETS;
        KvmHist(std::array::from_fn(|bucket| self.0[first + bucket]))
    }

    /// Polled and waited in all, which only grows.
    fn halted_ns(&self) -> u64 {
        [self.success_ns(), self.fail_ns(), self.wait_ns()]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// As counts. KVM tells of halts that polled and of halts that waited; one that did neither leaves
    /// no trace. A halt that waited comes into the histogram of halts by its wait alone, since how long
    /// it had polled is told for all of them together; the sum is true.
    fn counts(&self, time_ns: u64, interval_ns: u64) -> HaltCounts {
        let success = self.hist(kvm_hist::KVM_POLL_SUCCESS);
        let success = success.spread(self.success_ns());
        let fail = self.hist(kvm_hist::KVM_POLL_FAIL).spread(self.fail_ns());
        let wait = self.hist(kvm_hist::KVM_WAIT);
        let waited = wait.count();
        let mut halt_ns = wait.spread(self.wait_ns().saturating_add(self.fail_ns()));
        halt_ns.merge(&success);
        let successful = self.word(offset_of!(stats_record, successful));
        let halts = successful.saturating_add(waited);
        let mut wakes = [0; 5];
        wakes[usize::from(WakeSource::Unknown.code())] = halts;
        HaltCounts {
            time_ns,
            interval_ns,
            halts,
            waited,
            poll_known: Some(halts),
            polled: Some(self.word(offset_of!(stats_record, attempted))),
            successful_polls: Some(successful),
            poll_cuts: None,
            wakes,
            halt_ns,
            // No gaps: the start of the wake-up of a halt that waited is not known, and the others alone
            // would pass for all.
            poll_success_ns: success,
            poll_fail_ns: fail,
            ..HaltCounts::default()
        }
    }
}

type Key = (u64, u64, VcpuId);

fn key(vcpu: &FoundVcpu) -> Key {
    (vcpu.vm, vcpu.address, vcpu.id)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    vcpu: FoundVcpu,
    stats: VcpuStats,
    has_ended: bool,
}

/// vCPUs as a walk found them, and as their threads left them when these ended: of each the later, for
/// counters only grow.
pub(super) fn with_last(
    found: &[(FoundVcpu, VcpuStats)],
    last: &[(FoundVcpu, VcpuStats)],
) -> Vec<Latest> {
    let mut all: BTreeMap<Key, Latest> = BTreeMap::new();
    let walked = found.iter().map(|it| (it, false));
    for ((vcpu, stats), has_ended) in walked.chain(last.iter().map(|it| (it, true))) {
        let fresh = Latest {
            vcpu: *vcpu,
            stats: *stats,
            has_ended,
        };
        let latest = all.entry(key(vcpu)).or_insert(fresh);
        latest.has_ended |= has_ended;
        if stats.halted_ns() > latest.stats.halted_ns() {
            (latest.vcpu, latest.stats) = (*vcpu, *stats);
        }
    }
    all.into_values().collect()
}

#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) rows: Vec<HaltCounts>,
    /// vCPUs of VMs that the reading before had met and this one has not: gone, their threads' ends not seen.
    pub(super) gone: Vec<Place>,
}

#[derive(Debug)]
struct Known {
    stats: VcpuStats,
    place: Place,
    has_ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct StatsReader {
    before: BTreeMap<Key, Known>,
    last_ns: Option<u64>,
}

impl StatsReader {
    pub(super) fn interval_start_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// Counts since the last call. The first call yields no rows: it only notes the counters. A vCPU
    /// that it did not see began at zero.
    pub(super) fn rows(
        &mut self,
        all: Vec<Latest>,
        now_ns: u64,
        mut place: impl FnMut(&FoundVcpu) -> Place,
    ) -> Read {
        let began = self.last_ns.replace(now_ns);
        let interval_ns = now_ns.saturating_sub(began.unwrap_or(now_ns));
        let mut read = Read::default();
        let mut before = std::mem::take(&mut self.before);
        for Latest {
            vcpu,
            stats,
            has_ended,
        } in all
        {
            let place = place(&vcpu);
            let known = before.remove(&key(&vcpu)).unwrap_or(Known {
                stats: VcpuStats::NONE,
                place,
                has_ended: false,
            });
            let row = stats.since(&known.stats).counts(now_ns, interval_ns);
            if began.is_some() && row.halts > 0 {
                read.rows.push(HaltCounts {
                    vm: place.vm,
                    vcpu: place.vcpu,
                    tid: vcpu.tid.unwrap_or(Tid(0)),
                    ..row
                });
            }
            let now = Known {
                stats,
                place,
                has_ended: has_ended || known.has_ended && known.stats == stats,
            };
            self.before.insert(key(&vcpu), now);
        }
        let there: BTreeSet<_> = self.before.values().map(|known| known.place.vm).collect();
        let unseen = before.into_values().filter(|known| !known.has_ended);
        let unseen = unseen.map(|known| known.place);
        read.gone
            .extend(unseen.filter(|place| !there.contains(&place.vm)));
        read.rows.sort_by_key(|row| (row.vm, row.vcpu, row.tid));
        read
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::{Pid, VmIndex};

    use super::*;

    fn vcpu(address: u64) -> FoundVcpu {
        FoundVcpu {
            pid: Pid(7),
            vm: 1,
            address,
            tid: Some(Tid(9)),
            ..FoundVcpu::default()
        }
    }

    /// `polls` polls of 1 to 1.02 us that succeeded, and `waits` waits of 0.5 to 1 ms after a poll of 10 us.
    fn stats(polls: u64, waits: u64) -> VcpuStats {
        let mut stats = VcpuStats::NONE;
        let mut set = |offset: usize, value| stats.0[offset / 8] = value;
        set(offset_of!(stats_record, attempted), polls + waits);
        set(offset_of!(stats_record, successful), polls);
        set(offset_of!(stats_record, success_ns), polls * 1_010);
        set(offset_of!(stats_record, fail_ns), waits * 10_000);
        set(offset_of!(stats_record, wait_ns), waits * 600_000);
        for (hist, ns, count) in [(0, 1_010, polls), (1, 10_000, waits), (2, 600_000, waits)] {
            let bucket = hist * KVM_HIST_BUCKETS + KvmHist::bucket_of(ns);
            set(offset_of!(stats_record, hist) + bucket * 8, count);
        }
        stats
    }

    fn rows(
        reader: &mut StatsReader,
        found: &[(FoundVcpu, VcpuStats)],
        at: u64,
    ) -> Vec<HaltCounts> {
        read(reader, found, &[], at).rows
    }

    type Seen = (FoundVcpu, VcpuStats);

    fn read(reader: &mut StatsReader, found: &[Seen], last: &[Seen], at: u64) -> Read {
        reader.rows(with_last(found, last), at, |_| Place {
            vm: Some(VmIndex(3)),
            vcpu: Some(VcpuId(0)),
        })
    }

    #[test]
    fn the_last_statistics_of_a_vcpu_that_ended_count() {
        let mut reader = StatsReader::default();
        let halts = |read: &Read| read.rows.iter().map(|row| row.halts).sum::<u64>();
        read(&mut reader, &[(vcpu(5), stats(10, 5))], &[], 10);
        // Its VM is gone, its thread said where it stood.
        let told = read(&mut reader, &[], &[(vcpu(5), stats(30, 7))], 20);
        assert_eq!((halts(&told), told.gone.len()), (22, 0));
        assert_eq!(read(&mut reader, &[], &[], 30).gone, []);
        // The walk came before the end, or after it: either way all of it counts once.
        read(&mut reader, &[(vcpu(6), stats(10, 5))], &[], 40);
        let both = read(
            &mut reader,
            &[(vcpu(6), stats(11, 5))],
            &[(vcpu(6), stats(12, 6))],
            50,
        );
        assert_eq!(halts(&both), 3);
        let still = read(&mut reader, &[(vcpu(6), stats(12, 6))], &[], 60);
        assert_eq!((halts(&still), still.gone.len()), (0, 0));
    }

    #[test]
    fn who_is_gone_without_a_last_word_is_said() {
        let mut reader = StatsReader::default();
        read(&mut reader, &[(vcpu(5), stats(10, 5))], &[], 10);
        let told = read(&mut reader, &[], &[], 20);
        assert_eq!(told.gone.len(), 1);
        assert_eq!(told.gone[0].vm, Some(VmIndex(3)));
        assert_eq!(read(&mut reader, &[], &[], 30).gone, [], "once");
    }

    #[test]
    fn what_stood_there_at_first_is_not_counted_and_what_came_is() {
        let mut reader = StatsReader::default();
        assert_eq!(rows(&mut reader, &[(vcpu(5), stats(100, 50))], 10), []);
        let found = [(vcpu(5), stats(103, 52)), (vcpu(6), stats(1, 0))];
        let told = rows(&mut reader, &found, 30);
        assert_eq!(told.len(), 2);
        let row = told.iter().find(|row| row.halts == 5).unwrap();
        assert_eq!((row.time_ns, row.interval_ns), (30, 20));
        assert_eq!((row.waited, row.polled), (2, Some(5)));
        assert_eq!(row.successful_polls, Some(3));
        assert_eq!((row.gap_ns.count(), row.poll_success_ns.sum()), (0, 3_030));
        assert_eq!(row.poll_fail_ns.sum(), 20_000);
        assert_eq!((row.halt_ns.count(), row.halt_ns.sum()), (5, 1_223_030));
        assert_eq!(row.wake_latency_ns.count(), 0);
        assert_eq!(row.wakes.iter().sum::<u64>(), 5);
        // The new vCPU began at zero; nothing more came of either.
        assert_eq!(told.iter().map(|row| row.halts).sum::<u64>(), 6);
        assert_eq!(rows(&mut reader, &found, 40), []);
    }

    #[test]
    fn counters_that_shrank_began_anew() {
        let mut reader = StatsReader::default();
        rows(&mut reader, &[(vcpu(5), stats(100, 50))], 10);
        let told = rows(&mut reader, &[(vcpu(5), stats(2, 60))], 20);
        assert_eq!((told[0].halts, told[0].waited), (62, 60));
    }

    #[test]
    fn bytes_come_back_and_too_few_do_not() {
        let mut bytes = vec![0; SIZE];
        bytes[offset_of!(stats_record, wait_ns)] = 7;
        bytes[offset_of!(stats_record, hist) + (2 * KVM_HIST_BUCKETS + 4) * 8] = 9;
        let stats = VcpuStats::decode(&bytes).unwrap();
        assert_eq!(
            (stats.wait_ns(), stats.hist(kvm_hist::KVM_WAIT).0[4]),
            (7, 9)
        );
        for cut in [0, 8, SIZE - 1] {
            assert_eq!(VcpuStats::decode(&bytes[..cut]), None);
        }
    }
}
