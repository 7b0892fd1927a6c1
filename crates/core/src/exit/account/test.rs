//! The account of exits: known cases, and the laws of sums.

use proptest::prelude::*;

use super::*;
use crate::ids::Tid;

pub(crate) fn cause(kind: Kind, reason: u32) -> Cause {
    Cause {
        kind,
        isa: if kind == Kind::Exit {
            Isa::Svm
        } else {
            Isa::None
        },
        reason: Some(reason),
        sub: None,
    }
}

pub(crate) fn row(
    time_ns: u64,
    vm: u32,
    cause: Cause,
    times: &[u64],
    untimed: u64,
    user_ns: u64,
) -> Exits {
    let mut handling_ns = LogHist::default();
    for time in times {
        handling_ns.record(*time);
    }
    Exits {
        time_ns,
        interval_ns: 1_000_000_000,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(vm % 2)),
        tid: Tid(vm),
        cause,
        count: handling_ns.count() + untimed,
        user_ns,
        handling_ns,
    }
}

pub(crate) const HLT: u32 = 0x78;
const IO: u32 = 0x7b;
const MSR: u32 = 0x7c;

#[test]
fn exits_rank_by_what_they_cost_the_host() {
    let mut account = Account::new(By::Reason, 0);
    account.add(&row(1, 1, cause(Kind::Exit, HLT), &[9_000_000], 0, 0));
    account.add(&row(1, 1, cause(Kind::Exit, IO), &[5_000, 6_000], 1, 8_000));
    account.add(&row(1, 1, cause(Kind::Exit, MSR), &[700; 3], 0, 0));
    let halted = Parts {
        sleep_ns: 8_998_000,
        ..Parts::default()
    };
    let ranked = account.ranked(|cause| cause.kind == Kind::Exit, &halted);
    let order: Vec<_> = ranked
        .iter()
        .map(|(cause, _)| (cause.reason, account.host_ns(cause, &halted)))
        .collect();
    let expected = [(Some(IO), 11_000), (Some(MSR), 2_100), (Some(HLT), 2_000)];
    assert_eq!(order, expected);
    let io = ranked[0].1;
    assert_eq!((io.count, io.untimed()), (3, 1));
    assert_eq!((io.user_ns, io.kernel_ns()), (8_000, 3_000));
    assert_eq!(account.isa(), Some(Isa::Svm));
}

/// Linux 6.15 on Zen 5: a guest's own halts exit by Idle HLT, those of its nested guest by HLT.
#[test]
fn halts_of_two_reasons_share_the_sleep_and_none_of_it_is_cost() {
    let (idle, nested) = (cause(Kind::Exit, 0xa6), cause(Kind::Exit, HLT));
    let mut account = Account::new(By::Reason, 0);
    account.add(&row(1, 1, idle, &[9_000_000, 1], 0, 0));
    account.add(&row(1, 1, nested, &[3_000_001], 0, 0));
    let halted = Parts {
        sleep_ns: 11_999_000,
        ..Parts::default()
    };
    let costs = [idle, nested].map(|cause| account.host_ns(&cause, &halted));
    assert_eq!(costs, [751, 251]);
    let halts = account.total().halts;
    assert_eq!(halts.count, 3);
    assert_eq!(costs[0] + costs[1], halts.time_ns() - halted.sleep_ns);
}

#[test]
fn each_kind_is_summed_by_itself_and_sub_keys_count_nothing() {
    let mut account = Account::new(By::Vm, 0);
    for (place, kind) in (1..).zip(Kind::ALL) {
        account.add(&row(1, 7, cause(kind, 1), &[], place, 0));
    }
    account.add(&row(1, 7, cause(Kind::Exit, HLT), &[], 100, 0));
    let passed = account.total();
    assert_eq!(account.groups.len(), 1);
    assert_eq!((passed.exits.count, passed.halts.count), (1, 100));
    assert_eq!(passed.exits_in_all(), 101);
    assert_eq!((passed.entries, passed.lone_entries), (2, 3));
    assert_eq!((passed.userspace.count, passed.injections), (4, 5));
    assert_eq!((passed.emulations, passed.other), (6, 7));
    assert_eq!(account.causes.len(), Kind::ALL.len() + 1);
}

#[test]
fn a_row_belongs_to_the_second_that_holds_its_middle() {
    let mut account = Account::new(By::Second, 10_000_000_000);
    for end_ns in [11_000_000_000, 11_020_000_000, 12_010_000_000] {
        account.add(&row(end_ns, 1, cause(Kind::Exit, IO), &[], 1, 0));
    }
    let seconds: Vec<_> = account
        .groups
        .iter()
        .map(|(group, passed)| (group.second, passed.exits.count))
        .collect();
    assert_eq!(seconds, [(Some(0), 2), (Some(1), 1)]);
}

prop_compose! {
    fn any_row()(
        (when, vm, reason, untimed) in (0..5_000_000_000_u64, 0..4_u32, 0..3_u32, 0..9_u64),
        kind in prop::sample::select(Kind::ALL.to_vec()),
        times in prop::collection::vec(0..1_u64 << 40, 0..4),
    ) -> Exits {
        let user_ns = times.iter().sum::<u64>() / 2;
        row(when, vm, cause(kind, reason), &times, untimed, user_ns)
    }
}

proptest! {
    /// However rows are told apart, and in whatever order they come, the whole is the same.
    #[test]
    fn the_whole_is_the_sum_of_its_groups(rows in prop::collection::vec(any_row(), 0..40)) {
        let whole = |by, rows: &mut dyn Iterator<Item = &Exits>| {
            let mut account = Account::new(by, 0);
            rows.for_each(|row| account.add(row));
            (account.total(), account.causes)
        };
        let expected = whole(By::Reason, &mut rows.iter());
        for by in [By::Vm, By::Vcpu, By::Second] {
            prop_assert_eq!(&whole(by, &mut rows.iter()), &expected);
            prop_assert_eq!(&whole(by, &mut rows.iter().rev()), &expected);
        }
    }

    /// Accounts of parts add up to the account of the whole.
    #[test]
    fn accounts_fold(rows in prop::collection::vec(any_row(), 0..40), at in 0_usize..40) {
        let of = |rows: &[Exits]| {
            let mut account = Account::new(By::Vcpu, 0);
            for row in rows {
                account.add(row);
            }
            account
        };
        let (left, right) = rows.split_at(at.min(rows.len()));
        let mut sum = of(left);
        sum.fold(&of(right));
        prop_assert_eq!(sum, of(&rows));
    }
}
