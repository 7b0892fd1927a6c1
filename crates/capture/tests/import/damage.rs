//! Texts that cannot be imported, and those of which a part can.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::import::{GivenSettings, ImportError, Skipped};
use haltwise_core::event::Lost;

use super::{Made, capture_of, import_to};

const HALT: &str = "kvm_vcpu_wakeup: wait time 50000 ns, polling valid";

fn halt(cpu: u32, time_us: u64) -> String {
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    format!("  CPU 0/KVM-42 [{cpu:03}] d..1. {seconds}.{micros:06}: {HALT}\n")
}

fn skipped(text: &str) -> (u64, Vec<(Skipped, u64)>) {
    let made = capture_of(text.as_bytes(), GivenSettings::default()).unwrap();
    let Made {
        imported,
        capture,
        halts,
        ..
    } = &made;
    let lost: Vec<Lost> = capture.lost().unwrap().map(Result::unwrap).collect();
    let told: u64 = lost.iter().map(|lost| lost.count).sum();
    assert_eq!(told, imported.skipped.values().sum::<u64>());
    assert_eq!(capture.info().lost.values().sum::<u64>(), told);
    assert!(halts.is_sorted_by_key(|halt| halt.start_ns));
    let skipped = imported.skipped.iter();
    (imported.halts, skipped.map(|(why, n)| (*why, *n)).collect())
}

#[test]
fn what_is_passed_over_is_counted_by_its_reason() {
    let good = halt(0, 1_000_000);
    for (bad, why) in [
        (good.replace(", polling valid", ", pol"), Skipped::Damaged),
        (good.replace(", polling valid", ""), Skipped::Damaged),
        (good.trim_end().repeat(2) + "\n", Skipped::RunTogether),
        ("x".repeat(70_000) + "\n", Skipped::Damaged),
        ("\0\0\0\0\n".to_owned(), Skipped::Damaged),
        (
            "  vm-1 [000] ..... 123456789: sched_waking: x\n".to_owned(),
            Skipped::Ticks,
        ),
    ] {
        let text = good.clone() + &bad + &halt(0, 2_000_000);
        assert_eq!(skipped(&text), (2, vec![(why, 1)]), "{bad:.80}");
    }
    let lost = good + "CPU:0 [LOST 17 EVENTS]\n" + &halt(0, 2_000_000);
    assert_eq!(skipped(&lost), (2, vec![(Skipped::ByTracer, 17)]));
}

#[test]
fn a_clock_that_steps_back_costs_what_it_repeats() {
    let times = [
        1_000_000, 2_000_000, 3_000_000, 1_100_000, 1_200_000, 1_300_000, 3_100_000,
    ];
    let text: String = times.iter().map(|&time| halt(0, time)).collect();
    let expected = vec![(Skipped::OutOfOrder, 1), (Skipped::SteppedBack, 2)];
    assert_eq!(skipped(&text), (4, expected));
    // One digit gone wrong is not a clock.
    let times = [1_000_000, 2_000_000, 93_000_000, 4_000_000, 5_000_000];
    let text: String = times.iter().map(|&time| halt(0, time)).collect();
    assert_eq!(skipped(&text), (4, vec![(Skipped::OutOfOrder, 1)]));
}

#[test]
fn what_is_overtaken_by_thousands_comes_too_late() {
    let mut text: String = (0..20_000).map(|n| halt(0, 1_000_000 + n * 100)).collect();
    text += &halt(1, 1_000_050);
    text += &halt(1, 4_000_000);
    assert_eq!(skipped(&text), (20_001, vec![(Skipped::OutOfOrder, 1)]));
}

#[test]
fn texts_that_hold_no_halt_are_refused_with_the_reason() {
    let error = |text: &[u8]| capture_of(text, GivenSettings::default()).err().unwrap();
    assert!(matches!(error(b""), ImportError::Empty));
    assert!(matches!(
        error(b"hello\nworld\n"),
        ImportError::NoTrace { lines: 2, .. }
    ));
    let packed = error(b"\x1f\x8b\x08\0\0");
    assert_eq!(packed.to_string(), "it is packed with gzip, not text");
    for packed in [&b"PERFILE2\x68\0"[..], b"\x17\x08\x44tracing6\0"] {
        assert!(matches!(error(packed), ImportError::Binary { .. }));
    }
    let other = error(b"  x-1 [000] ..... 1.000000: kvm_msr: msr_read 1\n");
    assert_eq!(
        other.to_string(),
        "none of its 1 events is a halt (kvm_vcpu_wakeup); there are kvm_msr"
    );
    let ticks = halt(0, 1_000_000).replace("1.000000", "2289408631289");
    assert!(matches!(
        error(ticks.as_bytes()),
        ImportError::Ticks { lines: 1 }
    ));
}

/// A file on a disk that went away.
struct Breaks;

impl Read for Breaks {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("gone"))
    }
}

#[test]
fn nothing_is_written_over_and_nothing_half() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("cap");
    let text = halt(0, 1_000_000);
    fs::create_dir(&output).unwrap();
    fs::write(output.join("mine"), "").unwrap();
    let import = |text: &mut dyn BufRead, output: &Path, go_on| {
        import_to(text, GivenSettings::default(), output, go_on)
    };
    let (go_on, stop) = (ControlFlow::Continue(()), ControlFlow::Break(()));
    let error = import(&mut text.as_bytes(), &output, go_on).unwrap_err();
    assert!(matches!(
        error,
        ImportError::Write(CaptureWriteError::NotEmpty { .. })
    ));
    // An empty directory may be taken.
    fs::remove_file(output.join("mine")).unwrap();
    import(&mut text.as_bytes(), &output, go_on).unwrap();
    // A text that breaks off, or an import that is stopped, leaves nothing.
    let long: String = (0..40_000).map(|n| halt(0, 1_000_000 + n * 100)).collect();
    let other = dir.path().join("other");
    let mut broken = BufReader::new(long.as_bytes().chain(Breaks));
    let error = import(&mut broken, &other, go_on);
    assert!(matches!(error, Err(ImportError::Read { bytes, .. }) if bytes > 1_000_000));
    let error = import(&mut long.as_bytes(), &other, stop);
    assert!(matches!(error, Err(ImportError::Interrupted { .. })));
    let left = fs::read_dir(dir.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["cap"]);
}
