//! `exits`: exits counted in the kernel, per vCPU, cause and interval.

use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::halt_counts::bucket_lists;
use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::Table;
use crate::tables::{Row, array, place};

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
        let u64s = |of: fn(&Self) -> u64| array(UInt64Array::from_iter_values(rows.iter().map(of)));
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        let kinds = rows.iter().map(|row| place(&Kind::ALL, row.cause.kind));
        let isas = rows.iter().map(|row| place(&Isa::ALL, row.cause.isa));
        let subs = rows.iter().map(|row| row.cause.sub);
        vec![
            u64s(|row| row.time_ns),
            u64s(|row| row.interval_ns),
            maybe_u32s(|row| row.vm.map(|vm| vm.0)),
            maybe_u32s(|row| row.vcpu.map(|vcpu| vcpu.0)),
            array(UInt32Array::from_iter_values(
                rows.iter().map(|row| row.tid.0),
            )),
            name_array(&Kind::ALL.map(Kind::as_str), kinds),
            name_array(&Isa::ALL.map(Isa::as_str), isas),
            maybe_u32s(|row| row.cause.reason),
            array(subs.collect::<UInt64Array>()),
            u64s(|row| row.count),
            u64s(|row| row.user_ns),
            bucket_lists(rows.iter().map(|row| &row.handling_ns)),
            u64s(|row| row.handling_ns.sum()),
            u64s(|row| row.handling_ns.max()),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::exits)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let interval_ns = columns.u64s("interval_ns")?;
        let vm = columns.maybe_u32s("vm")?;
        let vcpu = columns.maybe_u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let kind = columns.names("kind", Kind::from_name)?;
        let isa = columns.names("isa", Isa::from_name)?;
        let reason = columns.maybe_u32s("reason")?;
        let sub = columns.maybe_u64s("sub")?;
        let count = columns.u64s("count")?;
        let user_ns = columns.u64s("user_ns")?;
        let times = columns.hists("handling_ns")?;
        let exits = |(row, handling_ns)| Self {
            time_ns: time_ns[row],
            interval_ns: interval_ns[row],
            vm: maybe(vm, row).map(VmIndex),
            vcpu: maybe(vcpu, row).map(VcpuId),
            tid: Tid(tid[row]),
            cause: Cause {
                kind: kind[row],
                isa: isa[row],
                reason: maybe(reason, row),
                sub: maybe(sub, row),
            },
            count: count[row],
            user_ns: user_ns[row],
            handling_ns,
        };
        Ok(times.into_iter().enumerate().map(exits).collect())
    }
}
