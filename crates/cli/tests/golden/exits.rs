//! A capture with exits, drawn from seeds.

use std::path::Path;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::exit::{Cause, Exits, Isa, Kind, Named, Recorded, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::guest::tid;
use super::{START_NS, info_of, record, scenarios};

const SECOND: u64 = 1_000_000_000;

/// Exits of a vCPU for one cause, as many as their times, up to a time of the recording.
pub(super) fn row(
    (vm, vcpu): (u32, u32),
    (end_ns, interval_ns): (u64, u64),
    cause: (Kind, Isa, Option<u32>, Option<u64>),
    handling_ns: LogHist,
) -> Exits {
    let (kind, isa, reason, sub) = cause;
    Exits {
        time_ns: START_NS + end_ns,
        interval_ns,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(vcpu)),
        tid: tid(vm, vcpu),
        cause: Cause {
            kind,
            isa,
            reason,
            sub,
        },
        count: handling_ns.count(),
        user_ns: 0,
        handling_ns,
    }
}

/// Kind, reason, sub-key, how often in a second, and how long each takes, of which in the VMM.
type Drawn = (Kind, Option<u32>, Option<u64>, u64, u64, u64);

const VMX: [Drawn; 13] = [
    (Kind::Exit, Some(48), None, 400, 2_300, 0),
    (Kind::Exit, Some(32), None, 3_100, 1_450, 0),
    (Kind::Exit, Some(30), None, 97, 18_000, 15_500),
    (Kind::Exit, Some(12), None, 210, 900_000, 0),
    (Kind::Exit, Some(1), None, 260, 1_100, 0),
    // A number that no table has, and one that only this kernel names.
    (Kind::Exit, Some(99), None, 3, 5_000, 0),
    (Kind::Exit, Some(98), None, 2, 5_000, 0),
    (Kind::MsrWrite, Some(32), Some(0x830), 2_900, 1_450, 0),
    (Kind::MsrWrite, Some(32), Some(0x6e0), 200, 1_450, 0),
    (Kind::PioWrite, Some(30), Some(0x3f8), 97, 18_000, 15_500),
    (Kind::Entry, None, None, 4_072, 0, 0),
    (Kind::InjVirq, None, None, 470, 0, 0),
    (Kind::UserspaceExit, Some(2), None, 97, 15_500, 15_500),
];

fn rows() -> Vec<Exits> {
    let mut rows = Vec::new();
    for second in 1..=3_u64 {
        for (vm, vcpu) in [(0, 0), (0, 1), (1, 0)] {
            for (place, (kind, reason, sub, count, each, user)) in (0..).zip(VMX) {
                // Every vCPU and second a little else, and a spread.
                let count = count + second * u64::from(vcpu) + place + u64::from(vm);
                let mut times = LogHist::default();
                if each > 0 {
                    for nth in 0..count - u64::from(second == 3 && kind == Kind::Exit) {
                        times.record(each * (90 + nth * 7919 % 40) / 100);
                    }
                }
                let isa = match kind {
                    Kind::Entry | Kind::InjVirq | Kind::UserspaceExit => Isa::None,
                    _ => Isa::Vmx,
                };
                rows.push(Exits {
                    count,
                    user_ns: times.sum() * user / each.max(1),
                    ..row(
                        (vm, vcpu),
                        (second * SECOND, SECOND),
                        (kind, isa, reason, sub),
                        times,
                    )
                });
            }
        }
    }
    rows
}

/// With exits of VMX, of an AMD CPU whose vCPUs halt by Idle HLT, or on a host that reports returns to the VMM alone.
pub(super) fn write(dir: &Path, kind: &str) {
    let mut exits = rows();
    match kind {
        "vmx" => exits.push(Exits {
            vm: None,
            vcpu: None,
            tid: Tid(0),
            count: exits[0].count,
            ..row(
                (0, 0),
                (SECOND, SECOND),
                (Kind::Other, Isa::None, None, None),
                LogHist::default(),
            )
        }),
        "idle-hlt" => {
            for cause in exits.iter_mut().map(|row| &mut row.cause) {
                if cause.isa == Isa::Vmx {
                    let numbers = [(12, 0xa6), (32, 0x7c), (30, 0x7b)];
                    let number = numbers.iter().find(|it| Some(it.0) == cause.reason);
                    cause.reason = number.map_or(cause.reason, |it| Some(it.1));
                    cause.isa = Isa::Svm;
                }
            }
        }
        _ => exits.retain(|row| row.cause.kind == Kind::UserspaceExit),
    }
    let scenario = scenarios::named("fleet");
    let mut info = info_of(&scenario);
    info.exits = Some(Recorded {
        sub_keys: vec![SubKey::Msr, SubKey::Pio],
        names: vec![Named {
            isa: Isa::Vmx,
            reason: 98,
            name: "NEW_REASON".into(),
        }],
        ..Recorded::default()
    });
    let mut facts = Facts {
        exits,
        ..scenario.facts
    };
    facts.lost.push(Lost {
        time_ns: START_NS,
        count: 0,
        place: "none".into(),
    });
    record(dir, info, &facts, Some(scenarios::ending(3 * SECOND)));
}
