//! A setting on trial and a setting that was kept, and each event that can end them: for a VM with a ceiling of its own, for
//! one that follows the host's parameter, and for that parameter.

use haltwise_core::pilot::Parameters;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};

use super::load::{EACH_15_US, Replays};
use super::world::{OFF, PRESSED, SECOND, World, density};

/// State of a setting after an event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// The setting found is restored.
    Found,
    /// It stays, or its trial goes on.
    Stays,
    /// The pilot leaves it alone, whatever its value is now.
    Theirs,
}

use End::{Found, Stays, Theirs};

type Event = fn(&mut World, Scope);

/// Three readings after an event, or until something ends.
fn end_after(event: Event, (ceiling, target): (Ceiling, Option<Scope>), kind: Kind) -> End {
    let mut world = World::with(0, Replays::wrong_by(0.0, 1));
    let vm = world.comes(EACH_15_US, ceiling);
    let scope = target.unwrap_or(vm);
    world.until(scope, kind);
    // A period of the trial is a second: the last may have been under the setting before.
    world.turn_until(|world| world.at(scope) != 0);
    world.decisions.clear();
    event(&mut world, scope);
    let ends = [Kind::GoBack, Kind::Restore, Kind::HandsOff];
    for _ in 0..3 {
        if !world.has(scope, &ends) {
            world.reads();
            world.turn();
        }
    }
    let mut decisions = world.decisions.iter();
    match decisions.find(|(_, of, kind)| *of == scope && ends.contains(kind)) {
        None => Stays,
        Some((_, _, Kind::HandsOff)) => Theirs,
        Some(_) => {
            assert_eq!(world.at(scope), 0, "{:?}", world.decisions);
            Found
        }
    }
}

/// Each of these events has these ends: of a ceiling and of the host's parameter, on trial and kept.
fn have_ends(events: &[Event], ends: [[End; 2]; 2]) {
    let host = (Ceiling::Fixed, Some(Scope::Host));
    let of_vms = [(OFF, None), (Ceiling::Follows, None)];
    for (nth, event) in events.iter().enumerate() {
        for (target, ends) in of_vms
            .map(|it| (it, ends[0]))
            .into_iter()
            .chain([(host, ends[1])])
        {
            let now = [Kind::On, Kind::Keep].map(|kind| end_after(*event, target, kind));
            assert_eq!(now, ends, "event {nth} of {target:?}");
        }
    }
}

#[test]
fn what_a_guard_or_the_configuration_forbids_is_restored() {
    let events: [Event; 8] = [
        |world, _| world.host.cpu_pressure = PRESSED,
        |world, _| world.host.busy_cpus = Some(63.5),
        |world, _| world.host.sched_ext = true,
        |world, _| world.limit(|it| it.max_poll_cpu_percent = Some(1.0)),
        |world, _| world.limit(|it| it.max_ceiling_ns = 1_000),
        |world, _| world.vms[0].seen.goal = Some(density()),
        |world, _| world.vms[0].seen.goal = None,
        |world, _| world.vms[0].is_blind = true,
    ];
    have_ends(&events, [[Found; 2]; 2]);
    let no_ceilings: Event = |world, _| world.limit(|it| it.ceilings = false);
    have_ends(&[no_ceilings], [[Found; 2], [Stays; 2]]);
    let no_parameters: Event = |world, _| world.limit(|it| it.parameters = Parameters::Never);
    have_ends(&[no_parameters], [[Stays; 2], [Found; 2]]);
    // The parameter stays where no VM is left that follows it.
    let polls_itself: Event = |world, _| world.vms[0].seen.polls_itself = true;
    have_ends(&[polls_itself], [[Found; 2], [Found, Stays]]);
}

#[test]
fn what_is_not_known_ends_nothing() {
    let events: [Event; 5] = [
        |world, _| world.host.busy_cpus = None,
        |world, _| world.host.cpu_pressure = Pressure::NotYet,
        |world, _| world.host.cpu_pressure = Pressure::NotThere,
        |world, _| world.vms[0].seen.has_answered = false,
        |world, _| world.ahead += 40 * SECOND,
    ];
    have_ends(&events, [[Stays; 2]; 2]);
}

#[test]
fn a_trial_ends_with_its_run_and_a_kept_setting_stays() {
    let events: [Event; 5] = [
        |world, _| world.limit(|it| it.may_act = false),
        |world, _| world.stops(),
        |world, _| world.restarts(),
        |world, _| {
            world.dies();
            world.starts(Replays::wrong_by(0.0, 3), 3);
        },
        |world, _| world.ahead += 61 * SECOND,
    ];
    have_ends(&events, [[Found, Stays]; 2]);
}

/// A ceiling of a VM stays its own where another parameter of the host changes, also while no pilot runs; what was
/// measured of it before does not count.
#[test]
fn what_another_program_sets_or_undoes_is_left_alone() {
    let events: [Event; 2] = [
        |world, scope| world.settings.is_set_by_another(scope, 7_000),
        |world, _| world.settings.undo(),
    ];
    have_ends(&events, [[Theirs; 2]; 2]);
    let others: [Event; 2] = [
        |world, _| world.grow_is_set_by_another(),
        |world, _| {
            world.grow_is_set_by_another();
            world.restarts();
        },
    ];
    have_ends(&others, [[Found, Stays], [Theirs; 2]]);
}
