//! The lab's halt loop in user space and the kernel see the same windows on the same halts.

use std::process::Command;

use crate::bench::{Bench, told};

/// Loads whose windows climb, fall and stand: gaps below, about and above each ceiling.
const LOADS: [(&str, &str, u32); 4] = [
    ("exp:60us", "200us", 200_000),
    ("bimodal:0.7:20us:1ms", "100us", 100_000),
    ("phases:30us*40:2ms*15", "400us", 400_000),
    ("uniform:5us:150us", "80us", 80_000),
];

#[test]
fn under_the_kernels_rule_the_halt_loop_gives_the_kernels_windows() {
    for (gap, cap, max) in LOADS {
        let Some(bench) = Bench::set_up() else { return };
        let recorded = bench.record(
            &[],
            &["pingpong", "--rounds", "1500", "--gap", gap, "--cap", cap],
        );
        assert_eq!(recorded.lost(), 0);
        let vcpu = &recorded.counted()[0];
        let halts = recorded.halts_of(vcpu.tid);
        assert!(halts.len() > 1_000, "{} halts of {gap}", halts.len());
        // The other three parameters as they are in force here; nobody changes them meanwhile.
        let knob = |name: &str| {
            let mut knobs = recorded.capture.info().knobs.iter();
            knobs.find(|knob| knob.name == name).unwrap().value.clone()
        };
        let policy = format!(
            "kvm:max={max}ns,grow={},grow_start={}ns,shrink={}",
            knob("halt_poll_ns_grow"),
            knob("halt_poll_ns_grow_start"),
            knob("halt_poll_ns_shrink"),
        );
        let lengths: Vec<String> = halts.iter().map(|halt| halt.halt_ns.to_string()).collect();
        let file = bench.path("lengths");
        std::fs::write(&file, lengths.join("\n")).unwrap();
        let output = Command::new(bench.lab().get_program())
            .args(["windows", "--policy", &policy])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let said = String::from_utf8(output.stdout).unwrap();
        let said: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
        let known = halts.iter().filter(|halt| halt.window_ns.is_some()).count();
        assert!(
            known * 100 >= halts.len() * 95,
            "{known} windows of {gap} were recorded"
        );
        assert_eq!(said.len(), halts.len());
        for (index, (said, halt)) in said.iter().zip(&halts).enumerate() {
            let kernel = halt.window_ns.unwrap_or(*said);
            assert_eq!(
                *said, kernel,
                "halt {index} of {gap} under {policy}: {halt:?}"
            );
        }
        let distinct: std::collections::BTreeSet<_> = said.iter().collect();
        assert!(
            distinct.len() > 2,
            "the windows of {gap} moved: {distinct:?}"
        );
    }
}
