//! Counts mode: the kernel's histograms, read and turned into one row for each vCPU and interval.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use haltwise_core::event::{HaltCounts, WakeSource};
use haltwise_core::hist::{KERNEL_BUCKETS, LogHist};
use haltwise_core::ids::Tid;
use libbpf_rs::{MapCore, MapFlags, MapMut};

use super::attach::explain;
use super::record::{self, Place};
use super::skel::collector::types::{count_hist, vcpu_counts};
use crate::bytes::{u32_at, u32s_at, u64_at};
use crate::collector::CollectError;

const SIZE: usize = size_of::<vcpu_counts>();
const HISTS: usize = count_hist::COUNT_HISTS.0 as usize;
const WAKE_FACTS: usize = 256;
const _: () = assert!(
    SIZE == 8 * 8 + HISTS * 8 + HISTS * KERNEL_BUCKETS * 4 + WAKE_FACTS * 4 + 2 * 4,
    "vcpu_counts in intf.h changed: look at this decoder"
);

/// All counts of one thread since its first halt, as they lie in the kernel's value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Totals(Vec<u8>);

impl Totals {
    fn none() -> Self {
        Self(vec![0; SIZE])
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.get(..SIZE)?.to_vec()))
    }

    fn long(&self, offset: usize) -> u64 {
        u64_at(&self.0, offset).unwrap_or(0)
    }

    fn words(&self, offset: usize, count: usize) -> Vec<u32> {
        u32s_at(&self.0, offset, count).unwrap_or_default()
    }

    fn halts(&self) -> u64 {
        self.long(offset_of!(vcpu_counts, halts))
    }

    /// Counts since `before`. The kernel's 32-bit counts may have wrapped once.
    fn since(&self, before: &Self, time_ns: u64, interval_ns: u64, tid: Tid) -> HaltCounts {
        let grown = |offset| self.long(offset).wrapping_sub(before.long(offset));
        let words = |offset, count| {
            let now = self.words(offset, count).into_iter();
            now.zip(before.words(offset, count))
                .map(|(now, then)| u64::from(now.wrapping_sub(then)))
        };
        let add = |to: &mut LogHist, which: count_hist| {
            let which = which.0 as usize;
            let hist = offset_of!(vcpu_counts, hist) + which * KERNEL_BUCKETS * 4;
            let sum_ns = grown(offset_of!(vcpu_counts, sum_ns) + which * 8);
            to.add_buckets(words(hist, KERNEL_BUCKETS), sum_ns);
        };
        let alone = |which| {
            let mut hist = LogHist::default();
            add(&mut hist, which);
            hist
        };
        let with_whole_polls = |which| {
            let mut hist = alone(which);
            add(&mut hist, count_hist::COUNT_WHOLE_POLL);
            hist
        };
        // In the histogram of whole polls, and in none of the other counts but that of halts.
        let whole = grown(offset_of!(vcpu_counts, whole_polls));
        // The halt under way at attach says nothing of its poll; those around it do.
        let known = grown(offset_of!(vcpu_counts, poll_known)) + whole;
        let if_known = |offset, whole: u64| (known > 0).then(|| grown(offset) + whole);
        let mut wakes = [0; 5];
        let facts = words(offset_of!(vcpu_counts, wakes), WAKE_FACTS);
        for (index, count) in (0_u8..=u8::MAX).zip(facts) {
            let source: WakeSource = record::source(record::wake_facts_of_index(index));
            wakes[usize::from(source.code())] += count;
        }
        HaltCounts {
            time_ns,
            interval_ns,
            vm: None,
            vcpu: None,
            tid,
            halts: grown(offset_of!(vcpu_counts, halts)),
            waited: grown(offset_of!(vcpu_counts, waited)),
            poll_known: Some(known),
            polled: if_known(offset_of!(vcpu_counts, polled), whole),
            successful_polls: if_known(offset_of!(vcpu_counts, successful_polls), whole),
            poll_cuts: if_known(offset_of!(vcpu_counts, poll_cuts), 0),
            turned_back_ns: if_known(offset_of!(vcpu_counts, turned_back_ns), 0),
            wakes,
            halt_ns: with_whole_polls(count_hist::COUNT_HALT),
            gap_ns: with_whole_polls(count_hist::COUNT_GAP),
            poll_success_ns: with_whole_polls(count_hist::COUNT_POLL_SUCCESS),
            poll_fail_ns: alone(count_hist::COUNT_POLL_FAIL),
            wake_latency_ns: alone(count_hist::COUNT_WAKE_LATENCY),
        }
    }
}

#[derive(Debug)]
pub(super) struct Seen {
    slot: u32,
    tid: u32,
    totals: Totals,
}

#[derive(Debug, Default)]
pub(super) struct CountsReader {
    before: BTreeMap<u32, Totals>,
    last_ns: Option<u64>,
}

impl CountsReader {
    pub(super) fn start(&mut self, now_ns: u64) {
        self.last_ns = Some(now_ns);
    }

    pub(super) fn interval_start_ns(&self) -> Option<u64> {
        self.last_ns
    }

    pub(super) fn begin(&mut self, all: Vec<Seen>, now_ns: u64) {
        self.last_ns = Some(now_ns);
        let before = all.into_iter().map(|seen| (seen.slot, seen.totals));
        self.before.extend(before);
    }

    pub(super) fn look(map: &MapMut<'_>, used: u32) -> Result<Vec<Seen>, CollectError> {
        let mut all = Vec::new();
        for slot in 0..used {
            let value = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
            let value = value.map_err(explain("read the kernel's counts"))?;
            let Some(bytes) = value else { continue };
            let refused = || CollectError::Record {
                got: bytes.len(),
                expected: SIZE,
            };
            let totals = Totals::decode(&bytes).ok_or_else(refused)?;
            let tid = u32_at(&bytes, offset_of!(vcpu_counts, tid)).ok_or_else(refused)?;
            all.push(Seen { slot, tid, totals });
        }
        Ok(all)
    }

    /// One row for each thread that halted since the last call. Where a thread's place is not known
    /// yet, its counts wait for the next call, but for the `last`.
    pub(super) fn rows(
        &mut self,
        all: Vec<Seen>,
        now_ns: u64,
        last: bool,
        place: &mut dyn FnMut(u32) -> Option<Place>,
    ) -> Vec<HaltCounts> {
        let interval_ns = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        let mut rows = Vec::new();
        for Seen { slot, tid, totals } in all {
            let before = self.before.entry(slot).or_insert_with(Totals::none);
            if totals.halts() == before.halts() {
                continue;
            }
            let place = match place(tid) {
                Some(place) => place,
                None if last => Place::default(),
                None => continue,
            };
            let mut row = totals.since(before, now_ns, interval_ns, Tid(tid));
            (row.vm, row.vcpu) = (place.vm, place.vcpu);
            rows.push(row);
            *before = totals;
        }
        rows.sort_by_key(|row| (row.vm, row.vcpu, row.tid));
        rows
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::VmIndex;

    use super::*;
    use crate::bytes::made_of;

    macro_rules! at {
        ($field:ident) => {
            offset_of!(vcpu_counts, $field)
        };
    }

    /// Counts of which these are not zero: of 64 bits, then of 32.
    fn totals(longs: &[(usize, u64)], words: &[(usize, u32)]) -> Totals {
        Totals(made_of(SIZE, longs, words))
    }

    /// Offset of a bucket, and that of the sum of its histogram.
    fn bucket(which: count_hist, bucket: usize) -> (usize, usize) {
        let which = which.0 as usize;
        let bucket = at!(hist) + (which * KERNEL_BUCKETS + bucket) * 4;
        (bucket, at!(sum_ns) + which * 8)
    }

    fn since(now: &Totals, before: &Totals) -> HaltCounts {
        now.since(before, 5, 5, Tid(1))
    }

    #[test]
    fn a_whole_poll_is_a_halt_a_gap_and_a_successful_poll() {
        let (whole, whole_ns) = bucket(count_hist::COUNT_WHOLE_POLL, 5);
        let (halt, halt_ns) = bucket(count_hist::COUNT_HALT, 7);
        let longs = [
            (at!(halts), 3),
            (at!(whole_polls), 2),
            (at!(waited), 1),
            (at!(poll_known), 1),
            (whole_ns, 10),
            (halt_ns, 7),
        ];
        let now = totals(&longs, &[(whole, 2), (halt, 1)]);
        let row = since(&now, &Totals::none());
        assert_eq!((row.halts, row.waited), (3, 1));
        assert_eq!((row.polled, row.successful_polls), (Some(2), Some(2)));
        assert_eq!((row.halt_ns.count(), row.halt_ns.sum()), (3, 17));
        assert_eq!((row.gap_ns.count(), row.gap_ns.sum()), (2, 10));
        assert_eq!(row.poll_success_ns.count(), 2);
        assert_eq!(row.poll_fail_ns.count(), 0);
    }

    #[test]
    fn growth_is_taken_across_a_wrap_of_the_kernels_32_bits() {
        let (halt, halt_ns) = bucket(count_hist::COUNT_HALT, 3);
        let before = totals(&[(at!(halts), 10)], &[(halt, u32::MAX)]);
        let longs = [(at!(halts), 12), (at!(waited), 2), (halt_ns, 6)];
        let row = since(&totals(&longs, &[(halt, 1)]), &before);
        assert_eq!((row.halts, row.waited), (2, 2));
        assert_eq!((row.halt_ns.count(), row.halt_ns.sum()), (2, 6));
        // Two halts, for none of which the polling counters were known.
        assert_eq!((row.poll_known, row.polls_known()), (Some(0), 0));
        let polls = (row.polled, row.successful_polls, row.poll_cuts);
        assert_eq!(polls, (None, None, None));
    }

    #[test]
    fn what_was_turned_back_is_told_where_polls_are() {
        let before = totals(&[(at!(turned_back_ns), 700)], &[]);
        let turned_back = |known| {
            let longs = [
                (at!(halts), 2),
                (at!(poll_known), known),
                (at!(turned_back_ns), 1_700),
            ];
            since(&totals(&longs, &[]), &before).turned_back_ns
        };
        assert_eq!((turned_back(2), turned_back(0)), (Some(1_000), None));
    }

    #[test]
    fn wake_facts_become_sources() {
        // The second: woken, by neither timer nor vCPU.
        let words = [(at!(wakes), 1), (at!(wakes) + 4, 2)];
        let longs = [(at!(halts), 3), (at!(poll_known), 3)];
        let row = since(&totals(&longs, &words), &Totals::none());
        assert_eq!(row.wakes, [0, 0, 2, 0, 1]);
        assert_eq!(row.polled, Some(0));
    }

    /// A thread that has halted so often.
    fn seen(halts: u64) -> Vec<Seen> {
        let totals = totals(&[(at!(halts), halts)], &[]);
        let (slot, tid) = (0, 7);
        vec![Seen { slot, tid, totals }]
    }

    /// A VM that appeared between a look around and the reading of the counts.
    #[test]
    fn counts_of_a_thread_that_nobody_knows_yet_wait_until_somebody_does() {
        let vm = Some(VmIndex(3));
        let place = Place { vm, vcpu: None };
        let mut reader = CountsReader::default();
        reader.start(0);
        let mut halts = |so_many, last, place: Option<Place>| -> Vec<_> {
            let rows = reader.rows(seen(so_many), 10, last, &mut |_| place);
            rows.iter().map(|row| (row.vm, row.halts)).collect()
        };
        assert_eq!(halts(5, false, None), []);
        assert_eq!(halts(9, false, Some(place)), [(vm, 9)]);
        assert_eq!(halts(9, true, None), [], "nothing came since");
        // The last call keeps nothing back.
        assert_eq!(halts(11, true, None), [(None, 2)]);
    }

    #[test]
    fn what_was_counted_before_the_beginning_is_nobodys() {
        let mut reader = CountsReader::default();
        reader.start(0);
        reader.begin(seen(5), 100);
        let rows = reader.rows(seen(9), 120, true, &mut |_| None);
        let row = &rows[0];
        assert_eq!((row.time_ns, row.interval_ns, row.halts), (120, 20, 4));
        assert_eq!(rows.len(), 1);
    }
}
