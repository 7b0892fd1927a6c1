//! `exits`: exits counted in the kernel, per vCPU, cause and interval.

use arrow_array::ArrayRef;
use haltwise_core::exit::{Cause, Exits};

use super::halt_counts::bucket_lists;
use crate::cells::computed;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::Table;
use crate::tables::Row;

columns! {
    pub(crate) COLUMNS {
        time_ns: U64, "End of the interval.";
        interval_ns: U64, "Its length.";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "thread not placed", "The vCPU.";
        tid: U32, "The thread that ran the vCPU; 0 for the kind `other`.";
        kind: Name, "What was counted, see below.";
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
}

impl Row for Exits {
    const TABLE: Table = Table::Exits;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            computed(rows, |row| row.time_ns),
            computed(rows, |row| row.interval_ns),
            computed(rows, |row| row.vm),
            computed(rows, |row| row.vcpu),
            computed(rows, |row| row.tid),
            computed(rows, |row| row.cause.kind),
            computed(rows, |row| row.cause.isa),
            computed(rows, |row| row.cause.reason),
            computed(rows, |row| row.cause.sub),
            computed(rows, |row| row.count),
            computed(rows, |row| row.user_ns),
            bucket_lists(rows.iter().map(|row| &row.handling_ns)),
            computed(rows, |row| row.handling_ns.sum()),
            computed(rows, |row| row.handling_ns.max()),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::exits)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.reader("time_ns")?;
        let interval_ns = columns.reader("interval_ns")?;
        let vm = columns.reader("vm")?;
        let vcpu = columns.reader("vcpu")?;
        let tid = columns.reader("tid")?;
        let kind = columns.reader("kind")?;
        let isa = columns.reader("isa")?;
        let reason = columns.reader("reason")?;
        let sub = columns.reader("sub")?;
        let count = columns.reader("count")?;
        let user_ns = columns.reader("user_ns")?;
        let times = columns.hists("handling_ns")?;
        let exits = |(row, handling_ns)| Self {
            time_ns: time_ns.at(row),
            interval_ns: interval_ns.at(row),
            vm: vm.at(row),
            vcpu: vcpu.at(row),
            tid: tid.at(row),
            cause: Cause {
                kind: kind.at(row),
                isa: isa.at(row),
                reason: reason.at(row),
                sub: sub.at(row),
            },
            count: count.at(row),
            user_ns: user_ns.at(row),
            handling_ns,
        };
        Ok(times.into_iter().enumerate().map(exits).collect())
    }
}
