//! `halt_counts`: halts counted in the kernel, per vCPU and interval.

use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, UInt64Builder};
use haltwise_core::event::HaltCounts;
use haltwise_core::hist::LogHist;

use crate::cells::computed;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::{Table, number_field};
use crate::tables::{Row, array};

columns! {
    pub(crate) COLUMNS {
        time_ns: U64, "End of the interval.";
        interval_ns: U64, "Its length.";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "thread not placed", "The vCPU.";
        tid: U32, "The thread that ran the vCPU.";
        halts: U64, "Halts that ended in the interval.";
        waited: U64, "Of these, how many were really scheduled out.";
        poll_known: U64, null "unknown",
            "Of how many halts it is known whether they polled: the counts of polls are of these. Older captures lack it.";
        polled: U64, null "not known", "How many polled at all.";
        successful_polls: U64, null "not known",
            "How many polled and were never scheduled out (KVM's `halt_successful_poll`).";
        poll_cuts: U64, null "not known", "How many polls were cut short for another task.";
        turned_back_ns: U64, null "unknown",
            "Time neither polled nor slept by halts that were woken before schedule(). Older captures lack \
         it.";
        wakes_timer: U64, "Halts ended by a timer of the vCPU.";
        wakes_ipi: U64, "Halts ended by another vCPU of the VM.";
        wakes_device: U64, "Halts ended by a device.";
        wakes_other: U64, "Halts ended by something else that is known.";
        wakes_unknown: U64, "Halts whose wake source is unknown.";
        halt_ns_hist: Numbers, "Whole halts: counts by bucket, see below.";
        halt_ns_sum: U64, "Their sum.";
        halt_ns_max: U64, "The longest; the upper edge of its bucket where the kernel kept only buckets.";
        gap_ns_hist: Numbers, "Gaps of the halts whose wake-up latency is known.";
        gap_ns_sum: U64, "Their sum.";
        gap_ns_max: U64, "The longest, as above.";
        poll_success_ns_hist: Numbers, "Time polled by halts that were never scheduled out.";
        poll_success_ns_sum: U64, "Its sum.";
        poll_success_ns_max: U64, "The longest, as above.";
        poll_fail_ns_hist: Numbers, "Time polled by halts that were scheduled out afterwards (failed polls).";
        poll_fail_ns_sum: U64, "Its sum.";
        poll_fail_ns_max: U64, "The longest, as above.";
        wake_latency_ns_hist: Numbers, "Wake-up latency of halts that waited.";
        wake_latency_ns_sum: U64, "Its sum.";
        wake_latency_ns_max: U64, "The longest, as above.";
    }
}

/// The columns of [`HaltCounts::wakes`], in its order.
const WAKES: [&str; 5] = [
    "wakes_timer",
    "wakes_ipi",
    "wakes_device",
    "wakes_other",
    "wakes_unknown",
];

impl Row for HaltCounts {
    const TABLE: Table = Table::HaltCounts;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let mut arrays = vec![
            computed(rows, |row| row.time_ns),
            computed(rows, |row| row.interval_ns),
            computed(rows, |row| row.vm),
            computed(rows, |row| row.vcpu),
            computed(rows, |row| row.tid),
            computed(rows, |row| row.halts),
            computed(rows, |row| row.waited),
            computed(rows, |row| row.poll_known),
            computed(rows, |row| row.polled),
            computed(rows, |row| row.successful_polls),
            computed(rows, |row| row.poll_cuts),
            computed(rows, |row| row.turned_back_ns),
        ];
        for wake in 0..WAKES.len() {
            arrays.push(computed(rows, |row| row.wakes[wake]));
        }
        let hists: [fn(&Self) -> &LogHist; 5] = [
            |c| &c.halt_ns,
            |c| &c.gap_ns,
            |c| &c.poll_success_ns,
            |c| &c.poll_fail_ns,
            |c| &c.wake_latency_ns,
        ];
        for hist in hists {
            arrays.push(bucket_lists(rows.iter().map(hist)));
            arrays.push(computed(rows, |row| hist(row).sum()));
            arrays.push(computed(rows, |row| hist(row).max()));
        }
        arrays
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::halt_counts)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.reader("time_ns")?;
        let interval_ns = columns.reader("interval_ns")?;
        let vm = columns.reader("vm")?;
        let vcpu = columns.reader("vcpu")?;
        let tid = columns.reader("tid")?;
        let halts = columns.reader("halts")?;
        let waited = columns.reader("waited")?;
        let poll_known = columns.later("poll_known")?;
        let polled = columns.reader("polled")?;
        let successful_polls = columns.reader("successful_polls")?;
        let poll_cuts = columns.reader("poll_cuts")?;
        let turned_back_ns = columns.later("turned_back_ns")?;
        let mut wakes = [&[][..]; WAKES.len()];
        for (place, name) in wakes.iter_mut().zip(WAKES) {
            *place = columns.u64s(name)?;
        }
        let mut hists = [
            columns.hists("halt_ns")?.into_iter(),
            columns.hists("gap_ns")?.into_iter(),
            columns.hists("poll_success_ns")?.into_iter(),
            columns.hists("poll_fail_ns")?.into_iter(),
            columns.hists("wake_latency_ns")?.into_iter(),
        ];
        let counts = |row| {
            let [
                halt_ns,
                gap_ns,
                poll_success_ns,
                poll_fail_ns,
                wake_latency_ns,
            ] = hists.each_mut().map(|hist| hist.next().unwrap_or_default());
            Self {
                time_ns: time_ns.at(row),
                interval_ns: interval_ns.at(row),
                vm: vm.at(row),
                vcpu: vcpu.at(row),
                tid: tid.at(row),
                halts: halts.at(row),
                waited: waited.at(row),
                poll_known: poll_known.at(row),
                polled: polled.at(row),
                successful_polls: successful_polls.at(row),
                poll_cuts: poll_cuts.at(row),
                turned_back_ns: turned_back_ns.at(row),
                wakes: wakes.map(|wake| wake[row]),
                halt_ns,
                gap_ns,
                poll_success_ns,
                poll_fail_ns,
                wake_latency_ns,
            }
        };
        Ok((0..columns.len()).map(counts).collect())
    }
}

/// Histograms as lists of counts.
pub(crate) fn bucket_lists<'a>(hists: impl Iterator<Item = &'a LogHist>) -> ArrayRef {
    number_lists(hists.map(LogHist::counts))
}

pub(crate) fn number_lists(rows: impl Iterator<Item = impl AsRef<[u64]>>) -> ArrayRef {
    let mut lists = ListBuilder::new(UInt64Builder::new()).with_field(number_field());
    for numbers in rows {
        lists.values().append_slice(numbers.as_ref());
        lists.append(true);
    }
    array(lists.finish())
}
