//! Savings that the pilot reports: by settings in force, or by settings that the pilot would set.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::Limits;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::host::{EACH_150_US, Event, Host};

/// The least that was saved, in nanoseconds, and whether settings in force did.
fn least_saved(host: &Host, vm: VmKey) -> (f64, bool) {
    let standing = host.pilot.standing();
    let of = standing.vms.iter().find(|of| of.key == vm).unwrap();
    (of.saved_ns.unwrap().low, of.is_saved)
}

#[test]
fn what_was_kept_goes_on_to_save_where_the_pilot_may_no_longer_act() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, Ceiling::Follows);
    host.until(Event::Decided(Scope::Vm(vm), Kind::Keep));
    host.pass(36);
    let (acting, is_saved) = least_saved(&host, vm);
    assert!(is_saved && acting > 0.0, "{acting}");
    assert_eq!(host.pilot.limit(Limits::default()), []);
    let (observing, is_saved) = least_saved(&host, vm);
    assert!(is_saved, "what is set is in force");
    assert!((observing - acting).abs() < 1.0, "{observing} {acting}");
    host.pass(36);
    let (later, is_saved) = least_saved(&host, vm);
    assert!(is_saved && later > observing, "{later} {observing}");
}
