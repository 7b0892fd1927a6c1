//! Data that an imported capture cannot hold, in words for the last lines of every result.

use std::collections::BTreeSet;

use haltwise_core::recording::Missing;

use super::line::About;
use super::places::Doubt;
use super::reading::Reading;
use super::text::{Sign, TextFacts};
use super::told::GivenSettings;

pub(super) fn of(reading: &Reading, doubts: &BTreeSet<Doubt>) -> Vec<Missing> {
    let text = &reading.text;
    let mut missing = Vec::new();
    let mut say = |field: &str, reason: &str| missing.push(Missing::new(field, reason));
    windows(text, &reading.told, &mut say);
    sched(text, &mut say);
    for doubt in doubts {
        let (field, reason) = place(*doubt);
        say(field, reason);
    }
    if let Some(vcpu) = text.threadless.0 {
        let reason = format!(
            "the lines name no thread, and all that name a vCPU name vCPU {vcpu}: one vCPU is assumed"
        );
        say("vm, vcpu, tid", &reason);
    }
    if text.saw(Sign::ValidAssumed) {
        say(
            "valid",
            "kvm_vcpu_wakeup has no `valid` before 4.7: every wake-up is assumed valid",
        );
    }
    if text.saw(Sign::Rounded) {
        say(
            "start_ns, wake_latency_ns, poll_ns",
            "the text has timestamps in microseconds: differences of two are off by up to 1 \
             us (`perf script --ns` and `trace-cmd report -t` print all)",
        );
    }
    say(
        "clock, start_ticks",
        "the text contains neither the time of day nor start times of processes; times are those of \
         the tracer's clock",
    );
    if !text.host.contains_key(&About::Cpus) {
        say("host.cpus", "not in the text");
    }
    let others = reading.tally.other_events;
    if others > 0 {
        let names = names(reading);
        let reason = format!("{others} events of other kinds were not used ({names})");
        say("other events", &reason);
    }
    missing
}

/// The names of the events that were of no use.
pub(super) fn names(reading: &Reading) -> String {
    let names = reading.tally.other_names.iter();
    let names: Vec<_> = names.map(|name| String::from_utf8_lossy(name)).collect();
    names.join(", ")
}

fn windows(text: &TextFacts, told: &GivenSettings, mut say: impl FnMut(&str, &str)) {
    if text.window_calls == 0 {
        say("window_ns, change", "the text contains no kvm_halt_poll_ns");
        if !text.saw(Sign::Switches) {
            say(
                "poll_ns",
                "the text contains neither kvm_halt_poll_ns nor sched_switch: only polls of halts that did not \
                 sleep are known, by kvm_vcpu_wakeup",
            );
        }
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
            "the text contains no ceilings; they are known from --max or --cap, and from clamped windows",
        );
    }
    if told.kernel_release.is_none() {
        say(
            "host.kernel_release",
            "the kernel is not named; 6.1 assumed: import again with --kernel RELEASE",
        );
    }
}

fn sched(text: &TextFacts, mut say: impl FnMut(&str, &str)) {
    if !text.saw(Sign::Wakings) {
        let is_told = text.saw(Sign::LatencyTold);
        say(
            if is_told {
                "wake"
            } else {
                "wake_latency_ns, wake"
            },
            "the text contains no sched_waking of these threads",
        );
    } else if text.saw(Sign::NoFlags) {
        say(
            "wake",
            "the text does not contain the context of a waker (ftrace's flags): an interrupt is taken \
             for the thread that it interrupted, if that is a VMM's or injects interrupts",
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
            "KVM's own count is not visible: a preempted poll is counted until the vCPU left its CPU, \
             about 1 us too long",
        );
    } else if text.window_calls > 0 {
        say(
            "poll_ns, poll_cut",
            "the text contains no sched_switch: a failed poll counts with its whole window, although it may have been \
             preempted",
        );
    }
}

fn place(doubt: Doubt) -> (&'static str, &'static str) {
    match doubt {
        Doubt::Neighbours => (
            "vm",
            "the text does not name processes: threads of one name, whose own numbers lie close to \
             each other, are assumed to be those of one VM",
        ),
        Doubt::LoneThread => (
            "vm",
            "the text does not name processes: a thread that halts and has no neighbour of its name \
             stands for a VM of its own, under its own number",
        ),
        Doubt::UnknownProcess => (
            "vm",
            "ftrace did not know the process of some threads: their halts belong to no VM",
        ),
        Doubt::SharedProcess => (
            "vm",
            "a process runs vCPUs of the same number, and so several VMs: which of its threads \
             belong together is assumed by their names and their order",
        ),
        Doubt::Numbered => (
            "vcpu",
            "vCPUs without any call of grow or shrink have their numbers by the names of their \
             threads, or by their order",
        ),
    }
}
