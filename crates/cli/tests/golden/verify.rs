//! Texts that `haltwise verify` verifies after an import.

use std::fmt::Write;

use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};

/// Tracer output for one vCPU of a kernel: each halt, and the call that the halt made; eight halts below and eight above a
/// ceiling, so many times.
pub(super) fn traced(kernel: &str, cap: &str, times: &str) -> String {
    let (cap, times) = (cap.parse().unwrap(), times.parse().unwrap());
    let lengths = [[u64::from(cap) / 4 * 3; 8], [900_000; 8]]
        .concat()
        .repeat(times);
    let kernel: Version = kernel.parse().unwrap();
    let rule = Rule::of(kernel, Arch::X86);
    let knobs = Knobs {
        shrink: 2,
        ..Knobs::defaults(kernel, Arch::X86)
    };
    let (mut text, mut window, mut now) = (String::new(), 0, 5_000_000);
    for halt_ns in lengths {
        let entry = rule.entry(window, cap);
        let step = rule.after(&knobs, cap, entry, Observed::valid(halt_ns));
        window = step.window;
        now += halt_ns / 1000 + 20;
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let head =
            format!("       CPU 0/KVM-4201    (   4190) [000] d..1.     {seconds}.{micros:06}: ");
        if let Some(call) = step.call {
            let how = if call.grow { "grow" } else { "shrink" };
            let (new, old) = (call.new, call.old);
            writeln!(
                text,
                "{head}kvm_halt_poll_ns: vcpu 0: halt_poll_ns {new} ({how} {old})"
            )
            .unwrap();
        }
        let how = if halt_ns > entry.into() {
            "wait"
        } else {
            "poll"
        };
        writeln!(
            text,
            "{head}kvm_vcpu_wakeup: {how} time {halt_ns} ns, polling valid"
        )
        .unwrap();
    }
    text
}
