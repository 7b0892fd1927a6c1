//! The halt loop against the core's own rule, in a world whose every moment is written down.

use haltwise_core::kvm::{Knobs, Observed, Rule};
use haltwise_core::policy::POLICIES;
use proptest::prelude::*;

use super::*;

fn policy(spec: &str) -> HaltPolicy {
    let setting = Setting::upstream(Version::new(6, 18), Arch::X86, 31_000);
    HaltPolicy::Core(spec.parse().unwrap(), setting)
}

fn kernel_windows(knobs: &Knobs, halts_ns: &[u64]) -> Vec<u64> {
    let rule = Rule::of(Version::new(6, 18), Arch::X86);
    let mut window = 0;
    let windows = halts_ns.iter().map(|halt_ns| {
        window = rule.entry(window, knobs.halt_poll_ns);
        let in_force = window;
        let observed = Observed::valid(*halt_ns);
        window = rule
            .after(knobs, knobs.halt_poll_ns, window, observed)
            .window;
        u64::from(in_force)
    });
    windows.collect()
}

proptest! {
    #[test]
    fn under_the_kernels_rule_the_loop_gives_the_kernels_windows(
        halts_ns in prop::collection::vec(prop_oneof![0_u64..1_000, 0_u64..400_000, 0_u64..9_000_000], 0..60),
        max in 0_u32..500_000,
        grow in 0_u32..5,
        grow_start in 0_u32..60_000,
        shrink in 0_u32..5,
    ) {
        let knobs = Knobs { halt_poll_ns: max, grow, grow_start, shrink };
        let spec = format!("kvm:max={max}ns,grow={grow},grow_start={grow_start}ns,shrink={shrink}");
        prop_assert_eq!(windows_of(&policy(&spec), &halts_ns).unwrap(), kernel_windows(&knobs, &halts_ns));
    }

    #[test]
    fn a_poll_is_never_longer_than_its_window_or_its_halt(
        lengths in prop::collection::vec(0_u64..3_000_000, 1..40),
        which in 0..POLICIES.len(),
    ) {
        let name = POLICIES[which].name;
        let spec = match name {
            "fixed" => "fixed:50us".to_owned(),
            "kvm" => "kvm:max=200us".to_owned(),
            name => name.to_owned(),
        };
        let Ok(mut halt_loop) = policy(&spec).halt_loop() else { return Ok(()) };
        let mut now_ns = 0;
        for length in lengths {
            let mut world = Recorded { now_ns, until_ns: now_ns + length };
            let halt = halt_loop.halt(&mut world).unwrap();
            prop_assert_eq!(halt.halt_ns, length, "{}", &name);
            prop_assert!(halt.poll_ns <= halt.window_ns && halt.poll_ns <= halt.halt_ns, "{}", &name);
            prop_assert_eq!(halt.waited, halt.halt_ns > halt.window_ns, "{}", &name);
            now_ns = world.now_ns;
        }
    }
}

#[test]
fn what_was_there_before_is_no_sleep() {
    let mut halt_loop = policy("off").halt_loop().unwrap();
    let halt = halt_loop
        .halt(&mut Recorded {
            now_ns: 5,
            until_ns: 5,
        })
        .unwrap();
    assert_eq!(
        (halt.halt_ns, halt.waited, halt.wake_latency_ns),
        (0, false, 0)
    );
}
