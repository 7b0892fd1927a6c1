//! The result, computed from the account.

use haltwise_core::account::Spread;
use haltwise_core::exit::account::{Group, Passed, Tally};
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Kind};
use haltwise_core::stats;

use super::load::Loaded;
use super::view::{ExitReason, ExitsGroup, ExitsRecording, ExitsResult, ExitsTotal};
use crate::exits::SCHEMA;
use crate::figures::Source;

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
