//! The behaviours reported on the list.

use super::*;

const MS: u32 = 1_000_000;

fn walk(policy: &mut dyn Policy, halts_ns: &[u64]) -> Vec<u64> {
    let windows = halts_ns.iter().map(|halt_ns| {
        policy.learn(&Seen {
            halt_ns: *halt_ns,
            valid: true,
            ..Seen::default()
        });
        policy.window(None)
    });
    windows.collect()
}

#[test]
fn v3_walks_an_idle_vcpu_up_and_drops_it_and_the_rule_that_was_taken_does_not() {
    let idle = [1_000_000_000; 6];
    let walked = walk(&mut Proposal::new(Rule::V3, 4 * MS), &idle);
    let reported = [500_000, 1_000_000, 2_000_000, 4_000_000, 0, 500_000];
    assert_eq!(walked, reported);
    let setting = Setting::upstream(Version::new(4, 3), Arch::X86, 0);
    let taken = "kvm:max=4ms".parse::<Spec>().unwrap();
    let taken = walk(taken.build(&setting).unwrap().as_mut(), &idle);
    assert_eq!(taken, [0; 6]);
}

#[test]
fn v3_keeps_a_window_that_was_long_enough() {
    for (window, halt_ns, expected) in [
        (0, 0, 0),
        (500_000, 500_000, 500_000),
        (500_000, 500_001, 1_000_000),
        (4_000_000, 4_000_000, 4_000_000),
        (4_000_000, 4_000_001, 0),
        (3_000_000, 3_000_001, 0),
    ] {
        let mut proposal = Proposal {
            window,
            ..Proposal::new(Rule::V3, 4 * MS)
        };
        assert_eq!(walk(&mut proposal, &[halt_ns]), [expected], "{window}");
    }
}

#[test]
fn v4_ends_at_the_ceiling_and_stays() {
    let mut proposal = Proposal::new(Rule::V4, 3 * MS);
    let climb = [500_000, 1_000_000, 2_000_000, 3_000_000, 3_000_000];
    assert_eq!(walk(&mut proposal, &[0, 1, u64::MAX, 60_000, 7]), climb);
    proposal.learn(&Seen::default());
    assert_eq!(proposal.window, 3 * MS, "an invalid wake-up moves nothing");
}

#[test]
fn the_toggle_knows_two_windows() {
    let halts_ns = [1, 1_999_999, 2_000_000, 2_000_001, 5_000_000, 60_000];
    let windows = [2 * MS, 2 * MS, 2 * MS, 0, 0, 2 * MS].map(u64::from);
    assert_eq!(walk(toggle().as_mut(), &halts_ns), windows);
}

#[test]
fn a_window_of_at_least_10_us_halves_to_there_and_grows_from_there() {
    let halts_ns = [15_000, 15_000, 25_000, 300_000, 300_000, 300_000, 300_000];
    let windows = [10_000, 20_000, 40_000, 20_000, 10_000, 10_000, 10_000];
    assert_eq!(walk(at_least_10us().as_mut(), &halts_ns), windows);
}
