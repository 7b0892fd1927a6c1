//! vCPUs under KVM's rule (6.1 and later, grow 2, shrink 2), and their events as each tool prints them.

use haltwise_core::event::{Halt, WindowCall};
use haltwise_core::ids::{Tid, VcpuId};
use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};

pub(crate) const CEILING: u32 = 200_000;

/// An event of a thread: when, on which CPU, by whom, and its words.
#[derive(Debug, Clone)]
pub(crate) struct Printed {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    who: Who,
    event: &'static str,
    plain: String,
    bare: String,
}

#[derive(Debug, Clone)]
struct Who {
    comm: String,
    tid: u32,
    process: u32,
}

fn vcpu_thread(vcpu: usize) -> Who {
    let number = u32::try_from(vcpu).unwrap();
    Who {
        comm: format!("CPU {number}/KVM"),
        tid: 4201 + number,
        process: 4190,
    }
}

/// Halts of vCPUs that all begin at the same time; each has gaps and wake-up latencies of its own. Threads lose their
/// CPUs between the two events of a halt for these delays, in turn.
pub(crate) fn run(vcpus: &[Vec<(u64, u64)>], delays_ns: &[u64]) -> (Vec<Halt>, Vec<Printed>) {
    let mut delays_ns = delays_ns.iter().cycle();
    let (mut truths, mut events) = (Vec::new(), Vec::new());
    for (vcpu, halts) in vcpus.iter().enumerate() {
        let (mut now, mut window) = (5_000_000_000, 0);
        for &(gap, latency) in halts {
            let truth = halt(vcpu, now, (gap, latency), window);
            let held_up = match truth.change {
                WindowCall::None => 0,
                _ => *delays_ns.next().unwrap(),
            };
            window = print(&truth, (now, gap, held_up), &mut events);
            now = truth.end_ns() + held_up + 5_000;
            truths.push(truth);
        }
    }
    events.sort_by_key(|event| event.time_ns);
    (truths, events)
}

fn halt(vcpu: usize, start_ns: u64, (gap, latency): (u64, u64), window: u32) -> Halt {
    let window_ns = window.min(CEILING);
    let waited = gap > u64::from(window_ns);
    let halt_ns = if waited { gap + latency } else { gap };
    let version = Version::new(6, 12);
    let rule = Rule::of(version, Arch::X86);
    let knobs = Knobs::defaults(version, Arch::X86);
    let observed = Observed::valid(halt_ns);
    let step = rule.after(&knobs, CEILING, window_ns, observed);
    Halt {
        start_ns,
        halt_ns,
        vcpu: Some(VcpuId(u32::try_from(vcpu).unwrap())),
        tid: Tid(vcpu_thread(vcpu).tid),
        waited,
        valid: true,
        window_ns: Some(window_ns),
        window_next_ns: Some(step.window),
        change: step.call.into(),
        wake_latency_ns: Some(if waited { latency } else { 0 }),
        ..Halt::default()
    }
}

/// Prints a halt's events; gives the window that it leaves.
fn print(truth: &Halt, (start, gap, held_up): (u64, u64, u64), events: &mut Vec<Printed>) -> u32 {
    let (vcpu, end_ns) = (truth.vcpu.unwrap().0, truth.end_ns());
    let (who, cpu) = (vcpu_thread(vcpu as usize), vcpu % 3);
    let (old, new) = (truth.window_ns.unwrap(), truth.window_next_ns.unwrap());
    if truth.waited {
        sleep(&who, cpu, [start + u64::from(old), start + gap], events);
    }
    let mut say = |time_ns, event, plain, bare| {
        events.push(Printed {
            time_ns,
            cpu,
            who: who.clone(),
            event,
            plain,
            bare,
        });
    };
    if truth.change != WindowCall::None {
        let grow = u8::from(truth.change == WindowCall::Grow);
        let word = truth.change.as_str();
        let plain = format!("vcpu {vcpu}: halt_poll_ns {new} ({word} {old})");
        let bare = format!("grow={grow} vcpu_id={vcpu} new={new} old={old}");
        say(end_ns, "kvm:kvm_halt_poll_ns", plain, bare);
    }
    let (ns, waited) = (truth.halt_ns, u8::from(truth.waited));
    let word = if truth.waited { "wait" } else { "poll" };
    let plain = format!("{word} time {ns} ns, polling valid");
    let bare = format!("ns={ns} waited={waited} valid=1");
    let told_ns = end_ns + 300 + held_up;
    say(told_ns, "kvm:kvm_vcpu_wakeup", plain, bare);
    new
}

/// Prints that a thread went to sleep, and that it was woken.
fn sleep(who: &Who, cpu: u32, [slept_ns, woken_ns]: [u64; 2], events: &mut Vec<Printed>) {
    let Who { comm, tid, .. } = who;
    let tail = "next_comm=swapper/0 next_pid=0 next_prio=120";
    let head = format!("prev_comm={comm} prev_pid={tid} prev_prio=120 prev_state=");
    events.push(Printed {
        time_ns: slept_ns,
        cpu,
        who: who.clone(),
        event: "sched:sched_switch",
        plain: format!("{head}S ==> {tail}"),
        bare: format!("{head}1 {tail}"),
    });
    let text = format!("comm={comm} pid={tid} prio=120 target_cpu=000");
    events.push(Printed {
        time_ns: woken_ns,
        cpu: 7,
        who: Who {
            comm: "IO mon-iothread".to_owned(),
            tid: 4195,
            process: 4190,
        },
        event: "sched:sched_waking",
        plain: text.clone(),
        bare: text,
    });
}

/// A form of each tool; `heads.txt` beside the parser has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Ftrace,
    TraceCmdRaw,
    Perf,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [Self::Ftrace, Self::TraceCmdRaw, Self::Perf];

    pub(crate) fn is_exact(self) -> bool {
        self == Self::Perf
    }

    pub(crate) fn line(self, event: &Printed) -> String {
        let Printed {
            cpu, plain, bare, ..
        } = event;
        let Who { comm, tid, process } = &event.who;
        let (system, name) = event.event.split_once(':').unwrap();
        let seconds = event.time_ns / 1_000_000_000;
        let rest = event.time_ns % 1_000_000_000;
        let mut time = format!("{seconds}.{rest:09}");
        if !self.is_exact() {
            time.truncate(time.len() - 3);
        }
        match self {
            Self::Ftrace => format!(
                "{comm:>16}-{tid:<7} ({process:>7}) [{cpu:03}] d..1. {time:>12}: {name}: {plain}\n"
            ),
            Self::TraceCmdRaw => {
                format!("{comm:>16}-{tid:<5} [{cpu:03}] {time:>12}: {name}: {bare}\n")
            }
            Self::Perf => format!(
                "{comm:>16} {process:>5}/{tid:<5} [{cpu:03}] {time:>15}: {system}:{name}: {plain}\n"
            ),
        }
    }

    pub(crate) fn text(self, events: &[Printed]) -> String {
        events.iter().map(|event| self.line(event)).collect()
    }
}
