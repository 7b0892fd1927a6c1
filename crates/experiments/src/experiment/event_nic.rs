//! `event-nic`: a network backend that looks in a loop, against one that events wake.
//!
//! The source had the NIC of Xen's device model woken by events instead of polling. Here a guest sends
//! frames of 1514 bytes through a virtio network device to a peer behind a pair of sockets, which sends each back after
//! a while; every echo is checked and answered by the next frame. The backend is a thread that looks at queues and
//! socket again and again; one that sleeps a millisecond between two looks, for a "polling loop" may be either;
//! one that an eventfd of the guest's notification or the socket wakes; and one so woken for what is received, while
//! the vCPU's exit sends. At the end every buffer is held against the echo that must lie in it.

mod peer;
mod worker;

use std::sync::Arc;

use anyhow::Context as _;
use haltwise_core::units::Nanos;

use self::peer::Echoed;
use self::worker::{How, Served};
use super::rows::{cell, cells};
use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial, Variant};
use crate::device::Shared;
use crate::device::machine::{Ended, Machine};
use crate::device::net::{Link, NetBoard, NetDevice, RECEIVE, Sender, TRANSMIT};
use crate::guest::net;
use haltwise_lab::event::Event;
use haltwise_lab::thread_stats::ThreadUse;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "event-nic",
    title: "a network backend woken by events, against one that polls in a loop",
    source: Source {
        document: "Intel Technology Journal 10(3), 2006: tuning VT-x guests on Xen",
        reports: &[
            "the NIC model woken by events instead of a polling loop: scp 10 to 40 times faster",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants: || {
        cells(&LOADS, &BACKENDS, |load, (name, _, what)| {
            let under_way = match load.window {
                1 => "one frame under way".to_owned(),
                frames => format!("{frames} frames under way"),
            };
            Variant::new(load.group, *name, format!("{what}; {under_way}"))
        })
    },
    effects: || LOADS.iter().flat_map(effects_of).collect(),
    integrity: || LOADS.iter().map(integrity_of).collect(),
    limits: &[],
    on_your_host: "the finding `vmm-threads` names threads of a VMM that poll while the guest rests",
    differs: "the source does not say whether its loop slept, and its device model shared the machine with \
              the guest; here each is tried, and what this guest itself needs for a packet bounds every factor",
    run: run_one,
    conclude,
};

figures! { of: Exchanged;
    "packets", "1/s", More, "frames sent, echoed and checked", of.ended.per_second(of.ended.rounds.into());
    "trip", "us", Less, "from a frame to its echo", f64::from(of.window) * of.each(of.ended.elapsed_us());
    "cpu", "us", Less, "CPU of the vCPU thread for each packet", of.each(of.ended.cpu_us());
    "worker-cpu", "us", Less, "CPU of the backend's thread for each packet", of.each(of.worker.cpu_ns as f64 / 1e3);
    "exits", "", Less, "exits to the VMM for each packet", of.each(of.ended.exits_to_vmm() as f64);
    "interrupts", "", Less, "interrupts of the guest for each packet", of.each(of.ended.interrupts.into());
    "switches", "", Less, "times that the vCPU thread waited, for each packet", of.each(of.ended.switches());
    "worker-waits", "", Neither, "times that the backend's thread waited, for each packet",
        of.worker.switches.map(|switches| of.each(switches.voluntary as f64));
    "preempted", "1/s", Less, "times that the backend's thread had to leave its CPU",
        of.worker.switches.map(|switches| of.ended.per_second(switches.involuntary as f64));
    "correct", "", More, "1 if every echo is the frame that was sent, byte for byte; 0 if not",
        f64::from(u8::from(of.correct));
}

const POLLS: &str = "polls";
const LOOKS: &str = "looks each ms";
const EVENTS: &str = "events";
const IN_EXIT: &str = "sends in the exit";

/// Between two looks of a loop that sleeps. The source does not say how long its loop did, or whether it slept.
const PAUSE: Nanos = Nanos(1_000_000);

const BACKENDS: [(&str, How, &str); 4] = [
    (POLLS, How::Polls, "a thread that looks and never sleeps"),
    (
        LOOKS,
        How::Looks(PAUSE),
        "a thread that sleeps 1 ms after a look at nothing",
    ),
    (EVENTS, How::Events, "a thread that events wake"),
    (
        IN_EXIT,
        How::Receives,
        "the vCPU's exit sends; a thread that the socket wakes receives",
    ),
];

struct Traffic {
    group: &'static str,
    think: Nanos,
    /// Frames under way, a power of 2.
    window: u32,
    /// Whether vCPU, backend and peer share one CPU.
    one_cpu: bool,
}

const fn traffic(group: &'static str, think_us: u64, window: u32, one_cpu: bool) -> Traffic {
    Traffic {
        group,
        think: Nanos(think_us * 1_000),
        window,
        one_cpu,
    }
}

const LOADS: [Traffic; 4] = [
    traffic("saturated", 0, net::MOST, false),
    traffic("peer 50 us away", 50, 1, false),
    traffic("peer 500 us away", 500, 1, false),
    traffic("saturated, one CPU", 0, net::MOST, true),
];

fn effects_of(load: &Traffic) -> Vec<Effect> {
    effects! {
        Claim "packets, events against polling", "packets", load.group, [POLLS, EVENTS], More, "10 to 40 times (scp)";
        Claim "packets, events against looks", "packets", load.group, [LOOKS, EVENTS], More, "10 to 40 times (scp)";
        // A thread that never sleeps uses all the CPU that it gets.
        Construction "CPU of the backend, against polling", "worker-cpu", load.group, [POLLS, EVENTS], Less,
            "does not poll";
    }
}

fn integrity_of(load: &Traffic) -> Integrity {
    let what = "every echo is the frame that was sent";
    Integrity::of(what, "correct", load.group, 1.0)
}

struct Exchanged {
    ended: Ended,
    device: Shared<NetDevice>,
    echoed: Echoed,
    worker: ThreadUse,
    window: u32,
    correct: bool,
}

impl Exchanged {
    fn each(&self, total: f64) -> f64 {
        total / f64::from(self.ended.rounds)
    }

    fn is_correct(&self) -> anyhow::Result<bool> {
        let memory = &self.ended.vm.memory;
        let whole = net::echoes_are_whole(memory, self.window)?;
        let device = self.device.lock();
        let (sent, received) = (device.transmitted, device.received);
        let nothing_lost = [sent, received].map(|frames| (frames.refused, frames.lost))
            == [(0, 0); 2]
            && (device.transport.refused, self.echoed.lost) == (0, 0);
        let rounds = u64::from(self.ended.rounds);
        let in_order = rounds <= received.done
            && received.done <= self.echoed.frames
            && self.echoed.frames <= sent.done
            && sent.done <= rounds + u64::from(self.window);
        Ok(whole && nothing_lost && in_order && memory.word(0, net::ERRORS)? == 0)
    }
}

/// Sends and receives for the trial's time, or so many rounds.
fn exchange(trial: &Trial<'_>, rounds: Option<u32>) -> anyhow::Result<Exchanged> {
    let (load, (_, how, _)) = cell(&LOADS, &BACKENDS, trial.variant);
    let machine = Machine::create("net", true, net::program(load.window))?;
    net::prepare(&machine.vm.memory, load.window)?;
    let (link, other_end) = Link::pair().context("create a pair of sockets")?;
    let link = Arc::new(link);
    let memory = machine.vm.memory.mapped().clone();
    let device = NetDevice::new(Arc::clone(&link), memory).context("make a queue")?;
    let interrupt = Arc::clone(&device.transport.interrupt);
    let device = Shared::new(device);
    let lines = Arc::clone(&machine.vm.lines[0]);
    let event = || Event::new().map(Arc::new).context("create an eventfd");
    let kicks = [event()?, event()?];
    machine.notify(RECEIVE, &kicks[RECEIVE])?;
    let sender = if *how == How::Receives {
        Sender::Exit(Arc::clone(&lines))
    } else {
        machine.notify(TRANSMIT, &kicks[TRANSMIT])?;
        Sender::Worker
    };
    let board = NetBoard {
        device: device.clone(),
        interrupt,
        kicks: kicks.clone(),
        sender,
    };
    let one = load.one_cpu.then(|| trial.vcpu_cpu());
    let peer = peer::start(other_end, load.think, one)?;
    let served = Served {
        device: device.clone(),
        link,
        kicks,
        lines,
    };
    let worker = worker::start(served, *how, one.or(trial.own_host_cpu()));
    let ended = worker.and_then(|worker| {
        let cpu = one.or(trial.own_vcpu_cpu());
        let ended = trial.run(machine.with(board), cpu, rounds);
        let used = worker.end();
        Ok((ended?, used?))
    });
    let echoed = peer.end();
    let (ended, worker) = ended?;
    let mut exchanged = Exchanged {
        ended,
        device,
        echoed: echoed?,
        worker,
        window: load.window,
        correct: false,
    };
    exchanged.correct = exchanged.is_correct()?;
    Ok(exchanged)
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let exchanged = exchange(trial, None)?;
    Ok(figures(Block::of([&exchanged.ended.counts]), &exchanged))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let of_load = |load: &Traffic| {
        let median = |name: &str, figure: &str| results.median(load.group, name, figure);
        let packets = median(EVENTS, "packets")?;
        Some(format!(
            "{}: events carry {:.2} times the packets of a loop that never sleeps, {:.2} times those of one that does; \
             the first used {:.0} us of a CPU for a packet and had to leave it {:.0} times a second, events used \
             {:.0} us in {:.2} wake-ups",
            load.group,
            packets / median(POLLS, "packets")?,
            packets / median(LOOKS, "packets")?,
            median(POLLS, "worker-cpu")?,
            median(POLLS, "preempted")?,
            median(EVENTS, "worker-cpu")?,
            median(EVENTS, "worker-waits")?,
        ))
    };
    let why = "a loop gains by being awake already, and loses where guest, peer or others want its CPU: they get it when \
         the scheduler takes it away, and a frame waits as long";
    let notes = LOADS.iter().filter_map(of_load);
    notes.chain([why.to_owned()]).collect()
}

#[cfg(test)]
mod test;
