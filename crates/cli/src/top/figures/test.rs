//! Rates and shares by hand.

use haltwise_core::account::ledger::Ledger;
use haltwise_core::event::Observable;

use super::*;
use crate::top::rows;
use crate::top::world::{self, SECOND, slept, step, vm};

#[test]
fn the_ceiling_follows_the_parameter_where_that_binds() {
    let vms = [vm(0, "a")];
    let mut step = step(0, &vms);
    let of = |step: &Step| rows::of_vm(step, &vms[0], None).figures.ceilings.unwrap();
    let knobs = std::rc::Rc::make_mut(&mut step.around.knobs);
    knobs.insert("halt_poll_ns".into(), "50000".into());
    assert_eq!(of(&step).high_ns, 50_000);
    let vcpus = std::rc::Rc::make_mut(&mut step.around.vcpus);
    vcpus[0].ceiling_source = CeilingSource::Cap;
    let mixed = of(&step);
    assert_eq!((mixed.low_ns, mixed.high_ns), (50_000, 200_000));
    assert_eq!(mixed.source, CeilingSource::Unknown);
}

#[test]
fn what_halts_do_not_say_is_not_zero() {
    let vms = [vm(0, "a")];
    let mut step = Step::between(0, SECOND);
    step.around.vms = std::rc::Rc::new(vms.to_vec());
    let quiet = rows::of_vm(&step, &vms[0], None).figures;
    assert_eq!(
        (quiet.wasted, quiet.latency, quiet.ceilings),
        (Some(0.0), None, None)
    );
    step.halt(&haltwise_core::event::Halt {
        poll_ns: None,
        ..slept(0, 0, 5)
    });
    let blind = rows::of_vm(&step, &vms[0], None).figures;
    assert_eq!((blind.wasted, blind.useful), (None, None));
}

#[test]
fn exits_are_taken_over_the_time_that_they_were_counted_in() {
    let vms = [vm(0, "a")];
    // A step of half a second, in which one reading of a whole second came.
    let mut step = Step::between(0, SECOND / 2);
    step.around.vms = std::rc::Rc::new(vms.to_vec());
    step.exits(&world::exits(0, 0, SECOND / 3, 48, 500));
    step.exits(&world::exits(0, 1, SECOND / 3, 32, 1_500));
    step.exits(&world::exits(0, 1, SECOND / 3, 12, 900));
    let names = Names::default();
    let exits = rows::of_vm(&step, &vms[0], Some(&names))
        .figures
        .exits
        .unwrap();
    assert_eq!((exits.count, exits.per_s.round()), (2_900, 2_900.0));
    let reasons: Vec<_> = exits
        .reasons
        .iter()
        .map(|r| (r.name.as_str(), r.time_ns))
        .collect();
    let expected = [
        ("MSR_WRITE", Some(3_000_000)),
        ("HLT", None),
        ("EPT_VIOLATION", Some(1_000_000)),
    ];
    assert_eq!(reasons, expected, "the time of a halt is not handling");
}

#[test]
fn emulated_instructions_stand_for_exits_where_there_are_none() {
    let mut row = world::exits(0, 0, SECOND, 0, 70);
    row.cause = Cause {
        kind: Kind::EmulateInsn,
        isa: haltwise_core::exit::Isa::None,
        reason: Some(0),
        sub: None,
    };
    let mut step = Step::between(0, SECOND);
    step.exits(&row);
    let names = Names::default();
    let exits = rows::host(&step, Some(&names)).exits.unwrap();
    assert_eq!(
        (exits.count, exits.reasons[0].name.as_str()),
        (70, "emulate_insn")
    );
}

#[test]
fn the_account_is_the_ledgers() {
    let mut vms = vec![vm(0, "a"), vm(1, "b"), vm(2, "c")];
    vms[2].observable = Observable::No("none".into());
    let step = step(3, &vms);
    let mut ledger = Ledger::default();
    for (n, vm) in (1..).zip(&vms) {
        for id in 0..2 {
            for halt in 0..n {
                ledger.halt(&slept(vm.index.0, id, 3 * SECOND + halt * 200_000));
            }
        }
    }
    let (whole, shown) = (ledger.total(), step.total().halts);
    assert_eq!((shown.halts, shown.waits), (whole.halts, whole.waits));
    assert_eq!((shown.parts, shown.wakes), (whole.parts, whole.wakes));
    assert_eq!(shown.wake_latency_ns, whole.wake_latency_ns);
    assert_eq!(
        (shown.poll_ns(), shown.halted_ns()),
        (whole.poll_ns(), whole.halted_ns())
    );
    assert_eq!((shown.polled, shown.span), (whole.polled, whole.span));
}
