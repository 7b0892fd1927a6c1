//! What an imported capture cannot hold, in words for the last lines of every result.

use haltwise_core::recording::Missing;

use super::line::About;
use super::places::Seen;
use super::reading::{Reading, Sign, TextFacts};
use super::told::Told;

/// What the text left open, from its end.
pub(super) fn of(reading: &Reading) -> Vec<Missing> {
    let (text, told) = (&reading.text, reading.told());
    let mut missing = Vec::new();
    windows(text, told, &mut missing);
    sched(text, &mut missing);
    places(reading.places.seen(), &mut missing);
    let mut say = |field: &str, reason: String| {
        missing.push(Missing {
            field: field.to_owned(),
            reason,
        });
    };
    if text.saw(Sign::ValidAssumed) {
        let reason = "kvm_vcpu_wakeup does not tell before 4.7: every wake-up is taken for valid";
        say("valid", reason.to_owned());
    }
    if text.saw(Sign::Rounded) {
        let reason = "the text has times to the microsecond: what is told by the distance of two is \
                      off by up to 1 us (`perf script --ns` and `trace-cmd report -t` print all)";
        say("start_ns, wake_latency_ns, poll_ns", reason.to_owned());
    }
    say(
        "clock, start_ticks",
        "text does not tell the time of day, nor when a process began; times are those of the \
         tracer's clock"
            .to_owned(),
    );
    if !text.host.contains_key(&About::Cpus) {
        say("host.cpus", "the text does not tell".to_owned());
    }
    let others = reading.tally.other_events;
    if others > 0 {
        let names = names(reading);
        let reason = format!("{others} events of other kinds were not used ({names})");
        say("other events", reason);
    }
    missing
}

/// The names of the events that were of no use.
pub(super) fn names(reading: &Reading) -> String {
    let names = reading.tally.other_names.iter();
    let names: Vec<_> = names.map(|name| String::from_utf8_lossy(name)).collect();
    names.join(", ")
}

fn windows(text: &TextFacts, told: &Told, missing: &mut Vec<Missing>) {
    let mut say = |field: &str, reason: &str| {
        missing.push(Missing {
            field: field.to_owned(),
            reason: reason.to_owned(),
        });
    };
    if text.window_calls == 0 {
        say(
            "window_ns, change, poll_ns",
            "the text holds no kvm_halt_poll_ns",
        );
    } else {
        say(
            "window_ns",
            "a vCPU's window is known from its first kvm_halt_poll_ns on, and after lost events from \
             the next one on",
        );
    }
    if told.ceiling().is_none() {
        say(
            "ceiling_ns",
            "text does not tell ceilings; --max or --cap does, and a window that was cut down to one",
        );
    }
    if told.kernel_release.is_none() {
        say(
            "host.kernel_release",
            "the text does not tell the kernel: it is taken for 6.1 or later (--kernel tells it)",
        );
    }
}

fn sched(text: &TextFacts, missing: &mut Vec<Missing>) {
    let mut say = |field: &str, reason: &str| {
        missing.push(Missing {
            field: field.to_owned(),
            reason: reason.to_owned(),
        });
    };
    if !text.saw(Sign::Wakings) {
        say(
            "wake_latency_ns, wake",
            "the text holds no sched_waking, or none of these threads",
        );
    } else if text.saw(Sign::NoFlags) {
        say(
            "wake",
            "the text does not tell in which context a waker ran (ftrace's flags)",
        );
    } else {
        say(
            "wake",
            "in text a timer's interrupt looks like that of a device passed through",
        );
    }
    if text.saw(Sign::Switches) {
        say(
            "poll_ns",
            "KVM's own count is not seen: a poll that was cut is booked until the vCPU was off its \
             CPU, about 1 us more than it polled",
        );
    } else {
        say("poll_ns, poll_cut", "the text holds no sched_switch");
    }
}

fn places(seen: Seen, missing: &mut Vec<Missing>) {
    let mut say = |reason: &str| {
        missing.push(Missing {
            field: "vm".to_owned(),
            reason: reason.to_owned(),
        });
    };
    if seen.lone_threads {
        say(
            "the text does not name processes: each thread that halts stands for a VM of its own, \
             under its own number",
        );
    }
    if seen.unknown_process {
        say("ftrace did not know the process of some threads: their halts belong to no VM");
    }
    if seen.shared_process {
        say(
            "a process runs vCPUs of the same number: it has several VMs, which text cannot tell \
             apart",
        );
    }
}
