//! `event-nic`: a network backend that looks in a loop, against one that events wake.
//!
//! The source had the NIC of Xen's device model woken by events instead of polling, and measured a copy over the
//! network. Here a guest streams frames of 1514 bytes through a virtio network device to a peer behind a pair of
//! sockets, which sends each back; every echo is checked and answered by the next frame. As there, backend, guest and
//! peer share a CPU. The backend is a thread that looks at queues and socket again and again; one that sleeps some
//! milliseconds between two looks, for a "polling loop" may be either; or one that an eventfd of the guest's
//! notification or the socket wakes. At the end every buffer is held against the echo that must lie in it.

mod peer;
mod worker;

use std::sync::Arc;

use anyhow::Context as _;
use haltwise_core::units::Nanos;

use self::peer::Echoed;
use self::worker::{How, Served};
use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial, Variant};
use crate::device::Shared;
use crate::device::machine::{Ended, Machine};
use crate::device::net::{Link, NetBoard, NetDevice, RECEIVE, TRANSMIT};
use crate::guest::net;
use haltwise_lab::clock::ThreadUse;
use haltwise_lab::event::Event;

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
        let variants = BACKENDS.iter();
        let variants = variants.map(|(name, _, what)| Variant::new(GROUP, *name, *what));
        variants.collect()
    },
    effects,
    integrity: || {
        vec![Integrity::of(
            "every echo is the frame that was sent",
            "correct",
            GROUP,
            1.0,
        )]
    },
    limits: &[
        "the source does not say whether its loop slept, or for how long: a loop that never does, and pauses of 4 and \
         10 ms, a tick of its time's kernels at 250 and at 100 Hz",
        "a loop that never sleeps is behind events only where it shares its CPU, as the source's device model did; with \
         a CPU of its own it is awake already, and may be ahead",
    ],
    on_your_host: "the finding `vmm-threads` names threads of a VMM that poll while the guest rests",
    differs: "guest, device model and peer do nothing but carry frames, and what this guest itself needs for a packet bounds \
              every factor",
    run: run_one,
    conclude,
};

figures! { of: Exchanged;
    "packets", "1/s", More, "frames sent, echoed and checked", of.ended.per_second(of.ended.rounds.into());
    "trip", "us", Less, "from a frame to its echo", f64::from(net::MOST) * of.each(of.ended.elapsed_us());
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

const GROUP: &str = "a stream, one CPU";
const POLLS: &str = "polls";
const LOOKS_4: &str = "looks every 4 ms";
const LOOKS_10: &str = "looks every 10 ms";
const EVENTS: &str = "events";

const BACKENDS: [(&str, How, &str); 4] = [
    (POLLS, How::Polls, "a thread that looks and never sleeps"),
    (
        LOOKS_4,
        How::Looks(Nanos(4_000_000)),
        "a thread that sleeps 4 ms after a look at nothing",
    ),
    (
        LOOKS_10,
        How::Looks(Nanos(10_000_000)),
        "a thread that sleeps 10 ms after a look at nothing",
    ),
    (EVENTS, How::Events, "a thread that events wake"),
];

fn effects() -> Vec<Effect> {
    let packets = |from: &'static str| {
        let what = format!("packets, events against a loop that {from}");
        effects! { Claim what, "packets", GROUP, [from, EVENTS], More, "10 to 40 times (scp)"; }
    };
    let mut effects: Vec<Effect> = [POLLS, LOOKS_4, LOOKS_10]
        .into_iter()
        .flat_map(packets)
        .collect();
    effects.extend(effects! {
        // A thread that never sleeps uses all the CPU that it gets.
        Construction "CPU of the backend, events against a loop that polls", "worker-cpu", GROUP, [POLLS, EVENTS], Less,
            "does not poll";
    });
    effects
}

struct Exchanged {
    ended: Ended,
    device: Shared<NetDevice>,
    echoed: Echoed,
    worker: ThreadUse,
    correct: bool,
}

impl Exchanged {
    fn each(&self, total: f64) -> f64 {
        total / f64::from(self.ended.rounds)
    }

    fn is_correct(&self) -> anyhow::Result<bool> {
        let memory = &self.ended.vm.memory;
        let whole = net::echoes_are_whole(memory, net::MOST)?;
        let device = self.device.lock();
        let (sent, received) = (device.transmitted, device.received);
        let nothing_lost = [sent, received].map(|frames| (frames.refused, frames.lost))
            == [(0, 0); 2]
            && (device.transport.refused, self.echoed.lost) == (0, 0);
        let rounds = u64::from(self.ended.rounds);
        let in_order = rounds <= received.done
            && received.done <= self.echoed.frames
            && self.echoed.frames <= sent.done
            && sent.done <= rounds + u64::from(net::MOST);
        Ok(whole && nothing_lost && in_order && memory.word(0, net::ERRORS)? == 0)
    }
}

/// Sends and receives for the trial's time, or so many rounds.
fn exchange(trial: &Trial<'_>, rounds: Option<u32>) -> anyhow::Result<Exchanged> {
    let (_, how, _) = BACKENDS[trial.variant];
    let machine = Machine::create("net", true, net::program(net::MOST))?;
    net::prepare(&machine.vm.memory, net::MOST)?;
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
    machine.notify(TRANSMIT, &kicks[TRANSMIT])?;
    let board = NetBoard {
        device: device.clone(),
        interrupt,
        kicks: kicks.clone(),
    };
    let cpu = trial.vcpu_cpu();
    let peer = peer::start(other_end, cpu)?;
    let served = Served {
        device: device.clone(),
        link,
        kicks,
        lines,
    };
    let worker = worker::start(served, how, cpu);
    let ended = worker.and_then(|worker| {
        let ended = trial.run(machine.with(board), Some(cpu), rounds);
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
    let median = |name: &str, figure: &str| results.median(GROUP, name, figure);
    let packets = || {
        let packets = median(EVENTS, "packets")?;
        Some(format!(
            "events carry {:.2} times the packets of a loop that never sleeps, {:.1} and {:.1} times those of one that \
             sleeps 4 and 10 ms; the first used {:.0} us of a CPU for a packet and had to leave it {:.0} times a second, \
             events used {:.0} us in {:.2} wake-ups",
            packets / median(POLLS, "packets")?,
            packets / median(LOOKS_4, "packets")?,
            packets / median(LOOKS_10, "packets")?,
            median(POLLS, "worker-cpu")?,
            median(POLLS, "preempted")?,
            median(EVENTS, "worker-cpu")?,
            median(EVENTS, "worker-waits")?,
        ))
    };
    packets().into_iter().collect()
}

#[cfg(test)]
mod test;
