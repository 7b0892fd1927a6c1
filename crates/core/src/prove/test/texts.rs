//! The texts that name a setting: what is taken, what is refused, and why.

use crate::kvm::guest::{Params, Rule};
use crate::kvm::{Arch, Knobs, Version};
use crate::policy::{Seen, Setting, Side, guest_haltpoll};
use crate::prove::setting::{GivenSetting, SettingError, WantedPair, policy_of_guest};

const IN_FORCE: Knobs = Knobs::of([123_000, 3, 7_000, 4]);

#[test]
fn what_is_not_given_is_as_in_force() {
    let version = Version::new(6, 12);
    for (text, [max, grow, start, shrink]) in [
        ("current", [123_000, 3, 7_000, 4]),
        ("in-force", [123_000, 3, 7_000, 4]),
        ("kvm", [123_000, 3, 7_000, 4]),
        ("off", [0, 3, 7_000, 4]),
        ("kvm:max=0", [0, 3, 7_000, 4]),
        ("kvm:max=50us", [50_000, 3, 7_000, 4]),
        ("kvm:shrink=0,grow=0", [123_000, 0, 7_000, 0]),
        ("kvm:grow_start=20us", [123_000, 3, 20_000, 4]),
        ("kvm:knobs=default", [200_000, 2, 10_000, 2]),
        ("kvm:knobs=default,max=1ms", [1_000_000, 2, 10_000, 2]),
    ] {
        let wanted: GivenSetting = text.parse().unwrap();
        assert_eq!(wanted.to_string(), text);
        let knobs = Knobs::of([max, grow, start, shrink]);
        let defaults = Knobs::defaults(version, Arch::X86);
        assert_eq!(wanted.resolve(IN_FORCE, defaults), knobs, "{text}");
    }
}

#[test]
fn what_a_governor_cannot_have_is_refused_with_the_reason() {
    refused(
        "\
guest_halt_poll_grow=x => a factor, a whole number
guest_halt_poll_ns=+5 => takes nanoseconds
guest_halt_poll_allow_shrink=2 => it is Y or N
guest_halt_poll_us=1 => is not a parameter of the governor
guest_halt_poll_ns=1,halt_poll_ns=1 => is not a parameter of the governor
guest_halt_poll_ns=1,guest_halt_poll_ns=1 => is given twice",
    );
}

fn refused(cases: &str) {
    for case in cases.lines() {
        let (text, reason) = case.split_once(" => ").unwrap();
        let error = text.parse::<GivenSetting>().unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
}

#[test]
fn what_no_kernel_can_be_put_under_is_refused_with_the_reason() {
    refused(
        "\
leader => a kernel has only its own algorithm
fixed:50us => a kernel has only its own algorithm
kvm:kernel=5.4 => the running kernel's algorithm
kvm:cap=50us => {halt_poll_ns}
kvm:max=5s => 32 bits
kvm:ceiling=50us => takes no `ceiling`
kvm:grow=+4 => whole number
kvm:max=50000.0 => takes nanoseconds
kvmm => did you mean `kvm`
off:1 => takes no
 => policy",
    );
    let error = "leader".parse::<GivenSetting>().unwrap_err();
    assert!(matches!(error, SettingError::NotKvms { .. }), "{error}");
}

const OF_GUEST: Params = Params {
    guest_halt_poll_ns: 123_000,
    grow: 3,
    grow_start: 7_000,
    shrink: 4,
    allow_shrink: true,
};

/// Names decide the side, `off` and `current` follow, and two sides are no pair.
#[test]
fn the_names_of_parameters_decide_whose_settings_a_pair_has() {
    let pair = |a: &str, b: &str, in_guest| {
        WantedPair::of([a.parse().unwrap(), b.parse().unwrap()], in_guest)
    };
    let guest = "guest_halt_poll_ns=1ms";
    for (a, b, in_guest) in [
        (guest, guest, false),
        ("off", guest, false),
        (guest, "current", false),
        ("current", "off", true),
    ] {
        let WantedPair { side, settings } = pair(a, b, in_guest).unwrap();
        assert_eq!(side, Side::Guest, "{a} {b}");
        let [first, second] = settings;
        assert_eq!([first.to_string(), second.to_string()], [a, b]);
        let of = |it: &GivenSetting| it.resolve(OF_GUEST, OF_GUEST).guest_halt_poll_ns;
        let expected = |text| match text {
            "off" => 0,
            "current" => 123_000,
            _ => 1_000_000,
        };
        assert_eq!([of(&first), of(&second)], [expected(a), expected(b)]);
    }
    for (a, b) in [("current", "off"), ("kvm:max=1us", "off")] {
        assert_eq!(pair(a, b, false).unwrap().side, Side::Host);
    }
    for (a, b) in [("kvm:max=1us", guest), (guest, "kvm:max=1us")] {
        let error = pair(a, b, false).unwrap_err();
        assert!(matches!(error, SettingError::Mixed { .. }), "{error}");
    }
    let error = pair("off", "kvm:max=1us", true).unwrap_err();
    assert!(matches!(error, SettingError::NotGuests { .. }), "{error}");
}

proptest::proptest! {
    /// The policy of a set of parameters is that set's: the governor under it does what the governor under them does.
    #[test]
    fn a_policy_has_the_parameters_that_it_was_made_of(
        times in proptest::array::uniform2(0..2_000_000_u32),
        factors in proptest::array::uniform2(0..10_u32),
        allow_shrink: bool,
        idle_ns in proptest::collection::vec(0..4_000_000_u64, 1..40),
    ) {
        let params = Params {
            guest_halt_poll_ns: times[0],
            grow_start: times[1],
            grow: factors[0],
            shrink: factors[1],
            allow_shrink,
        };
        let version = Version::new(6, 12);
        let mut setting = Setting::upstream(version, Arch::X86, 0);
        setting.side = Side::Guest;
        let mut by_text = policy_of_guest(&params).unwrap().build(&setting).unwrap();
        let mut by_value = guest_haltpoll(Rule::of(version).unwrap(), params, 0);
        for halt_ns in idle_ns {
            let window = by_value.window(None);
            proptest::prop_assert_eq!(by_text.window(None), window);
            let seen = Seen {
                halt_ns,
                poll_ns: window.min(halt_ns),
                ..Seen::default()
            };
            by_text.learn(&seen);
            by_value.learn(&seen);
        }
    }
}
