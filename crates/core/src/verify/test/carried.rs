//! Kernels that carry changes of later ones, found out from their halts.

use proptest::prelude::*;

use super::*;
use crate::kvm::ceiling::CeilingRule;
use crate::kvm::{Backport, Backports};
use crate::verify::carried::{Carried, Trial};

fn found(setup: &Setup, rows: &[(Halt, Option<WindowChange>)]) -> Carried {
    let mut trial = Trial::new(setup).unwrap();
    for (halt, row) in rows {
        trial.halt(halt, row.as_ref());
    }
    trial.finish()
}

/// Debian's 5.10.0-32 also lets a VM grow to its own ceiling, as 5.13 does: two changes are needed.
#[test]
fn a_stable_kernel_shows_two_changes_together() {
    let two = Backports::NONE
        .with(Backport::ShrinkFloor)
        .with(Backport::GrowthCap);
    let mut kernel = Kernel::new(KNOBS);
    kernel.rule = Rule::of(Version::new(5, 10).with(two), Arch::X86);
    kernel.cap = Some(500_000);
    let mut lengths = vec![450_000; 8];
    lengths.extend([900_000; 8]);
    let rows = halts(&mut kernel, &lengths.repeat(900));
    for sight in [Sight::Vcpu, Sight::Calls] {
        let mut upstream = setup(sight);
        upstream.rule = Rule::of(Version::new(5, 10), Arch::X86);
        let found = found(&upstream, &rows);
        assert_eq!((found.backports, found.differences), (two, 0));
        assert_eq!((found.equally, found.undecided.len()), (Vec::new(), 0));
        assert!(found.differences_upstream > 2000);
    }
    assert!(Trial::new(&setup(Sight::Vcpu)).is_none());
}

proptest! {
    /// Whatever a kernel carries, its own halts show it, or do not show that it matters: the rule that is
    /// found leaves no difference, and none with fewer changes does.
    #[test]
    fn what_a_kernel_carries_is_found_from_its_halts(
        carries in prop::sample::subsequence(Backport::of_windows().collect::<Vec<_>>(), 0..=5),
        plain in prop_oneof![(4..20_u32).prop_map(|it| (5, it)), Just((4, 19)), Just((5, 0))],
        knobs in knobs(),
        cap in prop_oneof![Just(None), (0..600_000_u32).prop_map(Some)],
        sight in prop_oneof![Just(Sight::Vcpu), Just(Sight::Calls)],
        lengths in prop::collection::vec(prop_oneof![0..300_000_u64, 0..20_000_u64], 2..200),
    ) {
        let plain = Version::new(plain.0, plain.1);
        let carries = carries.into_iter().collect();
        let mut kernel = Kernel::new(knobs);
        kernel.rule = Rule::of(plain.with(carries), Arch::X86);
        // Without the capability a VM has no ceiling of its own.
        kernel.cap = cap.filter(|_| kernel.rule.ceiling != CeilingRule::Param);
        let rows = halts(&mut kernel, &lengths);
        let rule = Rule::of(plain, Arch::X86);
        let upstream = Setup { rule, settings: Settings::fixed(knobs), ..setup(sight) };
        let left = |backports| {
            let rule = Rule::of(plain.with(backports), Arch::X86);
            verdicts(Setup { rule, ..upstream.clone() }, &rows).1.differences()
        };
        if !upstream.rule.may_carry_more() {
            prop_assert_eq!(kernel.rule, upstream.rule);
            return Ok(());
        }
        let found = found(&upstream, &rows);
        prop_assert_eq!((found.differences, found.differences_upstream), (0, left(Backports::NONE)));
        prop_assert_eq!(left(found.backports), 0);
        for bits in 0..32_u32 {
            let all = Backport::of_windows().enumerate();
            let backports: Backports = all.filter(|(at, _)| bits >> at & 1 == 1).map(|(_, it)| it).collect();
            let fewer = backports.len() < found.backports.len();
            prop_assert!(!fewer || left(backports) > 0, "{} {}", backports, found.backports);
        }
        for backports in found.equally {
            prop_assert_eq!((left(backports), backports.len()), (0, found.backports.len()));
        }
    }
}
