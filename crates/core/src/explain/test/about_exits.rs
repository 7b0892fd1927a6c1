//! Rules that need exits.

use super::*;

/// An idle guest at 1024 Hz.
fn ticking() -> Bench {
    alone(tick(1024))
}

#[test]
fn a_windows_guest_that_ticks_by_emulated_clocks() {
    let id = "windows-without-stimer";
    let keys = [SubKey::Pio, SubKey::Msr];
    let rtc = (Kind::PioRead, 30, Some(0x71), 20_480, 9_000);
    let bench = ticking().exits(&keys, &[rtc, (Kind::Exit, 30, None, 20_480, 9_000)]);
    assert_eq!(bench.says(id), Some(Sure::Likely));
    assert_eq!(bench.says("tick-storm"), None, "not said twice");
    let untold = ticking().exits(&[], &[(Kind::Exit, 30, None, 20_480, 9_000)]);
    assert_eq!(untold.says(id), Some(Sure::Possible));
    let serial = (Kind::PioWrite, 30, Some(0x3f8), 20_480, 9_000);
    assert_eq!(ticking().exits(&keys, &[serial]).says(id), None);
    let stimer = (Kind::MsrWrite, 32, Some(0x4000_00b0), 10_240, 900);
    let enlightened = ticking().exits(&keys, &[rtc, stimer]);
    assert_eq!(enlightened.says(id), None);
    assert_eq!(enlightened.says("tick-storm"), Some(Sure::Likely));
    let busy = alone(LOAD).exits(&keys, &[rtc]);
    assert_eq!(busy.says(id), None, "no tick");
    // Ticks that a busy host lost: no rhythm is left, but the RTC tells.
    let ragged = || {
        let every = |period_ns, count| {
            let load = LOAD
                .count(count)
                .period_ns(period_ns)
                .wake(WakeSource::Timer);
            load.gap_ns(period_ns - 100_000)
        };
        alone(every(15_000_000, 600)).load(every(29_000_000, 300))
    };
    assert_eq!(ragged().exits(&keys, &[rtc]).says(id), Some(Sure::Likely));
    let pm_timer = (Kind::PioRead, 30, Some(0x608), 20_480, 9_000);
    assert_eq!(ragged().exits(&keys, &[pm_timer]).says(id), None);
    let few = (Kind::PioRead, 30, Some(0x71), 800, 9_000);
    assert_eq!(ragged().exits(&keys, &[few]).says(id), None);
}

#[test]
fn eoi_writes_that_exit() {
    let id = "apic-writes";
    let of = |keys: &[SubKey], rows: &[_]| alone(LOAD).exits(keys, rows);
    let msr = (Kind::Exit, 32, None, 30_000, 1_500);
    let eoi = (Kind::MsrWrite, 32, Some(0x80b), 15_000, 1_500);
    let deadline = (Kind::MsrWrite, 32, Some(0x6e0), 15_000, 1_500);
    let bench = of(&[SubKey::Msr], &[msr, eoi, deadline]);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    // 1500 EOIs a second at 1.5 us, not the timer's writes.
    assert!((bench.cost(id) / 2.25e6 - 1.0).abs() < 0.01);
    assert_eq!(of(&[], &[msr]).says(id), Some(Sure::Possible));
    assert_eq!(of(&[SubKey::Msr], &[msr, deadline]).says(id), None);
    let software = of(&[SubKey::Msr], &[eoi]);
    assert_eq!(software.says(id), None, "no exit is reported");
    let lacks = software.lacks(id).unwrap();
    assert!(lacks.contains("without hardware virtualization"));
    let few = (Kind::MsrWrite, 32, Some(0x80b), 9_000, 1_500);
    assert_eq!(of(&[SubKey::Msr], &[msr, few]).says(id), None);
    assert!(!bench.gives(id).contains(&Does::ForWindows));
    let hyperv = [0x4000_0070, 0x4000_0071].map(|it| (Kind::MsrWrite, 32, Some(it), 15_000, 1_500));
    let hyperv = of(&[SubKey::Msr], &[msr, hyperv[0], hyperv[1]]);
    assert_eq!(hyperv.says(id), Some(Sure::Certain));
    let found = hyperv.finding(id).unwrap().found;
    assert!(found.cause.contains("`hv-synic` without `hv-avic`"));
    assert!(found.remedies[0].text.contains("`hv-avic`"));
}

#[test]
fn pause_loops() {
    let id = "pause-loop";
    let of = |count| {
        let pause = (Kind::Exit, 40, None, count, 4_000);
        alone(LOAD).exits(&[], &[pause])
    };
    assert_eq!(of(20_000).says(id), Some(Sure::Possible));
    let unknown = of(20_000).gives(id);
    assert_eq!(unknown, [Does::SparesExits], "CPUs to spare are not known");
    assert_eq!(of(20_000).pressure(0.5).says(id), Some(Sure::Likely));
    assert_eq!(of(9_000).pressure(0.5).says(id), None);
}

#[test]
fn a_port_that_is_polled() {
    let id = "port-polling";
    let keys = [SubKey::Pio];
    let at = |port, count| (Kind::PioRead, 30, Some(port), count, 12_000);
    let of = |rows: &[_]| alone(LOAD).exits(&keys, rows).says(id);
    assert_eq!(of(&[at(0x3f8, 20_000), at(0x60, 30)]), Some(Sure::Likely));
    assert_eq!(of(&[at(0xc100, 20_000)]), Some(Sure::Possible));
    assert_eq!(of(&[at(0x3f8, 9_000)]), None, "too slow");
    let many: Vec<_> = (0..4).map(|port| at(0xc100 + port, 12_000)).collect();
    assert_eq!(of(&many), None, "none of them dominates");
    let untold = alone(LOAD).exits(&[], &[]);
    let reason = untold.lacks(id).unwrap();
    assert!(reason.contains("--exits=pio"), "{reason}");
}

#[test]
fn video_memory_byte_by_byte() {
    let id = "emulated-framebuffer";
    let keys = [SubKey::Mmio];
    let write = |address| (Kind::MmioWrite, 49, Some(address), 1_000, 6_000);
    let of = |addresses: std::ops::Range<u64>| {
        let rows: Vec<_> = addresses.step_by(4096).map(write).collect();
        alone(LOAD).exits(&keys, &rows).says(id)
    };
    let vga = of(0xa_0000..0xb_0000);
    assert_eq!(vga, Some(Sure::Certain), "the VGA window");
    assert_eq!(of(0xe000_0000..0xe001_0000), Some(Sure::Possible));
    assert_eq!(of(0xe000_0000..0xe000_f000), None, "15 pages");
    assert_eq!(of(0xa_0000..0xa_9000), None, "too slow");
    let scattered: Vec<_> = (0..64).map(|n| write(0xe000_0000 + n * 8192)).collect();
    let scattered = alone(LOAD).exits(&keys, &scattered);
    assert_eq!(scattered.says(id), None, "no run");
}

#[test]
fn a_limited_recording_of_exits_says_so() {
    let mut bench = ticking().exits(&[], &[(Kind::Exit, 40, None, 5, 4_000)]);
    assert_eq!(bench.lacks("pause-loop"), None);
    let seen = bench.exits.as_mut().unwrap();
    seen.recorded.reasons = vec!["HLT".into()];
    assert!(bench.lacks("pause-loop").unwrap().contains("limited"));
}
