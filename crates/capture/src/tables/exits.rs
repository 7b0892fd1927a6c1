//! `exits`: exits counted in the kernel, per vCPU, cause and interval.

use haltwise_core::exit::Exits;

use crate::laws::Laws;

columns! {
    pub(crate) COLUMNS {
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
}

row! {
    Exits of Exits, COLUMNS {
        time_ns, interval_ns, vm, vcpu, tid, cause, count, user_ns, handling_ns
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::exits)
    }
}
