//! Rules of `explain` on a stock Linux guest under a stock QEMU: loads on which they fire, and the nearest on which
//! they do not. Rules judge what happens in a second, and emulation is slow: on a machine with other work they stay
//! silent, so that these are part of `--thorough` only.

use serde_json::Value;

use super::{DETAILED, HALTPOLL, Phase, phase};
use crate::kernels::check::Found;
use crate::kernels::reported::fired;

/// Rules about what the guest and its VMM do. Which others fire depends on how slow emulation is.
const RULES: [&str; 6] = [
    "guest-never-halts",
    "guest-page-faults",
    "guest-veto",
    "qemu-hpet",
    "timer-exits",
    "vmm-devices",
];

/// Checks that the expected rules of [`RULES`] fire, and no others.
pub(super) fn judge(explained: &Value, expected: &[&str], found: &mut Found) {
    let fired = fired(explained, &RULES);
    found.require(
        fired.as_deref() == Some(expected),
        format!("explain: {fired:?}, not {expected:?}"),
    );
}

/// Timer 0 of the HPET, every millisecond, its interrupt at a pin of the IOAPIC that Linux leaves masked; and off.
const HPET: &str = "devmem 0xfed00010 32 1; devmem 0xfed00100 32 0x2e4c; devmem 0xfed00108 32 100000; \
     sleep 8; devmem 0xfed00100 32 0";

const NO_HUGE_PAGES: &str = "echo never >/sys/kernel/mm/transparent_hugepage/enabled";
const HUGE_PAGES: &str = "echo always >/sys/kernel/mm/transparent_hugepage/enabled";

/// Memory that neither the guest nor its host has touched yet: the second load goes beyond the first.
const MEMORY: &str = "dd if=/dev/zero of=/run/memory bs=1M count=110 2>/dev/null; rm /run/memory";
const MORE_MEMORY: &str =
    "dd if=/dev/zero of=/run/memory bs=1M count=180 2>/dev/null; rm /run/memory";

const TIMERS: &str = "guest-tool timer 1 3000 & guest-tool timer 1 3000; wait";

pub(super) fn phases() -> [Phase; 6] {
    let of = |name, fires, before, inside| Phase {
        before,
        explained: Some(fires),
        ..phase(name, DETAILED, inside)
    };
    let veto = of("veto", &["guest-veto"], "", "sleep 1");
    [
        Phase {
            vm: HALTPOLL,
            ..veto
        },
        of("hpet", &["qemu-hpet"], "", HPET),
        of("no-hpet", &[], "", "sleep 4"),
        of("faults", &["guest-page-faults"], NO_HUGE_PAGES, MEMORY),
        of("huge-pages", &[], HUGE_PAGES, MORE_MEMORY),
        of("timers", &["timer-exits"], "", TIMERS),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_rule_that_is_silent_and_one_too_many_are_found() {
        let judge = |rules: &[&str], expected: &[&str]| {
            let of = |rule: &&str| serde_json::json!({"rule": rule});
            let findings: Vec<_> = rules.iter().map(of).collect();
            let explained = serde_json::json!({"findings": findings, "small": []});
            let mut found = Found::default();
            super::judge(&explained, expected, &mut found);
            found.disagreements.len()
        };
        assert_eq!(judge(&["qemu-hpet", "lock-out"], &["qemu-hpet"]), 0);
        assert_eq!(judge(&["lock-out"], &[]), 0);
        assert_eq!(judge(&["lock-out"], &["qemu-hpet"]), 1);
        assert_eq!(judge(&["timer-exits"], &[]), 1);
        assert_eq!(judge(&["qemu-hpet", "timer-exits"], &["qemu-hpet"]), 1);
    }
}
