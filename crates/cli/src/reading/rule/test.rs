//! When settings changed, and who says what they were.

use haltwise_capture::info::{Clock, Host, Tool};
use haltwise_core::event::{Knob, KnobScope};
use haltwise_core::recording::Mode;

use super::over_time::{Stretch, changes};
use super::*;

fn knob(time_ns: u64, name: &str, value: &str) -> Knob {
    Knob {
        time_ns,
        name: name.to_owned(),
        scope: KnobScope::Host,
        value: value.to_owned(),
    }
}

fn told([max, grow, grow_start, shrink]: [Option<u32>; 4]) -> GivenHost {
    GivenHost {
        parameters: GivenParameters {
            max,
            grow,
            grow_start,
            shrink,
            cap: None,
        },
        ..GivenHost::default()
    }
}

const DEFAULTS: Knobs = Knobs::of([200_000, 2, 10_000, 2]);

fn ceilings_at(settings: &Settings, at: u64) -> Vec<u32> {
    let track = settings.track(Parameter::HaltPollNs);
    track.within(at, at).collect()
}

#[test]
fn an_old_value_told_once_more_says_until_when_it_was() {
    let knobs = [
        knob(100, "halt_poll_ns", "200000"),
        knob(100, "halt_poll_ns_grow", "2"),
        knob(500, "halt_poll_ns", "200000"),
        knob(600, "halt_poll_ns", "50000"),
        knob(700, "cpuidle.current_governor", "menu"),
    ];
    let (settings, origins) = settings(
        &changes(knobs.iter(), Parameter::of),
        &told([None; 4]),
        DEFAULTS,
    );
    let within = |at| ceilings_at(&settings, at);
    assert_eq!(within(499), [200_000]);
    assert_eq!(within(500), [200_000, 50_000]);
    assert_eq!(within(600), [50_000]);
    assert_eq!(settings.track(Parameter::HaltPollNs).changes(), 1);
    let (assumed, recorded) = (Origin::Assumed, Origin::Recorded);
    assert_eq!(origins, [recorded, recorded, assumed, assumed]);
}

#[test]
fn without_it_the_value_may_have_changed_any_time_since_it_was_told() {
    let knobs = [
        knob(100, "halt_poll_ns", "200000"),
        knob(600, "halt_poll_ns", "50000"),
    ];
    let (settings, _) = settings(
        &changes(knobs.iter(), Parameter::of),
        &told([None; 4]),
        DEFAULTS,
    );
    let within = |at| ceilings_at(&settings, at);
    assert_eq!(within(99), [200_000]);
    assert_eq!(within(101), [200_000, 50_000]);
}

#[test]
fn what_is_told_counts_whatever_was_recorded() {
    let knobs = [knob(100, "halt_poll_ns_shrink", "0")];
    let told = told([Some(7), None, None, Some(3)]);
    let (settings, origins) = settings(&changes(knobs.iter(), Parameter::of), &told, DEFAULTS);
    let ceiling = settings.track(Parameter::HaltPollNs);
    assert_eq!(*ceiling, Track::fixed(7));
    assert_eq!(*settings.track(Parameter::Shrink), Track::fixed(3));
    assert_eq!(*settings.track(Parameter::Grow), Track::fixed(2));
    assert_eq!(
        (origins[0], origins[1], origins[3]),
        (Origin::Told, Origin::Assumed, Origin::Told)
    );
}

fn info(machine: &str, rung: Rung) -> CaptureInfo {
    let tool = Tool {
        name: "haltwise".into(),
        version: "0".into(),
    };
    let host = Host {
        kernel_release: "6.12".into(),
        arch: machine.to_owned(),
        cpu_model: None,
        cpus: 1,
        hostname: None,
    };
    CaptureInfo::new(tool, host, Clock::new(0, 0), rung, Mode::Full)
}

#[test]
fn a_kernel_or_machine_that_is_not_known_has_to_be_told() {
    let nobody = told([None; 4]);
    for failure in [
        kernel("unknown", &nobody).unwrap_err(),
        arch(&info("sparc64", Rung::Bpf), &nobody).unwrap_err(),
    ] {
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.hint.unwrap().starts_with("specify it: --"));
    }
    let assumed = arch(&info("unknown", Rung::Import), &nobody).unwrap();
    assert_eq!(assumed, (Arch::X86, Origin::Assumed));
    let recorded = arch(&info("aarch64", Rung::Import), &nobody).unwrap();
    assert_eq!(recorded, (Arch::Arm64, Origin::Recorded));
    let told = GivenHost {
        kernel: Some(Version::new(6, 1)),
        arch: Some(Arch::S390),
        ..nobody
    };
    assert_eq!(kernel("unknown", &told).unwrap(), Version::new(6, 1));
    let arch = arch(&info("x86_64", Rung::Bpf), &told).unwrap();
    assert_eq!(arch, (Arch::S390, Origin::Told));
}

#[test]
fn a_loss_lies_between_the_samples_around_it() {
    // Told at 5 s; the samples before were taken at 3 s and 4 s, and the one after at 6.5 s.
    let mut loss = Stretch::around(5_000_000_000);
    loss.begin(Some(3_000_000_000), Some(4_000_000_000));
    assert_eq!((loss.from, loss.to), (3_000_000_000, 6_000_000_000));
    // Nothing is known of a recording's first second.
    loss.begin(None, Some(4_000_000_000));
    assert_eq!(loss.from, 0);
    let mut imported = Stretch::around(5_000_000_000);
    imported.begin(None, None);
    assert_eq!(imported.from, 4_000_000_000);
}
