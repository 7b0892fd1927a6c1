//! Lines as tools print them, with their meanings in `heads.txt` and `fields.txt`.

use std::fmt::Write;

use haltwise_core::ids::Tid;

use super::fields::What;
use super::*;

fn event(line: &str) -> (Head, What) {
    match read(line.as_bytes()) {
        Said::Event(head, what) => (head, what),
        other => panic!("{line}: {other:?}"),
    }
}

const WAKEUP: What = What::VcpuWakeup {
    ns: 548_225,
    waited: true,
    valid: Some(true),
    latency_ns: None,
};

/// Reads a table: below each text stands what it means. `UPDATE_GOLDEN=1` writes the meanings anew.
fn table(file: &str, table: &str, mean: impl Fn(&str, &str) -> String) {
    let mut got = String::new();
    let mut section = "";
    for text in table.lines().filter(|line| !line.starts_with("  = ")) {
        got += text;
        got += "\n";
        match text.strip_prefix("## ") {
            Some(title) => section = title,
            None => writeln!(got, "  = {}", mean(section, text)).unwrap(),
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let home = concat!(env!("CARGO_MANIFEST_DIR"), "/src/import/line/");
        std::fs::write(format!("{home}{file}"), got).unwrap();
    } else {
        assert_eq!(got, table, "{file}");
    }
}

#[test]
fn heads_of_every_tool() {
    table("heads.txt", include_str!("heads.txt"), |section, text| {
        let is_perf = section.starts_with("perf");
        let system = if is_perf { "kvm:" } else { "" };
        let fields = "kvm_vcpu_wakeup: wait time 548225 ns, polling valid";
        let (head, what) = event(&format!("{text} {system}{fields}"));
        assert_eq!((what, head.is_perf), (WAKEUP, is_perf), "{text}");
        let process = match head.process {
            Process::Is(pid) => pid.to_string(),
            Process::NotKnown => "not known".to_owned(),
            Process::NotPrinted => "not printed".to_owned(),
        };
        let or = |value: Option<u32>| value.map_or("none".to_owned(), |value| value.to_string());
        format!(
            "`{}` tid {} process {process} cpu {} flags {} at {}{}",
            head.comm.text(),
            or(head.tid.map(|tid| tid.0)),
            or(head.cpu),
            or(head.flags.map(u32::from)),
            head.time_ns,
            if head.is_rounded { " rounded" } else { "" }
        )
    });
}

#[test]
fn fields_of_every_kernel_and_tool() {
    table("fields.txt", include_str!("fields.txt"), |_, text| {
        let (_, what) = event(&format!("  x-1 [000] d..1. 12.345678: {text}"));
        let (name, rest) = text.split_once(' ').unwrap();
        let of_perf = event(&format!("  x 1 [000] 12.345678: some:{name} {rest}"));
        assert_eq!(of_perf.1, what, "{text}");
        format!("{what:?}")
    });
}

#[test]
fn damage_is_told_from_lines_run_together() {
    const HEAD: &str = "              vm-7       [000] d..1.    12.345678: ";
    for line in [
        "kvm_vcpu_wakeup: wait time 12345 ns, polling val",
        "kvm_vcpu_wakeup: wait time 12345",
        "kvm_vcpu_wakeup: wait time 1234x ns, polling valid",
        "kvm_vcpu_wakeup: wait time -1 ns, polling valid",
        "kvm_vcpu_wakeup: wait time 123456789012345678901 ns, polling valid",
        "kvm_vcpu_wakeup: wait time 18446744073709551616 ns, polling valid",
        "kvm_vcpu_wakeup: ns=0x waited=1",
        "kvm_vcpu_wakeup: ns=+1 waited=1",
        "kvm_vcpu_wakeup: ns=000000000000000000001 waited=1",
        "kvm_vcpu_wakeup: ns=0x10000000000000000 waited=1",
        "kvm_vcpu_wakeup: ",
        "kvm_vcpu_wakeup: ns=12 waited=7 valid=1",
        "kvm_halt_poll_ns: vcpu 1: halt_poll_ns 10000 (grow 0",
        "kvm_halt_poll_ns: vcpu 1: halt_poll_ns 10000 (glow 0)",
        "kvm_halt_poll_ns: vcpu 1: halt_poll_ns 4294967296 (grow 0)",
        "kvm_halt_poll_ns: vcpu 1: halt_poll_ns -2147483649 (grow 0)",
        "kvm_halt_poll_ns: vcpu 1: halt_poll_ns -0 (grow 0)",
        "sched_waking: comm=vm0-vcpu1 pid=218",
        "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=",
    ] {
        // An event of KVM names the thread that it is of.
        let of_thread = line.starts_with("kvm_");
        let whole = format!("{HEAD}{line}");
        let Said::Damaged(head, _) = read(whole.as_bytes()) else {
            panic!("{line}: {:?}", read(whole.as_bytes()));
        };
        let tid = head.and_then(|head| head.tid);
        assert_eq!(tid == Some(Tid(7)), of_thread, "{line}");
        let together = format!("{HEAD}{line}{HEAD}kvm_vcpu_wakeup: wait time 1 ns, polling valid");
        assert_eq!(read(together.as_bytes()), Said::RunTogether, "{together}");
        for cut in 15..HEAD.len() {
            let together = format!(
                "{}{HEAD}kvm_vcpu_wakeup: wait time 1 ns, polling valid",
                &HEAD[..cut]
            );
            let said = read(together.as_bytes());
            assert!(
                matches!(said, Said::RunTogether | Said::Damaged(..)),
                "{together}: {said:?}"
            );
        }
    }
}

#[test]
fn wrecks_of_lines_are_no_events() {
    for line in [
        // Heads without their beginning or their middle.
        "21987 [000]   999.546422: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "0] d..1. 12.345678: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "  vm-7 [0x0] d..1. 12.345678: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "  vm-99999999 [000] d..1. 12.345678: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "  vm-7 [99999] d..1. 12.345678: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "  vm-7 [000] d..1. 99999999999.345678: kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "kvm_vcpu_wakeup: wait time 1 ns, polling valid",
        "d time 1 ns, polling valid",
        "\0\0\0\0",
        "[   12.345678] kvm: a line of the kernel's log",
    ] {
        let said = read(line.as_bytes());
        // A line that has a time and names a halt is a wreck of two; the rest is damage.
        assert!(
            matches!(said, Said::Damaged(..) | Said::RunTogether),
            "{line}: {said:?}"
        );
    }
}

#[test]
fn what_stands_between_events_is_known() {
    for line in [
        "",
        "   \t",
        "# tracer: nop",
        "#              | |           |       |   |||||     |         |",
        " => kvm_vcpu_halt",
        "\tffffffff810a1b2c kvm_vcpu_halt+0x1a ([kvm])",
        "            bash-21807   [001] ..... 12.345678: do_idle <-cpu_startup_entry",
    ] {
        assert_eq!(read(line.as_bytes()), Said::Nothing, "{line}");
    }
    let lost = |events| Said::Notice(Notice::Lost { events });
    for (line, said) in [
        ("CPU:1 [LOST 123 EVENTS]", lost(Some(123))),
        ("CPU:0 [7 EVENTS DROPPED]", lost(Some(7))),
        ("CPU:0 [EVENTS DROPPED]", lost(None)),
        (
            "  vm 7 [000]  12.345678: PERF_RECORD_LOST lost 5",
            lost(Some(5)),
        ),
        ("cpus=2", Said::Notice(Notice::Host(About::Cpus, b"2"))),
        (
            "# os release : 6.18.44",
            Said::Notice(Notice::Host(About::Release, b"6.18.44")),
        ),
        (
            "# entries-in-buffer/entries-written: 681/13376   #P:2",
            Said::Notice(Notice::Overwritten {
                events: 12_695,
                cpus: Some(2),
            }),
        ),
    ] {
        assert_eq!(read(line.as_bytes()), said, "{line}");
    }
    let other = "  vm-7 [000] d..1. 12.345678: kvm_msr: msr_read 10 = 0x1";
    assert!(matches!(
        read(other.as_bytes()),
        Said::OtherEvent(b"kvm_msr")
    ));
    let ticks = "       vm0-vcpu1-21848   [000] ..... 2289408631289: kvm_vcpu_wakeup: wait time 438476 ns, polling valid";
    let wakeup = What::VcpuWakeup {
        ns: 438_476,
        waited: true,
        valid: Some(true),
        latency_ns: None,
    };
    assert_eq!(read(ticks.as_bytes()), Said::Ticks(Some(wakeup)));
}
