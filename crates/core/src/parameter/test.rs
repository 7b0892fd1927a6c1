//! Values as people write them, and as they mistype them.

use super::*;
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::guest::Params;

#[test]
fn values_read_as_people_write_them() {
    for (text, value) in [
        ("0", 0),
        ("80000", 80_000),
        ("80us", 80_000),
        (" 80 us ", 80_000),
        ("1.5ms", 1_500_000),
        ("4294967295", u32::MAX),
        ("4294967295ns", u32::MAX),
    ] {
        assert_eq!(Parameter::HaltPollNs.value(text), Ok(value), "{text}");
        assert_eq!(Parameter::GrowStart.value(text), Ok(value), "{text}");
    }
    for (text, value) in [("0", 0), ("2", 2), ("4294967295", u32::MAX)] {
        assert_eq!(Parameter::Grow.value(text), Ok(value), "{text}");
        assert_eq!(Parameter::Shrink.value(text), Ok(value), "{text}");
    }
}

#[test]
fn what_no_parameter_takes_is_refused_with_the_reason() {
    let (ceiling, grow, shrink) = (Parameter::HaltPollNs, Parameter::Grow, Parameter::Shrink);
    let (long, most) = ("99999999999999999999999", "4294967295 at most");
    for (parameter, text, said) in [
        (ceiling, "-1", "0 disables polling"),
        (shrink, "-1", "0 takes a window to 0"),
        (ceiling, "4294967296", most),
        (ceiling, "5s", most),
        (grow, long, most),
        (grow, "2us", "a factor, a whole number"),
        (shrink, "1.5", "a divisor, a whole number"),
        (shrink, "", "a divisor"),
        (ceiling, "", "nanoseconds (80000)"),
        (ceiling, "80 days", "nanoseconds (80000)"),
        (ceiling, "off", "nanoseconds (80000)"),
        (ceiling, "+1", "nanoseconds (80000)"),
    ] {
        let error = parameter.value(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
        assert!(error.contains(parameter.name()), "{text}: {error}");
    }
}

#[test]
fn names_read_back_and_only_they_do() {
    for parameter in Parameter::ALL {
        assert_eq!(parameter.name().parse(), Ok(parameter));
        assert!(parameter.path().ends_with(parameter.name()));
        let json = serde_json::to_string(&parameter).unwrap();
        assert_eq!(json, format!("\"{parameter}\""));
        let lists = [&Parameter::HOST[..], &Parameter::GUEST];
        let is_in = lists.map(|list| list.contains(&parameter));
        assert_eq!(is_in, [!parameter.is_of_guest(), parameter.is_of_guest()]);
    }
    for bad in ["", "grow", "HALT_POLL_NS", "halt_poll_max_steal"] {
        let error = bad.parse::<Parameter>().unwrap_err().to_string();
        assert!(error.contains("halt_poll_ns_shrink"), "{error}");
    }
}

/// A recorded parameter is of the machine that has it: KVM's of the host, haltpoll's of this machine as a guest.
#[test]
fn recorded_parameters_are_known_by_name_and_scope() {
    let knob = |name: &str, scope, value: &str| Knob {
        time_ns: 0,
        name: name.to_owned(),
        scope,
        value: value.to_owned(),
    };
    let (host, guest) = (KnobScope::Host, KnobScope::GuestOfOther);
    for parameter in Parameter::ALL {
        let (mut scope, mut other) = (host, guest);
        if parameter.is_of_guest() {
            (scope, other) = (other, scope);
        }
        let value = if parameter.is_flag() { "N" } else { "0\n" };
        let of = |scope| Parameter::of(&knob(parameter.name(), scope, value));
        assert_eq!(of(scope), Some((parameter, 0)));
        assert_eq!(of(other), None);
        assert_eq!(of(KnobScope::Vm(VmIndex(0))), None);
    }
    for (name, value) in [("halt_poll_max_steal", "7"), ("halt_poll_ns", "-1")] {
        assert_eq!(Parameter::of(&knob(name, host, value)), None, "{name}");
    }
    let read = |name, scope, text| Parameter::of(&knob(name, scope, text)).map(|it| it.1);
    assert_eq!(read("guest_halt_poll_allow_shrink", guest, "Y"), Some(1));
    assert_eq!(read("halt_poll_ns", host, "7\n"), Some(7));
}

#[test]
fn values_are_an_object_with_the_kernels_names() {
    let guest = Values::from(Params::default());
    let text = serde_json::to_string(&guest).unwrap();
    assert_eq!(
        text,
        "{\"guest_halt_poll_ns\":200000,\"guest_halt_poll_grow\":2,\"guest_halt_poll_grow_start\":50000,\
         \"guest_halt_poll_shrink\":2,\"guest_halt_poll_allow_shrink\":true}"
    );
    assert_eq!(serde_json::from_str::<Values>(&text).unwrap(), guest);
    assert_eq!(Params::from(guest), Params::default());
    for (bad, said) in [
        (r#"{"grow": 1}"#, "unknown field `grow`"),
        (r#"{"halt_poll_ns": -1}"#, "invalid value"),
        (
            r#"{"halt_poll_ns": 1, "halt_poll_ns": 2}"#,
            "duplicate field `halt_poll_ns`",
        ),
        (r#"{"guest_halt_poll_allow_shrink": 1}"#, "invalid type"),
    ] {
        let error = serde_json::from_str::<Values>(bad).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let null: Values = serde_json::from_str(r#"{"halt_poll_ns": null}"#).unwrap();
    assert!(null.is_empty());
}

#[test]
fn values_fill_one_another() {
    let ceiling = Values::default().with(Parameter::HaltPollNs, 7);
    let knobs = Knobs::of([200_000, 2, 10_000, 0]);
    let over = ceiling.over(knobs);
    assert_eq!(Knobs::from(over), Knobs::of([7, 2, 10_000, 0]));
    assert_eq!(over.beyond(&knobs.into()), ceiling);
    assert!(ceiling.iter().eq([(Parameter::HaltPollNs, 7)]));
    assert!(over.are_of(Side::Host) && !over.are_of(Side::Guest));
    assert!(over.beyond(&over).is_empty());
}

/// No window grows by the old factors under the new ceiling.
#[test]
fn values_are_written_with_the_ceiling_last() {
    let written = |values: Values| values.iter().map(|(it, _)| it.short()).collect::<Vec<_>>();
    let knobs = Knobs::of([1, 2, 3, 4]);
    let of_host = "grow grow_start shrink halt_poll_ns";
    assert_eq!(written(knobs.into()).join(" "), of_host);
    let of_guest = "grow grow_start shrink allow_shrink guest_halt_poll_ns";
    assert_eq!(written(Params::default().into()).join(" "), of_guest);
}
