//! `halt_counts`: halts counted in the kernel, per vCPU and interval.

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{ArrayRef, UInt64Array};
use haltwise_core::event::HaltCounts;
use haltwise_core::hist::LogHist;

use crate::cells::{Cell, Field};
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::info::CaptureInfo;
use crate::laws::Laws;
use crate::table::number_field;
use crate::tables::array;

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
        halt_ns_hist: Numbers, "Whole halts: counts by [bucket](capture-format.md#buckets).";
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

row! {
    HaltCounts of HaltCounts, COLUMNS {
        time_ns, interval_ns, vm, vcpu, tid, halts, waited, poll_known/later, polled, successful_polls, poll_cuts,
        turned_back_ns/later, wakes, halt_ns, gap_ns, poll_success_ns, poll_fail_ns,
        wake_latency_ns
    }

    fn in_info(info: &CaptureInfo) -> Vec<Self> {
        info.unwritten.clone()
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::halt_counts)
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

impl Field for [u64; WAKES.len()] {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        to.extend((0..WAKES.len()).map(|wake| Cell::array(cells.clone().map(|all| &all[wake]))));
    }

    fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
        let mut wakes = [&[][..]; WAKES.len()];
        for (place, name) in wakes.iter_mut().zip(WAKES) {
            *place = columns.full::<UInt64Array>(name)?.values();
        }
        let rows = 0..columns.len();
        Ok(rows.map(|row| wakes.map(|wake| wake[row])).collect())
    }
}

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
