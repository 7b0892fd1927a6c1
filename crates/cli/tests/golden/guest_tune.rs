//! Captures of a guest whose CPUs are its own, or whose host gives their time to others.

use std::path::Path;

use haltwise_core::event::{Facts, HostSample, Knob, KnobScope, WakeSource};
use haltwise_core::recording::Side;

use super::guest::Guest;
use super::{START_NS, info_of, record, scenarios};

const LENGTH_NS: u64 = 400_000_000;

/// A guest that is woken by IPIs after some 30 us, and has not polled. Of 4 CPUs' time, these shares were busy and
/// stolen.
pub(super) fn write(dir: &Path, governor: &str, shares: [&str; 2]) {
    let [busy, steal] = shares.map(|share| share.parse::<f64>().unwrap());
    let scenario = scenarios::named("idle");
    let mut info = info_of(&scenario);
    info.side = Side::Guest;
    let knob = |name: &str, scope, value: &str| Knob {
        time_ns: START_NS,
        name: name.to_owned(),
        scope,
        value: value.to_owned(),
    };
    info.knobs = vec![
        knob("cpuidle.current_governor", KnobScope::Host, governor),
        knob("guest_halt_poll_ns", KnobScope::GuestOfOther, "0"),
    ];
    let mut facts = Facts::default();
    Guest {
        gaps: "exp:30us",
        ceiling_ns: 0,
        wakes: &[WakeSource::Ipi],
        until_ns: START_NS + LENGTH_NS,
        ..Guest::default()
    }
    .run(&mut facts);
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts.windows.clear();
    facts.host = [0, LENGTH_NS]
        .map(|at_ns| {
            let part = |share: f64| (4.0 * at_ns as f64 * share) as u64;
            HostSample {
                time_ns: START_NS + at_ns,
                cpus: 4,
                busy_ns: part(busy),
                total_ns: part(1.0),
                steal_ns: Some(part(steal)),
                ..HostSample::default()
            }
        })
        .to_vec();
    record(dir, info, &facts, Some(scenarios::ending(LENGTH_NS)));
}
