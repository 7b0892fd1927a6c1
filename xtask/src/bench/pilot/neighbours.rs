//! What polling does to the VMs beside it: how late one that ticks wakes up, while two others poll and while they do not.

use std::path::Path;

use anyhow::Result;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::drawn::{Drawn, against, median};
use super::parts::Parts;
use super::{Args, row, stable};
use crate::say;

const TICKING: &str = "ticking";
const BESIDE: [&str; 2] = ["beside-0", "beside-1"];

/// Off, and KVM's default on x86.
const CEILINGS_NS: [u64; 2] = [0, 200_000];

pub(super) fn measure(
    programs: &Programs,
    args: &Args,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    say::step("neighbours");
    let _ticking = stable::start(programs, TICKING, "4ms")?;
    let _beside = [
        stable::start(programs, BESIDE[0], "50us")?,
        stable::start(programs, BESIDE[1], "50us")?,
    ];
    super::wait(2);
    let rounds = args.neighbours;
    let settings = Drawn::under(&CEILINGS_NS, &BESIDE);
    let drawn = Drawn::new(programs, folder, rounds, &settings, &[TICKING.to_owned()])?;
    let [off, on] = [0, 1].map(|at| drawn.figures(at, &Parts::latency_of_a_sleep_ns));
    for (ns, values) in CEILINGS_NS.iter().zip([&off, &on]) {
        for (number, value) in values.iter().enumerate() {
            let (arm, figure) = (format!("ceiling {ns}"), "wake_latency_mean_ns");
            let row = row("neighbours", &arm, number, TICKING, figure, *value);
            figures.rows.push(row);
        }
    }
    let line = format!(
        "neighbours: a VM that ticks wakes up {:.1} us late while two that are woken each 50 us poll, {:.1} us while they \
         do not (medians of {rounds} s each; {})\n",
        median(on.clone()) / 1e3,
        median(off.clone()) / 1e3,
        against(&off, &on),
    );
    figures.summary.push_str(&line);
    Ok(())
}
