//! The texts that name a setting: what is taken, what is refused, and why.

use crate::kvm::{Arch, Knobs, Version};
use crate::prove::setting::{SettingError, WantedSetting};

const IN_FORCE: Knobs = Knobs {
    halt_poll_ns: 123_000,
    grow: 3,
    grow_start: 7_000,
    shrink: 4,
};

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
        let wanted: WantedSetting = text.parse().unwrap();
        assert_eq!(wanted.to_string(), text);
        let knobs = Knobs {
            halt_poll_ns: max,
            grow,
            grow_start: start,
            shrink,
        };
        assert_eq!(
            wanted.resolve(IN_FORCE, version, Arch::X86),
            knobs,
            "{text}"
        );
    }
}

#[test]
fn what_no_kernel_can_be_put_under_is_refused_with_the_reason() {
    for (text, reason) in [
        ("learned", "a kernel has only its own algorithm"),
        ("fixed:50us", "a kernel has only its own algorithm"),
        ("kvm:kernel=5.4", "the running kernel's algorithm"),
        ("kvm:cap=50us", "{halt_poll_ns}"),
        ("kvm:max=5s", "32 bits"),
        ("kvm:max=50 parsecs", "unknown unit"),
        ("kvm:ceiling=50us", "takes no `ceiling`"),
        ("kvm:grow=-1", "whole number"),
        ("kvmm", "did you mean `kvm`"),
        ("", "there is no policy"),
        ("off:1", "takes no"),
    ] {
        let error = text.parse::<WantedSetting>().unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
    let error = "budget:2%|kvm".parse::<WantedSetting>().unwrap_err();
    assert!(matches!(error, SettingError::NotKvms { .. }), "{error}");
}
