//! What is said of which value.

use super::*;

fn said(wanted: &[(Parameter, u32)]) -> String {
    advice(wanted, |parameter| match parameter {
        Parameter::HaltPollNs => Some(200_000),
        Parameter::GrowStart => Some(10_000),
        Parameter::Grow | Parameter::Shrink => Some(2),
        _ => None,
    })
    .join("\n")
}

#[test]
fn settings_that_people_use_are_not_talked_about() {
    for ns in [0, 10_001, 50_000, 80_000, 160_000, 400_000, 999_999] {
        assert_eq!(said(&[(Parameter::HaltPollNs, ns)]), "", "{ns}");
    }
    for shrink in [0, 2, 4] {
        assert_eq!(said(&[(Parameter::Shrink, shrink)]), "");
    }
    assert_eq!(said(&[]), "");
}

#[test]
fn slips_and_costs_are_told() {
    for (parameter, value, part) in [
        (Parameter::HaltPollNs, 80, "is 80us meant?"),
        (Parameter::GrowStart, 999, "is 999us meant?"),
        (Parameter::HaltPollNs, 1_000_000, "burns a whole CPU"),
        (Parameter::HaltPollNs, 2_400_000, "burns a whole CPU"),
        (
            Parameter::HaltPollNs,
            24_000_000,
            "2400000 would be a tenth",
        ),
        (Parameter::HaltPollNs, u32::MAX, "a zero too many"),
        (Parameter::HaltPollNs, u32::MAX, "exceeds 32 bits"),
        (Parameter::HaltPollNs, 10_000, "either 0 or the ceiling"),
        (Parameter::GrowStart, 200_000, "either 0 or the ceiling"),
        (Parameter::Grow, 0, "a window at 0 stays there"),
        (Parameter::Grow, 100_000, "exceeds 32 bits"),
        (Parameter::Shrink, 1, "never shrinks"),
    ] {
        let text = said(&[(parameter, value)]);
        assert!(text.contains(part), "{parameter} {value}: {text}");
    }
}

/// Guides name milliseconds for a guest's governor; a slip of the unit is one there, too.
#[test]
fn a_guest_polls_for_longer() {
    assert_eq!(said(&[(Parameter::GuestHaltPollNs, 2_400_000)]), "");
    assert!(said(&[(Parameter::GuestHaltPollNs, 80)]).contains("is 80us meant?"));
}

#[test]
fn values_set_together_are_judged_together() {
    let both = [
        (Parameter::GrowStart, 50_000),
        (Parameter::HaltPollNs, 80_000),
    ];
    assert_eq!(said(&both), "");
    assert!(said(&both[..1]).is_empty());
    let low = [
        (Parameter::GrowStart, 50_000),
        (Parameter::HaltPollNs, 50_000),
    ];
    assert!(said(&low).contains("either 0 or the ceiling"));
}
