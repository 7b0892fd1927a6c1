//! What the pilot came to in each phase, and the oracle, against the ceiling found, second by second in a drawn order: runs
//! that follow one another differ by more than what is asked.

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::kept::Figures;
use super::Calibrated;
use super::drawn::{Drawn, Setting, against};
use super::parts::Parts;
use super::phases::{Arm, BUSY, LOADS, VMS, load, name};
use super::row;
use crate::say;

/// The settings that are compared, in this order.
const SETTINGS: [&str; 3] = ["found", "pilot", "oracle"];

/// Ceilings of all VMs in one phase, in nanoseconds.
pub(super) type Ceilings = [u64; VMS];

/// What the pilot had found and come to at the end of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct CameTo {
    pub(super) found_ns: Ceilings,
    pub(super) pilot_ns: Ceilings,
}

impl CameTo {
    /// From what `haltwise status` says of the pilot. Of a VM that is on trial nothing has been kept.
    pub(super) fn read(pilot: &Value) -> Result<Self> {
        let vms = pilot["vms"].as_array().context("the pilot lists VMs")?;
        let mut all = Self {
            found_ns: [0; VMS],
            pilot_ns: [0; VMS],
        };
        for vm in 0..VMS {
            let of = vms.iter().find(|of| of["vm"] == name(vm).as_str());
            let of = of.with_context(|| format!("the pilot saw {}", name(vm)))?;
            let ns = |field: &str| of[field].as_u64().context("a ceiling is known");
            all.found_ns[vm] = ns("found_ns")?;
            let is_on_trial = of["state"] == "trial";
            all.pilot_ns[vm] = if is_on_trial {
                ns("found_ns")
            } else {
                ns("ceiling_ns")
            }?;
        }
        Ok(all)
    }

    /// Ceilings of which those that are absent are what was found.
    pub(super) fn under(&self, ceilings: &[Option<u64>; VMS]) -> Ceilings {
        std::array::from_fn(|vm| ceilings[vm].unwrap_or(self.found_ns[vm]))
    }
}

/// What a load costs under each setting, round by round.
type OfLoad = [Vec<f64>; SETTINGS.len()];

/// Measures each phase under what was found, what the pilot came to, and the oracle's ceilings.
pub(super) fn measure(
    arm: &Arm<'_>,
    (goal, weight): (&str, f64),
    came_to: &[CameTo],
    oracle: &[Ceilings],
    figures: &mut Figures,
) -> Result<()> {
    let rounds = arm.rounds;
    let mut all: [OfLoad; LOADS.len()] = Default::default();
    for (slice, (came_to, oracle_ns)) in came_to.iter().zip(oracle).enumerate() {
        say::step(&format!("phase {slice} as it was left, goal {goal}"));
        let ceilings = [came_to.found_ns, came_to.pilot_ns, *oracle_ns];
        let mut different = ceilings.to_vec();
        different.sort_unstable();
        different.dedup();
        let setting = |ns: &Ceilings| (0..VMS).map(name).zip(*ns).collect();
        let settings: Vec<Setting> = different.iter().map(setting).collect();
        let start = |vm| arm.vm(vm, &[load(slice, vm)], None);
        let vms = (0..VMS).map(start).collect::<Result<Vec<_>>>()?;
        super::wait(2);
        let names: Vec<String> = (0..VMS).map(name).collect();
        let drawn = Drawn::new(arm.programs, arm.folder, rounds, &settings, &names)?;
        drop(vms);
        for (round, under) in drawn.rounds.iter().enumerate() {
            let of = |ns: &Ceilings| different.binary_search(ns).map_or(&[][..], |at| &under[at]);
            let under = ceilings.each_ref().map(of);
            for vm in 0..VMS {
                let costs = cost(under, vm, arm.calibrated, weight);
                for (setting, cost) in SETTINGS.iter().zip(costs) {
                    let arm = format!("{goal} {setting} in phase {slice}");
                    let figure = "held_cost_ns_per_s";
                    figures
                        .rows
                        .push(row("phases", &arm, round, &name(vm), figure, cost));
                }
                for (sums, cost) in all[(slice + vm) % LOADS.len()].iter_mut().zip(costs) {
                    sums.resize(sums.len().max(round + 1), 0.0);
                    sums[round] += cost;
                }
            }
        }
    }
    tell(&all, figures);
    Ok(())
}

/// What as many halts of a VM cost in a second as there were under the ceiling found, setting by setting.
fn cost(
    under: [&[Parts]; SETTINGS.len()],
    vm: usize,
    calibrated: &Calibrated,
    weight: f64,
) -> [f64; SETTINGS.len()] {
    let found = under[0][vm];
    let mut costs = [0.0; SETTINGS.len()];
    for (to, parts) in costs.iter_mut().zip(under) {
        let of = &parts[vm];
        let cost_ns = of.cost_ns(calibrated.switch_cpu_ns, weight);
        *to = cost_ns / of.halts.max(1.0) * found.halts / found.seconds;
    }
    costs
}

fn tell(all: &[OfLoad; LOADS.len()], figures: &mut Figures) {
    figures.summary.push_str(
        "phases: as they were left, against the ceiling found: pilot, oracle (medians of Walsh averages, 95 %)\n",
    );
    let mut line = |name: &str, [found, pilot, oracle]: &OfLoad| {
        let [pilot, oracle] = [pilot, oracle].map(|of| against(of, found));
        let line = format!("phases: {name:<9} {pilot:<29} {oracle}\n");
        figures.summary.push_str(&line);
    };
    let mut sums = OfLoad::default();
    for ((name, _), of) in LOADS.iter().zip(all) {
        if *name == BUSY {
            continue;
        }
        line(name, of);
        for (sums, of) in sums.iter_mut().zip(of) {
            sums.resize(sums.len().max(of.len()), 0.0);
            for (sum, cost) in sums.iter_mut().zip(of) {
                *sum += cost;
            }
        }
    }
    line("all", &sums);
}
