//! Remarks on given values.

use super::*;
use haltwise_core::event::KnobScope;

fn knobs(values: &[(&str, &str)]) -> Settings {
    let scopes = [KnobScope::Host, KnobScope::GuestOfOther];
    let knob = |(name, value): &(&str, &str)| Knob {
        time_ns: 0,
        name: (*name).to_owned(),
        scope: scopes[usize::from(!name.starts_with("halt_poll"))],
        value: (*value).to_owned(),
    };
    Settings::of(&values.iter().map(knob).collect::<Vec<_>>())
}

fn texts(remarks: &[Remark]) -> String {
    let texts: Vec<_> = remarks.iter().map(|it| it.finding.to_string()).collect();
    texts.join("\n")
}

/// Remarks before these values are written on a host with its defaults.
fn said(wanted: &[(Parameter, u32)]) -> String {
    let host = knobs(&[
        ("halt_poll_ns", "200000"),
        ("halt_poll_ns_grow_start", "10000"),
        ("halt_poll_ns_grow", "2"),
        ("halt_poll_ns_shrink", "2"),
    ]);
    texts(&remarks(&host.with(wanted.iter().copied().collect())))
}

/// A guest as most are found: with the governor, and without a driver.
const GUEST: [(&str, &str); 7] = [
    ("guest_halt_poll_ns", "200000"),
    ("guest_halt_poll_grow_start", "50000"),
    ("guest_halt_poll_grow", "2"),
    ("guest_halt_poll_shrink", "2"),
    ("guest_halt_poll_allow_shrink", "Y"),
    ("cpuidle.current_driver", "none"),
    ("cpuidle.current_governor", "haltpoll"),
];

#[test]
fn settings_that_people_use_are_not_talked_about() {
    for ns in [0, 10_001, 50_000, 80_000, 160_000, 400_000, 999_999] {
        assert_eq!(said(&[(Parameter::HaltPollNs, ns)]), "", "{ns}");
    }
    for (parameter, value) in [
        (Parameter::Shrink, 0),
        (Parameter::Shrink, 4),
        (Parameter::Grow, 10),
    ] {
        assert_eq!(said(&[(parameter, value)]), "");
    }
    assert_eq!(said(&[]), "");
    assert_eq!(texts(&remarks(&knobs(&GUEST))), "", "defaults of a guest");
}

#[test]
fn slips_and_costs_are_told() {
    for (parameter, value, part) in [
        (Parameter::HaltPollNs, 80, "is 80us meant?"),
        (Parameter::GrowStart, 999, "is 999us meant?"),
        (Parameter::HaltPollNs, 1_000_000, "burns a whole CPU"),
        (Parameter::HaltPollNs, 2_400_000, "burns a whole CPU"),
        (Parameter::HaltPollNs, 5_000_000, "HZ=250 burns a whole CPU"),
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
        (Parameter::Grow, 20_000, "a factor, not nanoseconds"),
        (Parameter::Grow, 100_000, "exceeds 32 bits"),
        (Parameter::Shrink, 1, "never shrinks"),
        (Parameter::Shrink, 1_000, "a divisor, not nanoseconds"),
        (Parameter::GuestGrow, 50_000, "a factor, not nanoseconds"),
    ] {
        let text = said(&[(parameter, value)]);
        assert!(text.contains(part), "{parameter} {value}: {text}");
    }
}

/// A value in force already makes another setting do nothing; one that switches polling off is no mistake there.
#[test]
fn a_ceiling_does_nothing_where_windows_do_not_grow() {
    let host = || knobs(&[("halt_poll_ns", "200000"), ("halt_poll_ns_grow", "0")]);
    let set = |ns| {
        let wanted = Values::default().with(Parameter::HaltPollNs, ns);
        texts(&remarks(&host().with(wanted)))
    };
    assert!(set(80_000).contains("nothing polls"), "{}", set(80_000));
    assert_eq!(set(0), "");
    assert!(texts(&remarks(&host())).contains("nothing polls"));
    let shrink = Values::default().with(Parameter::Shrink, 2);
    let said = texts(&remarks(&host().with(shrink)));
    assert_eq!(said, "", "not asked about");
}

/// Guides name milliseconds for a guest's governor; a slip of the unit is one there, too.
#[test]
fn a_guest_polls_for_longer() {
    assert_eq!(said(&[(Parameter::GuestHaltPollNs, 2_400_000)]), "");
    assert!(said(&[(Parameter::GuestHaltPollNs, 80)]).contains("is 80us meant?"));
    for (ns, part) in [(4_000_000, "as busy"), (24_000_000, "a zero too many")] {
        assert!(said(&[(Parameter::GuestHaltPollNs, ns)]).contains(part));
    }
    let above = [
        (Parameter::GuestHaltPollNs, 2_400_000),
        (Parameter::GuestGrowStart, 24_000_000),
    ];
    assert!(said(&above).contains("nothing between"), "{}", said(&above));
}

#[test]
fn a_guest_whose_parameters_do_nothing() {
    let guest = |driver, governor| {
        let mut all = GUEST;
        all[5].1 = driver;
        all[6].1 = governor;
        let wanted = Values::default().with(Parameter::GuestHaltPollNs, 750_000);
        texts(&remarks(&knobs(&all).with(wanted)))
    };
    assert!(guest("none", "haltpoll").contains("until `modprobe cpuidle_haltpoll force=1`"));
    assert!(guest("haltpoll", "menu").contains("the cpuidle governor is not haltpoll (menu)"));
    assert_eq!(guest("haltpoll", "haltpoll"), "");
    let mut set = GUEST;
    set[0].1 = "750000";
    assert!(texts(&remarks(&knobs(&set))).contains("no cpuidle driver is loaded"));
}

#[test]
fn limits_that_have_grown_stay_where_nothing_shrinks_them() {
    let guest = |of: &[(Parameter, u32)], shrinks| {
        let mut all = GUEST;
        (all[0].1, all[4].1, all[5].1) = ("4000000", shrinks, "haltpoll");
        texts(&remarks(&knobs(&all).with(of.iter().copied().collect())))
    };
    let lower = (Parameter::GuestHaltPollNs, 200_000);
    let stays = "guest_halt_poll_allow_shrink is N: limits that have grown, to as much as 4.00 ms, stay; set Y first, or \
                 boot";
    assert_eq!(guest(&[lower], "N"), stays);
    assert_eq!(
        guest(&[lower, (Parameter::GuestAllowShrink, 0)], "Y"),
        stays
    );
    assert_eq!(guest(&[lower], "Y"), "");
    assert!(guest(&[lower, (Parameter::GuestShrink, 1)], "Y").contains("stay"));
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
