//! The result: each figure with its name, unit and meaning. JSON, its schema and documentation, and tables
//! come of these declarations.

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::exit::{Isa, Kind, SubKey};
use haltwise_document::figures;

use crate::figures::{PARTS, SPREAD, Source};

pub(crate) const ABOUT: &[&str] = &[
    "Times are whole nanoseconds, and their names end in `_ns`.",
    "Shares are 0 to 1.",
    "`null` means not recorded. It never means zero.",
    "Percentiles are known to 12.5 %; `max` is the upper edge of its bucket where an interval's own largest value \
     is not known.",
];

figures! {
    pub(crate) struct ExitsResult {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: ExitsRecording = Record(ExitsRecording::FIGURES),
        /// Everything that passed between the guests and the host.
        pub(crate) total: ExitsTotal = Record(ExitsTotal::FIGURES),
        /// Where the time of these halts went, of those whose exits were seen: never more than the time of these
        /// exits. Which halts an exit held is not recorded; of a vCPU with fewer timed exits than halts it is
        /// their part.
        pub(crate) halted: Parts = Record(PARTS),
        /// Exits by reason, what cost the host most first; only those that `--exit` picks.
        pub(crate) reasons: Vec<ExitReason> = List(ExitReason::FIGURES),
        /// Returns of `KVM_RUN` to the VMM, by reason.
        pub(crate) userspace: Vec<ExitReason> = List(ExitReason::FIGURES),
        /// Sub-keys of exits, counted beside their exits, not on top of them.
        pub(crate) subs: Vec<ExitReason> = List(ExitReason::FIGURES),
        /// By VM, vCPU or second, if `--by` asks for it.
        pub(crate) groups: Vec<ExitsGroup> = List(ExitsGroup::FIGURES),
    }

    pub(crate) struct ExitsRecording {
        #[serde(flatten)]
        pub(crate) source: Source = Flat(Source::FIGURES),
        /// Architecture of the reasons: `vmx`, `svm`, `arm64`, `s390`, `riscv`, `loongarch`, `powerpc`, `none`; `null`
        /// if no exit was seen.
        pub(crate) isa: Option<Isa> = Word,
        /// Over how long exits were counted: rates refer to it.
        pub(crate) counted_ns: u64 = Nanos,
        /// Details recorded of exits beside their reasons: `msr`, `pio`, `mmio`, `gpa`, `hypercall`, `vector`,
        /// `cpuid`.
        pub(crate) sub_keys: Vec<SubKey> = Words,
        /// The vCPUs that the recording was limited to; empty for all.
        pub(crate) only_vcpus: Vec<u32> = Words,
        /// The reasons that the recording was limited to; empty for all.
        pub(crate) only_reasons: Vec<String> = Words,
    }

    pub(crate) struct ExitsTotal {
        /// Exits whose reason is known.
        pub(crate) exits: u64 = Count,
        /// Those of them by which a guest halted.
        pub(crate) halt_exits: u64 = Count,
        /// Exits whose time is not known: no next entry of that vCPU was seen in that thread.
        pub(crate) untimed: u64 = Count,
        /// Cost to the host of all exits: their time less the halts' sleep.
        pub(crate) host_ns: u64 = Nanos,
        /// Time of exits other than halts in the kernel.
        pub(crate) kernel_ns: u64 = Nanos,
        /// Time of exits other than halts in the VMM.
        pub(crate) user_ns: u64 = Nanos,
        /// Entries into guests.
        pub(crate) entries: u64 = Count,
        /// Entries with no exit reported since the last entry.
        pub(crate) lone_entries: u64 = Count,
        /// Returns of `KVM_RUN` to the VMM.
        pub(crate) userspace_exits: u64 = Count,
        /// Interrupts injected into guests.
        pub(crate) injections: u64 = Count,
        /// Instructions emulated; where KVM virtualises in software, they stand for exits.
        pub(crate) emulations: u64 = Count,
        /// Exits that found no room in the recorder's table: not in `exits`.
        pub(crate) other: u64 = Count,
    }

    pub(crate) struct ExitReason {
        /// Kind of what was counted: `exit`, `other`, `userspace_exit`, or a sub-key's kind; see
        /// [the capture's](capture-format.md#exits).
        pub(crate) kind: Kind = Word,
        /// Architecture of the reason.
        pub(crate) isa: Isa = Word,
        /// Its number; `null` where there is none.
        pub(crate) reason: Option<u32> = Number,
        /// Its name, as the kernel prints it; else its number and instruction set.
        pub(crate) name: String = Name "reason",
        /// The sub-key; `null` of a reason.
        pub(crate) sub: Option<u64> = Number,
        /// The same for people, with the name of an MSR, port, leaf or hypercall.
        pub(crate) sub_name: Option<String> = Name "what",
        /// How often.
        pub(crate) count: u64 = Count,
        /// The same over the recording.
        pub(crate) per_second: f64 = PerSecond "per s",
        /// Those of them whose time is not known.
        pub(crate) untimed: u64 = Count,
        /// The guest halts by it.
        pub(crate) is_halt: bool = Flag,
        /// Cost to the host: its time less the halts' sleep.
        pub(crate) host_ns: u64 = Nanos "time",
        /// Its part of what all rows cost the host; of `subs`, of what the rows of `reasons` cost; `null` where
        /// nothing has a time.
        pub(crate) share: Option<f64> = Share,
        /// Its time: from `kvm_exit` to the next `kvm_entry`; of a return to the VMM, to the next `KVM_RUN`.
        pub(crate) time_ns: u64 = Nanos "all time",
        /// The part of it in the kernel.
        pub(crate) kernel_ns: u64 = Nanos "in kernel",
        /// The part of it in the VMM.
        pub(crate) user_ns: u64 = Nanos "in VMM",
        /// Percentiles of the times; `null` of halts, whose length says nothing, and where no time is known.
        pub(crate) spread_ns: Option<Spread> = Record(SPREAD),
    }

    /// One VM, vCPU or second.
    pub(crate) struct ExitsGroup {
        /// The VM's number in the capture, where it is known.
        pub(crate) vm: Option<u32> = Number,
        /// Its name.
        pub(crate) vm_name: Option<String> = Name "VM",
        /// The vCPU, where asked for.
        pub(crate) vcpu: Option<u32> = Number "vCPU",
        /// The second of the recording, where asked for.
        pub(crate) second: Option<u64> = Number,
        /// Exits but those by which the guest halted; the times below are theirs.
        pub(crate) exits: u64 = Count,
        /// Exits by which the guest halted.
        pub(crate) halt_exits: u64 = Count "halts",
        /// Exits whose time is not known.
        pub(crate) untimed: u64 = Count,
        /// Their time, from `kvm_exit` to the next `kvm_entry`.
        pub(crate) time_ns: u64 = Nanos "time",
        /// The part of it in the kernel.
        pub(crate) kernel_ns: u64 = Nanos "in kernel",
        /// The part of it in the VMM.
        pub(crate) user_ns: u64 = Nanos "in VMM",
        /// Percentiles of the times.
        pub(crate) spread_ns: Option<Spread> = Record(SPREAD),
        /// Entries into guests.
        pub(crate) entries: u64 = Count,
        /// Returns of `KVM_RUN` to the VMM.
        pub(crate) userspace_exits: u64 = Count "to VMM",
        /// Interrupts injected.
        pub(crate) injections: u64 = Count "irqs",
        /// Instructions emulated.
        pub(crate) emulations: u64 = Count,
    }
}
