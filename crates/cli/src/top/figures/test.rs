//! Rates and shares by hand.

use super::*;
use crate::top::rows;
use crate::top::world::{self, SECOND, slept, step, vm};

#[test]
fn the_ceiling_follows_the_parameter_where_that_binds() {
    let vms = [vm(0, "a")];
    let mut step = step(0, &vms);
    let of = |step: &Step| rows::of_vm(step, &vms[0], None).figures.ceiling.unwrap();
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
        (
            quiet.wasted_cpu_percent,
            quiet.wake_latency_ns,
            quiet.ceiling
        ),
        (Some(0.0), None, None)
    );
    step.halt(&haltwise_core::event::Halt {
        poll_ns: None,
        ..slept(0, 0, 5)
    });
    let blind = rows::of_vm(&step, &vms[0], None).figures;
    let polls = (blind.wasted_cpu_percent, blind.useful_cpu_percent);
    assert_eq!(polls, (None, None));
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
    let exits = rows::of_all(&step, Some(&names)).figures.exits.unwrap();
    assert_eq!(
        (exits.count, exits.reasons[0].name.as_str()),
        (70, "emulate_insn")
    );
}
