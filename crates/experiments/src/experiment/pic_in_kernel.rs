//! `pic-in-kernel`: the interrupt controllers emulated in the VMM against in the kernel.
//!
//! The source moved the 8259s of Xen's guests from a user process into the hypervisor. Here a device in the
//! VMM raises its line at a guest's demand, and the guest handles the interrupt as Linux does: reads
//! the mask, masks, ends, unmasks, which is four accesses to the controllers. In one variant the pair is
//! [`crate::device::pic`], and each access an exit; in the other it is KVM's. The device's own exit is in both.

use super::rows::{cell, cells};
use super::{Block, Conclusion, Effect, Experiment, Results, Source, Trial, Variant};
use crate::device::board::{KernelBoard, UserBoard};
use crate::device::machine::{Ended, Machine};
use crate::guest::pic_driver;
use haltwise_lab::memory::param;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pic-in-kernel",
    title: "the interrupt controllers in the kernel, against in the VMM",
    source: Source {
        document: "Intel Technology Journal 10(3), 2006: tuning VT-x guests on Xen",
        reports: &[
            "PIC ports emulated in the hypervisor instead of a user process: kernel build +14 %, CPU2000 +7 %",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants: || {
        cells(&LOADS, &PLACES, |(group, work), (place, whose)| {
            let what = format!("{work} turns of work after each interrupt; {whose} 8259s");
            Variant::new(*group, *place, what)
        })
    },
    effects,
    integrity: Vec::new,
    limits: &[],
    on_your_host: "the findings `tick-storm` and `apic-writes` say what exits for emulated timers and interrupt \
                   controllers cost, with the settings that spare them",
    differs: "the gain is what a guest's interrupts are of its work: the source's loads compute far more \
              between two interrupts than this guest, and its user process is another \
              domain's, so that an exit costs a switch of domains as well",
    run: run_one,
    conclude,
};

figures! { ended: Ended;
    "interrupts", "1/s", More, "interrupts handled, work included", ended.per_second(ended.interrupts.into());
    "time", "us", Less, "time of an interrupt, with its work", each(ended, ended.elapsed_us());
    "exits", "", Less, "exits to the VMM for each interrupt", each(ended, ended.exits_to_vmm() as f64);
    "cpu", "us", Less, "CPU of the vCPU thread for each interrupt", each(ended, ended.cpu_us());
    "switches", "", Less, "voluntary context switches for each interrupt", each(ended, ended.switches());
}

fn each(ended: &Ended, total: f64) -> f64 {
    total / f64::from(ended.interrupts)
}

fn effects() -> Vec<Effect> {
    let both = [IN_VMM, IN_KERNEL];
    let of_load = |(group, reported): (&'static str, &'static str)| {
        effects! {
            Claim "interrupts, in the kernel against in the VMM", "interrupts", group, both, More, reported;
            Claim "CPU of an interrupt and its work", "cpu", group, both, Less, reported;
            Construction "exits for each interrupt", "exits", group, both, Less, "none of the PIC's";
        }
    };
    let loads = [(BARE, "faster"), (WORK, "+7 %, +14 %")];
    loads.into_iter().flat_map(of_load).collect()
}

const BARE: &str = "interrupts alone";
const WORK: &str = "interrupts and work";
const IN_VMM: &str = "in the VMM";
const IN_KERNEL: &str = "in the kernel";

/// Loads: name, turns of an empty loop after each interrupt.
const LOADS: [(&str, u32); 2] = [(BARE, 0), (WORK, 500)];
const PLACES: [(&str, &str); 2] = [(IN_VMM, "the VMM's"), (IN_KERNEL, "KVM's")];

/// Handles interrupts for the trial's time, or so many.
fn handle(trial: &Trial<'_>, rounds: Option<u32>) -> anyhow::Result<Ended> {
    let ((_, work), (place, _)) = cell(&LOADS, &PLACES, trial.variant);
    let in_kernel = *place == IN_KERNEL;
    let machine = Machine::create("pic-driver", in_kernel, pic_driver::program())?;
    machine.vm.memory.set_word(0, param::PERIOD, *work)?;
    let machine = if in_kernel {
        let board = KernelBoard::new(&machine.vm)?;
        machine.with(board)
    } else {
        machine.with(UserBoard::default())
    };
    trial.run(machine, trial.own_vcpu_cpu(), rounds)
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let ended = handle(trial, None)?;
    Ok(figures(Block::of([&ended.counts]), &ended))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let of_load = |(group, work): &(&str, u32)| {
        let fewer = |figure| {
            let median = |name| results.median(group, name, figure);
            Some(median(IN_VMM)? - median(IN_KERNEL)?)
        };
        let exits = fewer("exits").filter(|exits| *exits > 0.0)?;
        let each = fewer("cpu")? / exits;
        Some(format!(
            "{work} turns of work: {exits:.1} exits fewer for each interrupt, {each:.1} us of CPU spared by each"
        ))
    };
    LOADS.iter().filter_map(of_load).collect()
}

#[cfg(test)]
mod test;
