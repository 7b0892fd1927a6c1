//! What text and page say of exits in the same words.

use super::view::TotalView;
use crate::number::count;

/// Said where a recording of exits has none.
pub(crate) const NONE_SEEN: &str = "No exit was seen. Where KVM virtualises in software, emulated \
                                    instructions and returns to the VMM stand for them.";

/// What was counted beside exits: `240 k entries, 4 returns to the VMM, …`.
pub(crate) fn passed(total: &TotalView) -> String {
    let passed = [
        (total.entries, "entry", "entries"),
        (
            total.userspace_exits,
            "return to the VMM",
            "returns to the VMM",
        ),
        (
            total.injections,
            "interrupt injected",
            "interrupts injected",
        ),
        (
            total.emulations,
            "instruction emulated",
            "instructions emulated",
        ),
    ];
    let passed: Vec<String> = passed
        .iter()
        .map(|(n, one, many)| format!("{} {}", count(*n), if *n == 1 { one } else { many }))
        .collect();
    passed.join(", ")
}
