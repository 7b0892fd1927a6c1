//! Changes of a made-up host's parameters, beside people who write.

use std::fs;

use haltwise_core::kvm::Knobs;
use haltwise_core::parameter::Values;

use super::*;

const FOUND: Knobs = Knobs::of([200_000, 2, 10_000, 0]);
const TRIED: Knobs = Knobs {
    halt_poll_ns: 40_000,
    shrink: 4,
    ..FOUND
};

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for below in ["proc/sys/kernel/random", "sys/module/kvm/parameters"] {
            fs::create_dir_all(host.0.path().join(below)).unwrap();
        }
        let boot = host.0.path().join("proc/sys/kernel/random/boot_id");
        fs::write(boot, "boot\n").unwrap();
        host.set(FOUND);
        host
    }

    fn set(&self, knobs: Knobs) {
        for (parameter, value) in Values::from(knobs).iter() {
            fs::write(self.0.path().join(parameter.path()), format!("{value}\n")).unwrap();
        }
    }

    fn now(&self) -> Knobs {
        knob::watching::knobs(&Root::at(self.0.path())).unwrap()
    }

    fn undo(&self) {
        let mut writer = Writer::open(&Root::at(self.0.path()), "haltwise undo").unwrap();
        let reversal = writer.now().reversal(false).unwrap();
        writer.undo(&reversal).unwrap();
    }

    fn make(&self, change: Change) -> Result<(), Refusal> {
        make(&Root::at(self.0.path()), Scope::Host, change, false)
    }
}

const ON: Change = Change {
    from: FOUND,
    to: TRIED,
    is_unsure: false,
};
const OFF: Change = Change {
    from: TRIED,
    to: FOUND,
    is_unsure: false,
};

#[test]
fn what_somebody_sets_in_a_period_under_what_was_found_is_left() {
    let host = Host::new();
    let theirs = Knobs {
        halt_poll_ns: 145_000,
        ..FOUND
    };
    // Before the first change nothing is in the journal, nor is after one that restored.
    for is_first in [true, false] {
        host.set(FOUND);
        if !is_first {
            assert_eq!(host.make(ON), Ok(()));
            assert_eq!(host.now(), TRIED);
            assert_eq!(host.make(OFF), Ok(()));
            assert_eq!(host.now(), FOUND);
        }
        host.set(theirs);
        assert_eq!(host.make(ON), Err(Refusal::Theirs));
        assert_eq!(host.now(), theirs);
    }
}

#[test]
fn an_undo_in_a_period_under_the_setting_tried_is_somebody_elses_write() {
    let host = Host::new();
    assert_eq!(host.make(ON), Ok(()));
    host.undo();
    assert_eq!(host.make(OFF), Err(Refusal::Theirs));
    assert_eq!(host.now(), FOUND);
    // One that failed before may have been made.
    let again = Change {
        is_unsure: true,
        ..OFF
    };
    assert_eq!(host.make(again), Ok(()));
    let other = Change {
        to: Knobs {
            halt_poll_ns: 0,
            ..FOUND
        },
        ..again
    };
    assert_eq!(host.make(other), Err(Refusal::Theirs));
    assert_eq!(host.now(), FOUND);
}

/// One of two parameters was set before a change failed; the setting before has another again.
#[test]
fn what_a_change_that_failed_has_set_is_restored() {
    let host = Host::new();
    let half = Change {
        to: Knobs { shrink: 4, ..FOUND },
        ..ON
    };
    assert_eq!(host.make(half), Ok(()));
    let from_another = Change {
        from: Knobs { grow: 2, ..FOUND },
        to: FOUND,
        is_unsure: true,
    };
    assert_eq!(host.make(from_another), Ok(()));
    assert_eq!(host.now(), FOUND);
}

/// A parameter that is not to be changed may have any value.
#[test]
fn only_parameters_that_are_to_be_changed_are_compared() {
    let host = Host::new();
    let grows = Knobs { grow: 3, ..FOUND };
    host.set(grows);
    assert_eq!(host.make(ON), Ok(()));
    assert_eq!(host.now(), Knobs { grow: 3, ..TRIED });
    assert_eq!(host.make(OFF), Ok(()));
    assert_eq!(host.now(), grows);
}
