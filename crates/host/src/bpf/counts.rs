//! Counts mode: the kernel's histograms, read and turned into one row for each vCPU and interval.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use haltwise_core::event::{HaltCounts, WakeSource};
use haltwise_core::hist::{KERNEL_BUCKETS, LogHist};
use haltwise_core::ids::Tid;
use libbpf_rs::{MapCore, MapFlags, MapMut};

use super::attach::explain;
use super::record::{Place, u32_at};
use super::skel::types::{count_hist, vcpu_counts};
use super::wake;
use crate::collector::CollectError;

const SIZE: usize = size_of::<vcpu_counts>();
const HISTS: usize = count_hist::COUNT_HISTS.0 as usize;
const WAKE_FACTS: usize = 256;
const _: () = assert!(
    SIZE == 8 * 8 + HISTS * 8 + HISTS * KERNEL_BUCKETS * 4 + WAKE_FACTS * 4 + 2 * 4,
    "vcpu_counts in intf.h changed: look at this decoder"
);

/// All counts of one thread since its first halt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Totals {
    halts: u64,
    /// In the last histogram, and in none of the counts that follow.
    whole_polls: u64,
    waited: u64,
    poll_known: u64,
    polled: u64,
    successful_polls: u64,
    poll_cuts: u64,
    turned_back_ns: u64,
    sum_ns: [u64; HISTS],
    hist: Vec<u32>,
    wakes: Vec<u32>,
}

impl Totals {
    fn none() -> Self {
        Self {
            halts: 0,
            whole_polls: 0,
            waited: 0,
            poll_known: 0,
            polled: 0,
            successful_polls: 0,
            poll_cuts: 0,
            turned_back_ns: 0,
            sum_ns: [0; HISTS],
            hist: vec![0; HISTS * KERNEL_BUCKETS],
            wakes: vec![0; WAKE_FACTS],
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SIZE {
            return None;
        }
        let u64_of = |offset: usize| {
            Some(u64::from_ne_bytes(
                bytes.get(offset..offset + 8)?.try_into().ok()?,
            ))
        };
        let words = |offset: usize, count: usize| -> Option<Vec<u32>> {
            let (words, _) = bytes.get(offset..offset + count * 4)?.as_chunks::<4>();
            Some(words.iter().map(|word| u32::from_ne_bytes(*word)).collect())
        };
        let mut sum_ns = [0; HISTS];
        for (index, sum) in sum_ns.iter_mut().enumerate() {
            *sum = u64_of(offset_of!(vcpu_counts, sum_ns) + index * 8)?;
        }
        Some(Self {
            halts: u64_of(offset_of!(vcpu_counts, halts))?,
            whole_polls: u64_of(offset_of!(vcpu_counts, whole_polls))?,
            waited: u64_of(offset_of!(vcpu_counts, waited))?,
            poll_known: u64_of(offset_of!(vcpu_counts, poll_known))?,
            polled: u64_of(offset_of!(vcpu_counts, polled))?,
            successful_polls: u64_of(offset_of!(vcpu_counts, successful_polls))?,
            poll_cuts: u64_of(offset_of!(vcpu_counts, poll_cuts))?,
            turned_back_ns: u64_of(offset_of!(vcpu_counts, turned_back_ns))?,
            sum_ns,
            hist: words(offset_of!(vcpu_counts, hist), HISTS * KERNEL_BUCKETS)?,
            wakes: words(offset_of!(vcpu_counts, wakes), WAKE_FACTS)?,
        })
    }

    /// What came since `before`. The kernel's 32-bit counts may have wrapped once.
    fn since(&self, before: &Self, time_ns: u64, interval_ns: u64, tid: Tid) -> HaltCounts {
        let add = |to: &mut LogHist, which: count_hist| {
            let which = which.0 as usize;
            let range = which * KERNEL_BUCKETS..(which + 1) * KERNEL_BUCKETS;
            let grown = self.hist[range.clone()]
                .iter()
                .zip(&before.hist[range])
                .map(|(now, then)| u64::from(now.wrapping_sub(*then)));
            to.add_buckets(grown, self.sum_ns[which].wrapping_sub(before.sum_ns[which]));
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
        let halts = self.halts.wrapping_sub(before.halts);
        let whole = self.whole_polls.wrapping_sub(before.whole_polls);
        // The halt under way at attach says nothing of its poll; those around it do.
        let known = self.poll_known.wrapping_sub(before.poll_known) + whole;
        let if_known =
            |now: u64, then: u64, whole: u64| (known > 0).then(|| now.wrapping_sub(then) + whole);
        let mut wakes = [0; 5];
        for (index, (now, then)) in (0_u8..=u8::MAX).zip(self.wakes.iter().zip(&before.wakes)) {
            let source: WakeSource = wake::source(wake::facts_of_index(index));
            wakes[usize::from(source.code())] += u64::from(now.wrapping_sub(*then));
        }
        HaltCounts {
            time_ns,
            interval_ns,
            vm: None,
            vcpu: None,
            tid,
            halts,
            waited: self.waited.wrapping_sub(before.waited),
            poll_known: Some(known),
            polled: if_known(self.polled, before.polled, whole),
            successful_polls: if_known(self.successful_polls, before.successful_polls, whole),
            poll_cuts: if_known(self.poll_cuts, before.poll_cuts, 0),
            turned_back_ns: if_known(self.turned_back_ns, before.turned_back_ns, 0),
            wakes,
            halt_ns: with_whole_polls(count_hist::COUNT_HALT),
            gap_ns: with_whole_polls(count_hist::COUNT_GAP),
            poll_success_ns: with_whole_polls(count_hist::COUNT_POLL_SUCCESS),
            poll_fail_ns: alone(count_hist::COUNT_POLL_FAIL),
            wake_latency_ns: alone(count_hist::COUNT_WAKE_LATENCY),
        }
    }
}

/// The counts of one slot as they stood.
#[derive(Debug)]
pub(super) struct Seen {
    slot: u32,
    tid: u32,
    totals: Totals,
}

/// Reads the kernel's counts and remembers what was already handed on.
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

    /// What was counted until `now_ns` is nobody's.
    pub(super) fn begin(&mut self, all: Vec<Seen>, now_ns: u64) {
        self.last_ns = Some(now_ns);
        let before = all.into_iter().map(|seen| (seen.slot, seen.totals));
        self.before.extend(before);
    }

    /// What the kernel has counted so far. `used`: slots taken so far.
    pub(super) fn look(map: &MapMut<'_>, used: u32) -> Result<Vec<Seen>, CollectError> {
        let mut all = Vec::new();
        for slot in 0..used {
            let value = map
                .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| explain("read the kernel's counts", &error))?;
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

    /// One row for each thread that halted since the last call. Where nobody knows a thread's place
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
            if totals.halts == before.halts {
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

    #[test]
    fn a_whole_poll_is_a_halt_a_gap_and_a_successful_poll() {
        let before = Totals::none();
        let mut now = before.clone();
        now.halts = 3;
        now.whole_polls = 2;
        now.waited = 1;
        now.poll_known = 1;
        let whole = count_hist::COUNT_WHOLE_POLL.0 as usize;
        now.hist[whole * KERNEL_BUCKETS + 5] = 2;
        now.sum_ns[whole] = 10;
        let halt = count_hist::COUNT_HALT.0 as usize;
        now.hist[halt * KERNEL_BUCKETS + 7] = 1;
        now.sum_ns[halt] = 7;
        let row = now.since(&before, 5, 5, Tid(1));
        assert_eq!((row.halts, row.waited), (3, 1));
        assert_eq!((row.polled, row.successful_polls), (Some(2), Some(2)));
        assert_eq!((row.halt_ns.count(), row.halt_ns.sum()), (3, 17));
        assert_eq!((row.gap_ns.count(), row.gap_ns.sum()), (2, 10));
        assert_eq!(row.poll_success_ns.count(), 2);
        assert_eq!(row.poll_fail_ns.count(), 0);
    }

    #[test]
    fn growth_is_taken_across_a_wrap_of_the_kernels_32_bits() {
        let mut before = Totals::none();
        before.hist[3] = u32::MAX;
        before.halts = 10;
        let mut now = before.clone();
        now.hist[3] = 1;
        now.halts = 12;
        now.waited = 2;
        now.sum_ns[0] = 6;
        let row = now.since(&before, 5, 5, Tid(1));
        assert_eq!(
            (
                row.halts,
                row.waited,
                row.halt_ns.count(),
                row.halt_ns.sum()
            ),
            (2, 2, 2, 6)
        );
        // Two halts, for none of which the polling counters were known.
        assert_eq!((row.poll_known, row.polls_known()), (Some(0), 0));
        assert_eq!(
            (row.polled, row.successful_polls, row.poll_cuts),
            (None, None, None)
        );
    }

    #[test]
    fn what_was_turned_back_is_told_where_polls_are() {
        let mut now = Totals::none();
        (now.halts, now.poll_known, now.turned_back_ns) = (2, 2, 1_700);
        let mut before = Totals::none();
        before.turned_back_ns = 700;
        let row = now.since(&before, 1, 1, Tid(1));
        assert_eq!(row.turned_back_ns, Some(1_000));
        now.poll_known = 0;
        let row = now.since(&before, 1, 1, Tid(1));
        assert_eq!(row.turned_back_ns, None);
    }

    #[test]
    fn wake_facts_become_sources() {
        let mut now = Totals::none();
        now.halts = 3;
        now.poll_known = 3;
        now.wakes[0] = 1;
        now.wakes[1] = 2; // woken, by neither timer nor vCPU
        let row = now.since(&Totals::none(), 1, 1, Tid(1));
        assert_eq!(row.wakes, [0, 0, 2, 0, 1]);
        assert_eq!(row.polled, Some(0));
    }

    /// A VM that appeared between a look around and the reading of the counts.
    #[test]
    fn counts_of_a_thread_that_nobody_knows_yet_wait_until_somebody_does() {
        let seen = |halts| {
            let mut totals = Totals::none();
            totals.halts = halts;
            vec![Seen {
                slot: 0,
                tid: 7,
                totals,
            }]
        };
        let place = Place {
            vm: Some(VmIndex(3)),
            vcpu: None,
        };
        let halts = |rows: &[HaltCounts]| -> Vec<(Option<VmIndex>, u64)> {
            rows.iter().map(|row| (row.vm, row.halts)).collect()
        };
        let mut reader = CountsReader::default();
        reader.start(0);
        assert_eq!(halts(&reader.rows(seen(5), 10, false, &mut |_| None)), []);
        let rows = reader.rows(seen(9), 20, false, &mut |_| Some(place));
        assert_eq!(halts(&rows), [(Some(VmIndex(3)), 9)]);
        let rows = reader.rows(seen(9), 30, true, &mut |_| None);
        assert_eq!(halts(&rows), [], "nothing came since");
        let rows = reader.rows(seen(11), 40, true, &mut |_| None);
        assert_eq!(
            halts(&rows),
            [(None, 2)],
            "the last call keeps nothing back"
        );
    }

    #[test]
    fn what_was_counted_before_the_beginning_is_nobodys() {
        let seen = |halts| {
            let mut totals = Totals::none();
            totals.halts = halts;
            vec![Seen {
                slot: 0,
                tid: 7,
                totals,
            }]
        };
        let mut reader = CountsReader::default();
        reader.start(0);
        reader.begin(seen(5), 100);
        let rows = reader.rows(seen(9), 120, true, &mut |_| None);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.time_ns, row.interval_ns, row.halts))
            .collect();
        assert_eq!(told, [(120, 20, 4)]);
    }

    #[test]
    fn a_short_value_is_refused() {
        assert!(Totals::decode(&[0; SIZE - 1]).is_none());
        assert_eq!(Totals::decode(&[0; SIZE]), Some(Totals::none()));
    }
}
