//! A setting made by another process is left alone, until the pilot is to take it over.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::host::{EACH_150_US, Host, decided};
use super::journal::SET;

/// The journal has that an earlier run set 5 us in place of 200 us; now 145 us are in force.
fn host() -> (Host, VmKey) {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, Ceiling::Own(145_000));
    host.machine.journal.insert(Scope::Vm(vm), SET);
    host.reads();
    assert_eq!(host.events, [(0, decided(vm, Kind::HandsOff))]);
    (host, vm)
}

#[test]
fn a_setting_of_another_program_is_taken_over_only_where_that_is_asked_for() {
    let (mut host, vm) = host();
    // Also after a restart; a run that ends before its first reading forgets nothing.
    let memory = host.pilot.memory();
    host.restarts();
    assert_eq!(host.pilot.memory(), memory);
    host.reads();
    assert_eq!(host.events.len(), 1, "{:?}", host.events);
    assert_eq!(host.pilot.standing().vms[0].state, "hands-off");

    host.restarts();
    host.pilot.take_over();
    host.reads();
    assert_eq!(host.events.len(), 1, "{:?}", host.events);
    let standing = host.pilot.standing();
    let of = &standing.vms[0];
    assert_eq!((of.state, of.found_ns), ("watching", Some(145_000)));
    let wanted = host.pilot.wanted().map(|wanted| &*wanted.vms);
    assert_eq!(wanted, Some(&[vm][..]));
}

#[test]
fn of_a_vm_that_has_gone_there_is_nothing_to_know() {
    let (mut host, vm) = host();
    host.restarts();
    host.goes(vm);
    host.reads();
    assert_eq!(host.events.len(), 1, "{:?}", host.events);
    assert_eq!(host.pilot.memory().targets, []);
}
