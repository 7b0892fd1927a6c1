//! The host's parameter, which several VMs follow: those that could have a ceiling of their own, too, and those that are to be
//! left alone.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::{Limits, Parameters};

use super::host::{EACH_15_US, EACH_150_US, Event, FOUND_NS, Host, acts, decided};

const KEPT: Event = Event::Decided(Scope::Host, Kind::Keep);
const RESTORED: Event = Event::Decided(Scope::Host, Kind::Restore);

#[test]
fn it_is_set_for_a_vm_that_is_to_be_left_alone_where_that_is_allowed() {
    let mut host = Host::new();
    host.pilot.limit(Limits {
        parameters: Parameters::Shared,
        ..acts()
    });
    host.comes(EACH_150_US, Ceiling::Fixed);
    let alone = host.comes(EACH_15_US, Ceiling::Fixed);
    host.vm(alone).goal = None;
    host.until(KEPT);
    assert_ne!(host.machine.param_ns, FOUND_NS);
}

#[test]
fn it_is_tried_once_most_of_the_halts_were_looked_at_twice() {
    let mut host = Host::new();
    let comes = |_| host.comes(EACH_150_US, Ceiling::Fixed);
    let vms: Vec<_> = (0..10).map(comes).collect();
    host.until(Event::Decided(Scope::Host, Kind::Try));
    let looks = |vm| host.count(|event| event == Event::Look(vm));
    let twice = vms.into_iter().filter(|vm| looks(*vm) >= 2).count();
    assert!(twice >= 9, "{twice} of 10: {:?}", host.events);
}

/// No VM is left that it would be set for, and one follows it that is to be left alone.
#[test]
fn what_an_earlier_run_set_of_it_is_restored() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, Ceiling::Fixed);
    host.until(KEPT);
    host.goes(vm);
    host.restarts();
    let alone = host.comes(EACH_15_US, Ceiling::Fixed);
    host.vm(alone).goal = None;
    host.until(RESTORED);
    assert_eq!(host.machine.param_ns, FOUND_NS);
}

/// The VM followed the pilot's setting: without the pilot, the VM would follow the setting that was there before.
#[test]
fn a_vm_that_followed_what_the_pilot_set_was_found_with_what_was_there_before() {
    let mut host = Host::new();
    for _ in 0..16 {
        host.comes(EACH_150_US, Ceiling::Fixed);
    }
    host.until(KEPT);
    assert!(host.machine.param_ns < 35_000, "{}", host.machine.param_ns);
    let vm = host.comes(EACH_15_US, Ceiling::Follows);
    host.until(decided(vm, Kind::Keep));
    let standing = host.pilot.standing();
    let of = standing.vms.iter().find(|of| of.key == vm).unwrap();
    assert_eq!(of.found_ns, Some(FOUND_NS), "{of:?}");
}
