//! Prediction against measurement: record a load under one setting, predict all others, run them.
//!
//! Goals: every load under every setting, interleaved and repeated; what was measured beside what a
//! replay of each other setting's capture had said, and how far apart they are, beside how far apart
//! repetitions are. Non-goals: judging the settings (see `tune`).
//!
//! Only the per-VM ceiling is varied: the module's parameters belong to the machine.

mod predict;
mod table;

use anyhow::{Context, Result};
use haltwise_core::workload::SplitMix64;

use self::predict::Predicted;
use super::cell::{self, Measured};
use super::kept::{Figures, Kept};
use super::loads::{LOADS, Load, SLEEPING};
use super::run::{Programs, bench};
use crate::say;

/// Options of the prediction benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repetitions of every load under every setting
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Rounds of the guest in each run
    #[arg(long, default_value_t = 2_000)]
    trips: u32,
    /// Only the loads whose name holds this
    #[arg(long)]
    only: Option<String>,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// Ceilings, as the lab and a policy both read them.
const SETTINGS: [&str; 6] = ["0", "20us", "50us", "100us", "200us", "500us"];

/// Everything measured and predicted of one load.
struct Cells<'a> {
    load: &'a Load,
    /// By setting, repetition by repetition.
    measured: Vec<Vec<Measured>>,
    /// By setting that was predicted: from every repetition of every other setting.
    predicted: Vec<Vec<Predicted>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "prediction",
            method: "Each load of the lab is recorded under each ceiling (KVM_CAP_HALT_POLL), in an \
                     order drawn anew in each round. `haltwise replay` then predicts from every \
                     capture what every other ceiling would have given (`kvm:cap=...`, with a \
                     calibration made in the same run), and that is compared with what the lab and \
                     KVM's own counters measured under that ceiling. A prediction of the round trip is \
                     the predicted wake-up latency on top of what the recorded round trips took \
                     beside theirs.",
            columns: &table::COLUMNS,
            figures: figures(programs, args)?,
        })
    })
}

fn figures(programs: &Programs, args: &Args) -> Result<Figures> {
    let folder = tempfile::tempdir().context("create a folder for the captures")?;
    let wanted = |load: &&Load| {
        args.only
            .as_ref()
            .is_none_or(|only| load.name.contains(only.as_str()))
    };
    let loads: Vec<&Load> = LOADS.iter().chain(SLEEPING).filter(wanted).collect();
    let calibration = cell::calibrate(programs, folder.path())?;
    let mut all: Vec<Cells<'_>> = loads
        .iter()
        .map(|load| Cells {
            load,
            measured: SETTINGS.iter().map(|_| Vec::new()).collect(),
            predicted: SETTINGS.iter().map(|_| Vec::new()).collect(),
        })
        .collect();
    let mut order = SplitMix64(u64::from(args.rounds));
    for round in 0..args.rounds {
        say::step(&format!("round {} of {}", round + 1, args.rounds));
        let mut cells: Vec<(u64, usize, usize)> = Vec::new();
        for load in 0..all.len() {
            cells.extend((0..SETTINGS.len()).map(|setting| (order.next_u64(), load, setting)));
        }
        cells.sort_unstable();
        for (_, load, setting) in cells {
            let cell = &mut all[load];
            let capture = folder.path().join(format!("{load}-{setting}-{round}"));
            let cap = Some(SETTINGS[setting]);
            let measured = cell::record(programs, cell.load, cap, args.trips, &capture)?;
            let predicted = predict::predict(programs, &capture, &measured, setting, &calibration)?;
            for (other, predicted) in predicted.into_iter().enumerate() {
                if other != setting {
                    cell.predicted[other].push(predicted);
                }
            }
            cell.measured[setting].push(measured);
            // A capture has said what it had to say.
            std::fs::remove_dir_all(&capture).context("remove a capture")?;
        }
    }
    Ok(table::figures(&all))
}
