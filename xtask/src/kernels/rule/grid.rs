//! The settings that a kernel's rule is tried with.
//!
//! Under emulation a wake-up takes some 100 us and a round of the lab a millisecond, so that ceilings
//! are ten times as large as elsewhere. Gaps lie on both sides of each, and first steps are such that
//! doubling them passes the ceiling often, so that windows are cut.

/// One setting, and what runs under it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// `halt_poll_ns`, grow, `grow_start` and shrink when the recording begins.
    pub(super) before: &'static str,
    /// The same while the lab runs, one after the other, a second each, again and again.
    pub(super) during: &'static [&'static str],
    /// Arguments of `haltwise-lab run`.
    pub(super) load: &'static str,
    pub(super) rung: &'static str,
    /// What must have happened at least once.
    pub(super) allows: &'static [&'static str],
}

/// A host that wakes one vCPU after gaps on both sides of 3 ms.
const LOAD: &str = "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block";

const fn setting(
    name: &'static str,
    before: &'static str,
    allows: &'static [&'static str],
) -> Setting {
    Setting {
        name,
        before,
        during: &[],
        load: LOAD,
        rung: "bpf",
        allows,
    }
}

/// All settings.
pub(super) fn settings() -> Vec<Setting> {
    const ALL: &[&str] = &["grow", "shrink", "silent", "none"];
    vec![
        setting("usual", "3000000 2 400000 2", ALL),
        Setting {
            rung: "tracepoints",
            ..setting("tracepoints", "3000000 2 400000 2", ALL)
        },
        setting("shrink-0", "3000000 2 400000 0", ALL),
        setting("shrink-1", "3000000 2 400000 1", ALL),
        setting("shrink-3", "3000000 3 350000 3", ALL),
        // Grow is called and leaves the window at 0, with which nothing can shrink.
        setting("grow-0", "3000000 0 100000 2", &["grow"]),
        // A fixed window: grown to the ceiling at once, and shrunk to what it is. Switched off between,
        // so that it grows more than once: the first halt of a recording cannot be checked.
        Setting {
            during: &["0 1 2000000 1", "2000000 1 2000000 1"],
            ..setting("fixed", "2000000 1 2000000 1", &["grow", "shrink", "none"])
        },
        // On and off: the first step is the ceiling, and any shrinking ends at 0.
        setting("toggle", "2000000 2 2000000 2", &["grow", "shrink", "none"]),
        // 0 times anything: it grows from 0 to 0.
        setting("grow-start-0", "3000000 2 0 2", &["grow"]),
        // The first step passes the ceiling and is cut at the next halt.
        setting("start-above", "2000000 2 9000000 2", ALL),
        // 7 times 2^32 - 1 is, in 32 bits, 2^32 - 7.
        setting("overflow", "3000000 4294967295 7 2", ALL),
        setting("off", "0 2 100000 2", &["none"]),
        Setting {
            load: "pingpong --rounds ROUNDS --gap uniform:5us:1500us --host-wait block --cap 1ms",
            ..setting("cap-below", "3000000 2 600000 2", ALL)
        },
        Setting {
            load: "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block --cap 2ms",
            ..setting("cap-above", "200000 2 700000 2", ALL)
        },
        Setting {
            load: "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block --cap 0",
            ..setting("cap-0", "3000000 2 100000 2", &["none"])
        },
        Setting {
            load: "tick --rounds ROUNDS --gap uniform:200us:3ms",
            // A factor that passes the ceiling in the second step.
            ..setting("timer", "3000000 8 400000 2", ALL)
        },
        Setting {
            during: &["0 2 400000 2", "3000000 2 400000 2"],
            ..setting("on-and-off", "3000000 2 400000 2", ALL)
        },
        Setting {
            during: &[
                "2000000 1 2000000 1",
                "2000000 2 9000000 2",
                "1000000 2 50000 2",
                "3000000 0 100000 0",
                "3000000 3 0 1",
            ],
            load: "pingpong --vms 2 --rounds ROUNDS --gap uniform:5us:3ms --host-wait block",
            ..setting("changed", "3000000 2 400000 2", ALL)
        },
    ]
}
