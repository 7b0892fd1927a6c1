//! Data that the disk did not take. Halts go on as counts, so that rates stay right; settings, the host's state,
//! exits and what samples point to wait for room; the rest is counted as lost, with its time.
//!
//! All of it is bounded: counts of more intervals than are kept become counts of longer intervals.

use std::collections::BTreeMap;

use haltwise_core::event::{Facts, Halt, HaltCounts, Lost};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use crate::error::CaptureWriteError;
use crate::info::not_written;
use crate::stream::TableStream;
use crate::table::Table;
use crate::tables::Row;

/// Length of an interval of counts, as long as there are not too many of them.
const WIDTH_NS: u64 = 1_000_000_000;

/// Rows of counts, and of losses, that are kept: some ten megabytes.
const MOST: usize = 2048;

const MOST_WAITING: usize = 16 * 1024;

type Who = (Option<VmIndex>, Option<VcpuId>, Tid);

#[derive(Debug)]
pub(super) struct Backlog {
    counts: Intervals<Who, HaltCounts>,
    losses: Intervals<Table, Loss>,
    /// Rows as they are, of tables that can wait.
    pub(super) waiting: Facts,
    /// How many rows of each table may wait.
    pub(super) most_waiting: usize,
    /// Whether the flush under way has added something.
    grew: bool,
}

/// Rows of one table and interval that are not written.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    rows: u64,
    last_ns: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            counts: Intervals::new(HaltCounts::merge),
            losses: Intervals::new(|loss, more| {
                loss.rows = loss.rows.saturating_add(more.rows);
                loss.last_ns = loss.last_ns.max(more.last_ns);
            }),
            waiting: Facts::default(),
            most_waiting: MOST_WAITING,
            grew: false,
        }
    }
}

impl Backlog {
    pub(super) fn begin(&mut self) {
        self.grew = false;
    }

    pub(super) fn waits(&self) -> bool {
        !(self.counts.is_empty() && self.losses.is_empty() && self.waiting.is_empty())
    }

    pub(super) fn count(&mut self, halt: &Halt) {
        let who = (halt.vm, halt.vcpu, halt.tid);
        let interval = self.counts.of(halt.end_ns(), who);
        (interval.vm, interval.vcpu, interval.tid) = who;
        interval.count(halt);
        self.counts.fit();
        self.grew = true;
    }

    /// Keeps counts that were not written.
    pub(super) fn keep(&mut self, counts: &HaltCounts) {
        let who = (counts.vm, counts.vcpu, counts.tid);
        let interval = self.counts.of(counts.time_ns, who);
        (interval.vm, interval.vcpu, interval.tid) = who;
        interval.merge(counts);
        self.counts.fit();
    }

    pub(super) fn lose(&mut self, table: Table, rows: u64, time_ns: u64) {
        let loss = self.losses.of(time_ns, table);
        loss.rows = loss.rows.saturating_add(rows);
        loss.last_ns = loss.last_ns.max(time_ns);
        self.losses.fit();
        self.grew = true;
    }

    /// Counts to write: those of intervals that are over, or all where nothing is added to them.
    pub(super) fn take_counts(&mut self, all: bool) -> Vec<HaltCounts> {
        let taken = self.counts.take(all || !self.grew).into_iter();
        taken.map(|(_, counts)| counts).collect()
    }

    pub(super) fn take_losses(&mut self, all: bool) -> Vec<Lost> {
        let taken = self.losses.take(all || !self.grew).into_iter();
        let lost = taken.map(|(table, loss)| Lost {
            time_ns: loss.last_ns,
            count: loss.rows,
            place: not_written(table),
        });
        lost.collect()
    }
}

/// Values by interval and key; intervals become longer where there are too many.
#[derive(Debug)]
struct Intervals<K, V> {
    width_ns: u64,
    values: BTreeMap<(u64, K), V>,
    merge: fn(&mut V, &V),
}

impl<K: Ord + Copy, V: Default> Intervals<K, V> {
    fn new(merge: fn(&mut V, &V)) -> Self {
        Self {
            width_ns: WIDTH_NS,
            values: BTreeMap::new(),
            merge,
        }
    }

    fn of(&mut self, time_ns: u64, key: K) -> &mut V {
        let interval = time_ns / self.width_ns;
        self.values.entry((interval, key)).or_default()
    }

    /// Makes intervals longer until there are few enough values. Where one interval holds all time there is
    /// one value for each key, and no more can be done.
    fn fit(&mut self) {
        while self.values.len() > MOST && self.width_ns < u64::MAX / 2 {
            self.width_ns *= 2;
            for ((interval, key), value) in std::mem::take(&mut self.values) {
                let ours = self.values.entry((interval / 2, key)).or_default();
                (self.merge)(ours, &value);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values of all intervals but the latest, or of that too.
    fn take(&mut self, all: bool) -> Vec<(K, V)> {
        let latest = self
            .values
            .keys()
            .next_back()
            .map(|(interval, _)| *interval);
        let Some(latest) = latest else {
            return Vec::new();
        };
        let mut taken = std::mem::take(&mut self.values);
        if !all {
            let first = taken.keys().find(|(interval, _)| *interval == latest);
            if let Some(&first) = first {
                self.values = taken.split_off(&first);
            }
        }
        if self.values.is_empty() {
            self.width_ns = WIDTH_NS;
        }
        let taken = taken.into_iter();
        taken.map(|((_, key), value)| (key, value)).collect()
    }
}

/// Writes rows behind those that wait; what is not written waits. Without a stream, all of it. Gives how many rows had no
/// room to wait, and why not all are written.
pub(super) fn wait<R: Row + Clone>(
    stream: Option<&mut TableStream>,
    (waiting, most): (&mut Vec<R>, usize),
    rows: &[R],
    now: bool,
) -> (usize, Option<CaptureWriteError>) {
    let none = (0, None);
    let failed = if waiting.is_empty() {
        let (written, failed) = stream.map_or(none, |stream| stream.offer(rows, now));
        waiting.extend_from_slice(&rows[written..]);
        failed
    } else {
        waiting.extend_from_slice(rows);
        let (written, failed) = stream.map_or(none, |stream| stream.offer(waiting, now));
        waiting.drain(..written);
        failed
    };
    let dropped = waiting.len().saturating_sub(most);
    waiting.truncate(most);
    (dropped, failed)
}

/// Counts in fewer and fewer rows, down to one: the first that `fits`, else that one.
pub(super) fn reduced(
    mut counts: Vec<HaltCounts>,
    mut fits: impl FnMut(&[HaltCounts]) -> bool,
) -> Vec<HaltCounts> {
    let by: [fn(&HaltCounts) -> Who; 3] = [
        |row| (row.vm, row.vcpu, row.tid),
        |row| (row.vm, None, Tid::default()),
        |_| Who::default(),
    ];
    for who in by {
        if fits(&counts) {
            return counts;
        }
        let mut merged = BTreeMap::<Who, HaltCounts>::new();
        for row in &counts {
            let ours = merged.entry(who(row)).or_default();
            (ours.vm, ours.vcpu, ours.tid) = who(row);
            ours.merge(row);
        }
        counts = merged.into_values().collect();
    }
    counts
}

#[cfg(test)]
mod test;
