//! `shared-framebuffer`: video memory as memory shared with the device model, instead of an exit per write.
//!
//! The source moved the VGA window of Xen's guests from emulated accesses to pages that guest and device
//! model share. Here one guest draws into the window at 0xA0000 as fast as it can. In one variant nothing
//! backs the window, so that each write is an exit that draws one word of the screen; in the other
//! it is memory whose dirty pages the host copies 60 times a second ([`crate::device::framebuffer`]). At
//! the end of every run the screen is held, byte for byte, against what so many rounds leave.

use haltwise_core::units::Nanos;

use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial};
use crate::device::Shared;
use crate::device::framebuffer::{self, ExitPerWrite, Screen};
use crate::device::machine::{Ended, Machine};
use crate::guest::paint;
use haltwise_lab::clock;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shared-framebuffer",
    title: "video memory shared with the device model, against an exit for each write",
    source: Source {
        document: "Intel Technology Journal 10(3), 2006: tuning VT-x guests on Xen",
        reports: &[
            "video memory as pages shared with the device model: 5 to 1000 times faster than one exit \
             per write",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants: || {
        variants! {
            GROUP, EXITS, "nothing backs the window; the VMM draws each write";
            GROUP, SHARED, "the window is memory; the VMM copies its dirty pages at 60 Hz";
        }
    },
    effects,
    integrity: || {
        vec![Integrity::of(
            "the screen is what the guest drew",
            "identical",
            GROUP,
            1.0,
        )]
    },
    limits: &[],
    on_your_host: "the finding `emulated-framebuffer` says what video memory costs that is written access by access",
    differs: "this guest does nothing but draw, so the whole cost of an exit shows; the source's \
              smaller factors are of programs that also compute what they draw",
    run: run_one,
    conclude,
};

figures! { of: Drawn;
    "writes", "1/s", More, "words drawn", of.ended.per_second(of.writes());
    "exits", "", Less, "exits to the VMM for each write", of.ended.exits_to_vmm() as f64 / of.writes();
    "cpu", "ns", Less, "CPU of the vCPU thread for each write", of.ended.counts.cpu_ns as f64 / of.writes();
    "scans", "1/s", Neither, "looks at the dirty log", of.ended.per_second(of.scans.looks as f64);
    "pages", "", Neither, "pages copied by a scan", of.scans.each(of.scans.pages);
    "scan-cpu", "us", Less, "CPU of a scan", of.scans.each(of.scans.cpu_ns) / 1e3;
    "switches", "1/s", Less, "voluntary context switches of the vCPU thread",
        of.ended.per_second(of.ended.switches());
    "identical", "", More, "1 if the screen is what the guest drew, byte for byte; 0 if not",
        f64::from(u8::from(of.is_identical()));
}

fn effects() -> Vec<Effect> {
    effects! {
        Claim "writes, shared against an exit each", "writes", GROUP, [EXITS, SHARED], More, "5 to 1000 times";
        Construction "exits for each write", "exits", GROUP, [EXITS, SHARED], Less, "1 -> 0";
    }
}

const GROUP: &str = "VGA window";
const EXITS: &str = "exit per write";
const SHARED: &str = "shared";

/// From one refresh of a screen to the next: 60 Hz.
const REFRESH: Nanos = Nanos(16_666_667);

/// CPU of four instructions, above which they do not run on the CPU itself: a hundred times what they take there.
const INTERPRETED_NS: f64 = 200.0;

#[derive(Debug, Default)]
struct Scans {
    looks: u64,
    pages: u64,
    cpu_ns: u64,
}

impl Scans {
    fn scan(&mut self, running: &haltwise_lab::vm::Vm, screen: &mut Screen) -> anyhow::Result<()> {
        let before_ns = clock::thread_cpu_ns();
        self.pages += framebuffer::scan(running, screen)?;
        self.cpu_ns += clock::thread_cpu_ns().saturating_sub(before_ns);
        self.looks += 1;
        Ok(())
    }

    fn each(&self, total: u64) -> f64 {
        total as f64 / self.looks as f64
    }
}

/// One run: what is left of the VM, its screen, and what scanning took.
#[derive(Debug)]
struct Drawn {
    ended: Ended,
    screen: Screen,
    scans: Scans,
}

impl Drawn {
    fn writes(&self) -> f64 {
        f64::from(self.ended.rounds) * f64::from(paint::WRITES)
    }

    fn is_identical(&self) -> bool {
        self.screen.refused == 0 && self.screen.pixels == paint::picture(self.ended.rounds)
    }
}

/// Draws for the trial's time, or for so many rounds.
fn draw(trial: &Trial<'_>, rounds: Option<u32>) -> anyhow::Result<Drawn> {
    let machine = Machine::create("framebuffer", true, paint::program())?;
    let cpu = trial.own_vcpu_cpu();
    if trial.variant == 0 {
        framebuffer::back_window(&machine.vm, false)?;
        let screen = Shared::new(Screen::default());
        let machine = machine.with(ExitPerWrite(screen.clone()));
        let ended = trial.run(machine, cpu, rounds)?;
        let screen = screen.lock().clone();
        let scans = Scans::default();
        return Ok(Drawn {
            ended,
            screen,
            scans,
        });
    }
    framebuffer::back_window(&machine.vm, true)?;
    let (mut screen, mut scans) = (Screen::default(), Scans::default());
    let running = machine.start(cpu, rounds)?;
    let until_ns = running.start_ns.saturating_add(trial.length.0);
    let mut next_ns = running.start_ns;
    while next_ns < until_ns {
        next_ns = next_ns.saturating_add(REFRESH.0).min(until_ns);
        if !running.wait_until(next_ns, trial.interrupt)? {
            break;
        }
        scans.scan(&running.vm, &mut screen)?;
    }
    let ended = running.end()?;
    scans.scan(&ended.vm, &mut screen)?;
    Ok(Drawn {
        ended,
        screen,
        scans,
    })
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let drawn = draw(trial, None)?;
    Ok(figures(Block::of([&drawn.ended.counts]), &drawn))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let median = |name: &str, figure: &str| results.median(GROUP, name, figure);
    let cpu = median(SHARED, "cpu").filter(|cpu| *cpu > INTERPRETED_NS);
    let interpreted = cpu.map(|cpu| {
        format!(
            "a write to memory takes {cpu:.0} ns of CPU: this host's KVM interprets real-mode code, \
             instruction by instruction, which takes from the factor"
        )
    });
    let share = || Some(median(SHARED, "scan-cpu")? * median(SHARED, "scans")? / 1e4);
    let scanning = share().map(|share| format!("scanning costs {share:.2} % of a CPU"));
    let notes = [interpreted, scanning];
    notes.into_iter().flatten().collect()
}

#[cfg(test)]
mod test;
