//! Tables of halts, of calls of grow and shrink, and of what the kernel counted of halts and exits.

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{ArrayRef, UInt64Array};
use haltwise_core::event::{Halt, HaltCounts, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::hist::LogHist;

use crate::cells::{Cell, Field};
use crate::columns::Columns;
use crate::convert::Place;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::number_field;
use crate::tables::Law;
use crate::tables::array;

table! {
    Halts: Halt {
        start_ns: U64, "When the halt began: its end less `halt_ns`.";
        halt_ns: U64, "KVM's measure of the whole halt, polling and wake-up latency included (`kvm_vcpu_wakeup.ns`).";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "thread not placed", "The vCPU.";
        tid: U32, "The thread that ran the vCPU, in the root PID namespace.";
        waited: Bool, "The vCPU was really scheduled out (`kvm_vcpu_wakeup.waited`).";
        valid: Bool, "KVM counted the wake-up as valid (`kvm_vcpu_wakeup.valid`); false on s390 only.";
        window_ns: U32, null "not readable", "Polling window in force at entry, clamped to the ceiling as KVM does.";
        window_next_ns: U32, null "not readable", "Polling window that the rule left behind.";
        ceiling_ns: U32, null "not readable", "Ceiling in force.";
        ceiling_source: Name,
            "Who set the ceiling: `param` (module parameter), `cap` (`KVM_CAP_HALT_POLL` of this VM), `snapshot` (taken when the VM was made, Linux 5.8 to 6.0), `unknown`.";
        change: Name, "Which rule KVM called for this halt: `none`, `grow`, `shrink`.";
        poll_ns: U64, null "not known",
            "Time polled, as KVM booked it; 0 where the vCPU was not allowed to poll. Where `poll_cut` and `polled` are NULL and the vCPU slept, the longest that the poll can have taken.";
        polled: Bool, null "not read" later,
            "KVM counted an attempted poll (`halt_attempted_poll`). A poll that is met at its first look takes 0 ns; a guest that disabled host polling does not poll whatever its window. Older captures lack it.";
        wake_latency_ns: U64, null "not known",
            "From the wake event until KVM had the vCPU running again; 0 if it did not wait.";
        wake: Name, "What ended the halt: `timer`, `ipi`, `device`, `other`, `unknown`.";
        poll_cut: Bool, null "not known", "Polling stopped because another task wanted the CPU (`kvm_vcpu_can_poll`).";
        cpu: U32, null "not recorded" later, "CPU on which the vCPU ran when the halt ended. Older captures lack it.";
        waker_cpu: U32, null "not recorded, or it did not sleep" later,
            "CPU from which the vCPU was woken; `roster.cpus` of `capture.json` has the host's cores and caches. Older captures lack it.";
    }
    fn place(&mut self, places: &[Place]) {
        Place::put(places, &mut self.vm, &mut self.vcpu);
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.halts(rows)
    }
}

table! {
    WindowChanges: WindowChange {
        time_ns: U64, "When.";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "unknown", "The vCPU, as the tracepoint names it.";
        tid: U32, "The thread that ran the vCPU.";
        change: Name, "`grow` or `shrink`.";
        old_ns: U32, "Window before.";
        new_ns: U32, "Window after; may exceed the ceiling from Linux 6.1 on, where the clamp comes at the next halt.";
    }
    of { time_ns, vm, vcpu, tid, grow as "change" / change, old_ns, new_ns }
    const LAW: Option<Law<Self>> = Some(Laws::window_change);

    fn place(&mut self, places: &[Place]) {
        Place::put(places, &mut self.vm, &mut self.vcpu);
    }
}

/// The column `change`: whether the window grew.
mod change {
    use arrow_array::ArrayRef;

    use crate::columns::{Columns, name_array};
    use crate::error::CaptureReadError;

    pub(super) fn array<'a>(grew: impl Iterator<Item = &'a bool>) -> ArrayRef {
        name_array(&["shrink", "grow"], grew.map(|grew| u8::from(*grew)))
    }

    pub(super) fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<bool>, CaptureReadError> {
        columns.names(name, |name| match name {
            "grow" => Some(true),
            "shrink" => Some(false),
            _ => None,
        })
    }
}

table! {
    HaltCounts: HaltCounts {
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
    of {
        time_ns, interval_ns, vm, vcpu, tid, halts, waited, poll_known/later, polled, successful_polls, poll_cuts,
        turned_back_ns/later, wakes, halt_ns, gap_ns, poll_success_ns, poll_fail_ns,
        wake_latency_ns
    }
    const LAW: Option<Law<Self>> = Some(Laws::halt_counts);
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

table! {
    Exits: Exits {
        time_ns: U64, "End of the interval.";
        interval_ns: U64, "Its length.";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "thread not placed", "The vCPU.";
        tid: U32, "The thread that ran the vCPU; 0 for the kind `other`.";
        kind: Name, "What was counted: [kinds](capture-format.md#exits).";
        isa: Name,
            "Whose reason it is: `vmx`, `svm`, `arm64`, `s390`, `riscv`, `loongarch`, `powerpc`; `none` where it is KVM's own or there is none.";
        reason: U32, null "none, or not readable", "The reason's number.";
        sub: U64, null "not a sub-key", "What the exit was about.";
        count: U64, "How often.";
        user_ns: U64, "Of `handling_ns_sum`, what was spent in user space.";
        handling_ns_hist: Numbers, "Times, by bucket as in `halt_counts`.";
        handling_ns_sum: U64, "Their sum.";
        handling_ns_max: U64, "The longest, or the upper edge of its bucket.";
    }
    of {
        time_ns, interval_ns, vm, vcpu, tid, cause, count, user_ns, handling_ns
    }
    const LAW: Option<Law<Self>> = Some(Laws::exits);
}
