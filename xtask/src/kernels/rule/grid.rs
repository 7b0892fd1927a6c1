//! The settings that a kernel's rule is tried with.
//!
//! Under emulation a wake-up takes some 100 us and a round of the lab a millisecond, so that ceilings
//! are ten times as large as elsewhere. Gaps lie on both sides of each, and first steps are such that
//! doubling them passes the ceiling. What a setting must have shown is never left to the draw of a gap:
//! where the drawn gaps bring a transition about only now and then, a second load forces it.

#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// `halt_poll_ns`, grow, `grow_start` and shrink when the recording begins.
    pub(super) before: &'static str,
    /// The same while the lab runs, one after the other, half a second each, again and again.
    pub(super) during: &'static [&'static str],
    /// Arguments of `haltwise-lab run`.
    pub(super) load: &'static str,
    /// The same for a second run within the recording, a quarter as long; or nothing.
    pub(super) then: Option<&'static str>,
    pub(super) rung: &'static str,
    /// Transitions that must happen at least once.
    pub(super) allows: &'static [&'static str],
}

/// A host that wakes one vCPU after gaps on both sides of 3 ms.
const LOAD: &str = "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block";

/// Halts that take a window of 3 ms through every transition, once in 14 rounds: it doubles from
/// `grow_start` while gaps of 1.75 ms miss it, passes 1.6 ms and with it the ceiling, is cut, shrinks to
/// 0 under gaps of 6 ms, and is left as it is by those that it meets.
const CYCLE: &str = "pingpong --rounds ROUNDS --gap phases:1750us*6:6ms*4:20us*4 --host-wait block";

/// The same for a VM's own ceiling of 2.5 ms, which the second step from 1.3 ms passes.
const CAP_BELOW: &str = "pingpong --rounds ROUNDS --gap phases:1400us*6:6ms*4:20us*4 --host-wait block \
                         --cap 2500us";

/// The same for one of 2 ms, which the third step from 0.7 ms passes.
const CAP_ABOVE: &str = "pingpong --rounds ROUNDS --gap phases:1450us*6:6ms*4:20us*4 --host-wait block \
                         --cap 2ms";

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
        then: None,
        rung: "bpf",
        allows,
    }
}

/// A setting under which [`CYCLE`] forces every transition.
const fn cycled(name: &'static str, before: &'static str) -> Setting {
    Setting {
        then: Some(CYCLE),
        ..setting(name, before, ALL)
    }
}

const ALL: &[&str] = &["grow", "shrink", "silent", "none"];

pub(super) fn settings() -> Vec<Setting> {
    vec![
        cycled("usual", "3000000 2 400000 2"),
        Setting {
            rung: "tracepoints",
            ..cycled("tracepoints", "3000000 2 400000 2")
        },
        cycled("shrink-0", "3000000 2 400000 0"),
        setting("shrink-1", "3000000 2 400000 1", ALL),
        cycled("shrink-3", "3000000 3 350000 3"),
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
            load: "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block --cap 2500us",
            then: Some(CAP_BELOW),
            ..setting("cap-below", "3000000 2 1300000 2", ALL)
        },
        Setting {
            load: "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block --cap 2ms",
            then: Some(CAP_ABOVE),
            ..setting("cap-above", "200000 2 700000 2", ALL)
        },
        Setting {
            load: "pingpong --rounds ROUNDS --gap uniform:5us:3ms --host-wait block --cap 0",
            ..setting("cap-0", "3000000 2 100000 2", &["none"])
        },
        Setting {
            load: "tick --rounds ROUNDS --gap uniform:200us:3ms",
            then: Some("tick --rounds ROUNDS --gap phases:1750us*6:6ms*4:200us*4"),
            // A factor that passes the ceiling in the second step.
            ..setting("timer", "3000000 8 400000 2", ALL)
        },
        Setting {
            during: &["0 2 400000 2", "3000000 2 400000 2"],
            load: CYCLE,
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
