//! Captures of the lab's guests on a stock kernel, with its own `kvm_exit` and `kvm_entry`: findings and `diff` on what
//! was not made up. Texts of them are in `docs/cases.md`, which `documented.rs` holds against the program.
//!
//! Recorded in Debian's Linux 6.12, emulated, with `--exits=pio,mmio,msr`: `tick-rtc` at
//! 64 and at 128 Hz, `port-poll`, `framebuffer`, `ipi`, and `pingpong`, which shows nothing; without exits:
//! `poller`, and `pingpong` on the CPU of a `poller` that never gives it away. Under `--linux-guest --thorough`: a
//! stock Linux guest under a stock QEMU (`xtask/src/kernels/linux_guest/explained.rs`), beside a second one that is
//! paused and whose cpuidle driver is haltpoll; and `inside`, what that second one recorded of itself under twelve sets
//! of parameters (`inside.rs` there; docs/guest.md shows it). On Linux 6.18: `pingpong --gap fixed:125us --cap 200us`, `poller
//! --guest-poll fixed:always`, and a stock QEMU 7.2 whose guest, in place of its firmware, kicks a virtio device without
//! ioeventfd and with it. These tests never record it again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{haltwise, home};

/// A capture, and the rules that fire on it.
const CAPTURES: [(&str, &str); 19] = [
    ("windows", "windows-without-stimer"),
    ("windows-128hz", "windows-without-stimer"),
    ("polled", "port-polling"),
    ("drawn", "emulated-framebuffer"),
    ("signals", "apic-writes"),
    ("answers", ""),
    ("guest-haltpoll", "guest-veto"),
    ("crowded", "guest-veto over-committed-polling"),
    ("hpet", "guest-veto over-committed-polling qemu-hpet"),
    ("no-hpet", "guest-veto"),
    (
        "faults",
        "ceiling-above-1ms guest-page-faults guest-veto over-committed-polling",
    ),
    ("huge-pages", "guest-veto"),
    ("timers", "ceiling-above-1ms guest-veto timer-exits"),
    ("unseen", "unseen-polling"),
    ("never-halts", "guest-never-halts guest-veto"),
    ("kicked", "vmm-devices"),
    ("kicked-ioeventfd", ""),
    // Both have the PIC alone, and a tick of 1 kHz. Other tasks wanted the CPUs beside the first.
    (
        "iothread-polls",
        "over-committed-polling port-polling vmm-threads",
    ),
    ("iothread-sleeps", "port-polling tick-storm"),
];

fn json(arguments: &[&str]) -> Value {
    let (text, code) = haltwise(&home(), arguments);
    assert_eq!(code, Some(0), "{arguments:?}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_guest_has_its_finding_and_no_other() {
    for (name, expected) in CAPTURES {
        let page = json(&[
            "report",
            "--findings",
            "--json",
            &format!("recorded/{name}"),
        ]);
        let findings = page["findings"].as_array().unwrap().iter();
        let rules: BTreeSet<_> = findings.map(|it| it["rule"].as_str().unwrap()).collect();
        assert_eq!(rules, expected.split_whitespace().collect(), "{name}");
    }
}

/// Twice the ticks: more halts and more of each reason that a tick has, in both directions; and nothing
/// where both are the same.
#[test]
fn a_doubled_tick_is_told_by_halts_and_by_exits() {
    let (a, b) = ("recorded/windows", "recorded/windows-128hz");
    for [from, to] in [[a, b], [b, a]] {
        let page = json(&["diff", "--json", from, to]);
        for (figure, cause) in [
            ("halts", None),
            ("exits", Some("hlt")),
            ("exits", Some("io")),
            ("exits", Some("msr")),
            ("exits", Some("KVM_EXIT_IO")),
        ] {
            let all = page["comparisons"].as_array().unwrap();
            let found = all
                .iter()
                .find(|it| it["figure"] == figure && it["cause"]["name"].as_str() == cause);
            let found = found.unwrap();
            assert_eq!(found["verdict"], "different", "{figure} {cause:?}");
            let ratio = found["ratio"].as_f64().unwrap();
            let ratio = if from == a { ratio } else { 1.0 / ratio };
            assert!((1.7..2.1).contains(&ratio), "{figure} {cause:?}: {ratio}");
        }
    }
    let same = json(&["diff", "--json", a, a]);
    assert_eq!(same["different"], Value::from(0));
    assert!(same["compared"].as_u64().unwrap() > 20);
}

/// A guest's own idle periods, under twelve sets of parameters: as its governor's rule has them, and in the words of a
/// guest; what only a host has is refused.
#[test]
fn what_a_guest_recorded_of_itself_is_read_as_a_guests() {
    let verified = json(&["verify", "--json", "recorded/inside"]);
    assert_eq!(verified["rule"]["polls"], "guest");
    assert_eq!(verified["differences"], 0);
    let (checked, halts) = (&verified["checked"], &verified["halts"]);
    assert!(
        checked.as_u64() >= halts.as_u64().map(|halts| halts / 100 * 98),
        "{verified}"
    );
    for transition in ["grow", "shrink", "none"] {
        let count = verified["transitions"][transition]["checked"].as_u64();
        assert!(count > Some(50), "{transition}: {count:?}");
    }
    for reader in [
        &["top", "--once", "--json", "recorded/inside"][..],
        &["check", "--json", "recorded/inside"],
        &["tune", "--json", "recorded/inside"],
        &["diff", "--json", "recorded/inside", "recorded/inside"],
    ] {
        assert!(json(reader).is_object(), "{reader:?}");
    }
    let replayed = json(&["tune", "--policy", "usual", "--json", "recorded/inside"]);
    let played = replayed["host"]["played"].as_array().unwrap();
    let in_guest = played.iter().filter(|it| it["side"] == "guest").count();
    assert!(in_guest >= 7, "{in_guest}");
    let explained = json(&["report", "--findings", "--json", "recorded/inside"]);
    assert_eq!(explained["recording"]["side"], "guest");
    assert_eq!(explained["recommendation"]["place"], "guest");
}
