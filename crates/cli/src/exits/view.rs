//! The result: each figure with its name, unit and meaning. JSON, its schema and documentation, and tables
//! come of these declarations.

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::exit::account::{Group, Passed, Tally};
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Isa, Kind, SubKey};
use haltwise_core::stats;
use haltwise_document::figures;

use super::load::Loaded;
use crate::exits::SCHEMA;
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

/// Computes it: only this `reason`, by name or number, and `groups` where they are wanted. `None` if no exit has
/// the reason.
pub(crate) fn build(loaded: &Loaded, reason: Option<&str>, groups: bool) -> Option<ExitsResult> {
    let names = loaded.recorded.names();
    let table = |belongs: &dyn Fn(Kind) -> bool, whole_ns: Option<u64>| {
        let is_wanted = |cause: &Cause| {
            belongs(cause.kind) && reason.is_none_or(|text| means(cause, text, &names))
        };
        let rows = loaded.account.ranked(is_wanted, &loaded.halted);
        let cost = |cause| loaded.account.host_ns(cause, &loaded.halted);
        let costs = rows.iter().map(|(cause, _)| cost(cause));
        let all = whole_ns.unwrap_or_else(|| costs.fold(0, u64::saturating_add));
        let rows = rows.into_iter();
        rows.map(|(cause, tally)| row(loaded, cause, tally, all, &names))
            .collect::<Vec<ExitReason>>()
    };
    let reasons = table(&|kind| matches!(kind, Kind::Exit | Kind::Other), None);
    // An exit may be about several things: they are parts of the exits, not of each other.
    let whole_ns = stats::total(reasons.iter().map(|row| row.host_ns));
    let view = ExitsResult {
        schema: SCHEMA,
        recording: ExitsRecording {
            source: Source::of(&loaded.recording),
            isa: loaded.account.isa(),
            counted_ns: loaded.counted_ns,
            sub_keys: loaded.recorded.sub_keys.clone(),
            only_vcpus: loaded.recorded.vcpus.clone(),
            only_reasons: loaded.recorded.reasons.clone(),
        },
        total: total(loaded),
        halted: loaded.halted,
        reasons,
        userspace: table(&|kind| kind == Kind::UserspaceExit, None),
        subs: table(&|kind| kind.is_sub(), Some(whole_ns)),
        groups: if groups { by_group(loaded) } else { Vec::new() },
    };
    let found = !view.reasons.is_empty() || !view.userspace.is_empty() || !view.subs.is_empty();
    (found || reason.is_none()).then_some(view)
}

/// Whether a text means this cause: the name of its reason in any case, or its number. The name of the oldest reason
/// of halts means all of them.
fn means(cause: &Cause, text: &str, names: &Names) -> bool {
    let halts = cause.isa.halt_reasons().first();
    let halts = halts.filter(|_| cause.is_halt()).copied();
    let by_name = [cause.reason, halts].into_iter().any(|reason| {
        let cause = Cause { reason, ..*cause };
        cause.name(names).eq_ignore_ascii_case(text)
    });
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let by_number = cause.kind != Kind::UserspaceExit && number.is_some();
    by_name || (by_number && cause.reason == number)
}

fn total(loaded: &Loaded) -> ExitsTotal {
    let passed = loaded.account.total();
    let halts = (loaded.account.causes.keys()).filter(|cause| cause.is_halt());
    let halts = halts.map(|cause| loaded.account.host_ns(cause, &loaded.halted));
    ExitsTotal {
        exits: passed.exits_in_all(),
        halt_exits: passed.halts.count,
        untimed: stats::total([passed.exits.untimed(), passed.halts.untimed()]),
        host_ns: halts.fold(passed.exits.time_ns(), u64::saturating_add),
        kernel_ns: passed.exits.kernel_ns(),
        user_ns: passed.exits.user_ns,
        entries: passed.entries,
        lone_entries: passed.lone_entries,
        userspace_exits: passed.userspace.count,
        injections: passed.injections,
        emulations: passed.emulations,
        other: passed.other,
    }
}

fn row(loaded: &Loaded, cause: Cause, tally: &Tally, all: u64, names: &Names) -> ExitReason {
    let seconds = loaded.counted_ns as f64 / 1e9;
    let per_second = (seconds > 0.0).then(|| tally.count as f64 / seconds);
    let host_ns = loaded.account.host_ns(&cause, &loaded.halted);
    let spread_ns = Spread::of(&tally.handling_ns).filter(|_| !cause.is_halt());
    ExitReason {
        kind: cause.kind,
        isa: cause.isa,
        reason: cause.reason,
        name: cause.name(names),
        sub: cause.sub,
        sub_name: cause.sub_name(),
        count: tally.count,
        per_second: per_second.unwrap_or(0.0),
        untimed: tally.untimed(),
        is_halt: cause.is_halt(),
        host_ns,
        share: (all > 0).then(|| host_ns as f64 / all as f64),
        time_ns: tally.time_ns(),
        kernel_ns: tally.kernel_ns(),
        user_ns: tally.user_ns,
        spread_ns,
    }
}

/// Groups, what took longest first; seconds in their order.
fn by_group(loaded: &Loaded) -> Vec<ExitsGroup> {
    // Exits that found no room belong to no group; the total reports them.
    let told_apart = |passed: &Passed| {
        let others = [passed.entries, passed.injections, passed.emulations];
        passed.exits_in_all() > 0 || passed.userspace.count > 0 || others.iter().any(|&n| n > 0)
    };
    let groups = loaded.account.groups.iter();
    let mut rows: Vec<(&Group, &Passed)> =
        groups.filter(|(_, passed)| told_apart(passed)).collect();
    rows.sort_by_key(|(group, passed)| {
        let time = passed.exits.time_ns();
        let count = passed.exits_in_all().max(passed.emulations);
        let rank = match group.second {
            Some(_) => (0, 0),
            None => (u64::MAX - time, u64::MAX - count),
        };
        (rank, **group)
    });
    let vms = &loaded.recording.info.roster.vms;
    let named = |vm: u32| vms.iter().find(|known| known.index.0 == vm);
    rows.into_iter()
        .map(|(group, passed)| ExitsGroup {
            vm: group.vm.map(|vm| vm.0),
            vm_name: group.vm.and_then(|vm| Some(named(vm.0)?.name.clone())),
            vcpu: group.vcpu.map(|vcpu| vcpu.0),
            second: group.second,
            exits: passed.exits.count,
            halt_exits: passed.halts.count,
            untimed: stats::total([passed.exits.untimed(), passed.halts.untimed()]),
            time_ns: passed.exits.time_ns(),
            kernel_ns: passed.exits.kernel_ns(),
            user_ns: passed.exits.user_ns,
            spread_ns: Spread::of(&passed.exits.handling_ns),
            entries: passed.entries,
            userspace_exits: passed.userspace.count,
            injections: passed.injections,
            emulations: passed.emulations,
        })
        .collect()
}
