//! What the pilot does to VMs of the lab, which can be given ceilings.
//!
//! [`published`] is the case that was published: two vCPUs woken each 125 us polled for all of their time. [`phases`]
//! are four VMs whose loads change, under the kernel's default, under static ceilings, and under the pilot, and [`held`] each
//! of these phases as the pilot left it. [`stable`] is
//! what it chooses for each load while nothing changes, against these ceilings. [`neighbours`] is what polling does to a VM
//! beside it. [`own`] is what it takes itself beside fifty vCPUs.

mod drawn;
mod held;
mod neighbours;
mod own;
mod parts;
mod phases;
mod published;
mod stable;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::kept::{Figures, Kept};
use super::run::{Programs, bench};
use crate::say;

/// Options of this benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of the published case
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of the published case
    #[arg(long, default_value_t = 75)]
    seconds: u64,
    /// Seconds of each of six phases under the pilot; 0 leaves the phases out
    #[arg(long, default_value_t = 200)]
    phase: u64,
    /// Seconds of each phase under a static setting, which needs no time to decide
    #[arg(long, default_value_t = 15)]
    static_phase: u64,
    /// Rounds in which each phase is measured as the pilot left it, against the ceiling found
    #[arg(long, default_value_t = 12)]
    held_rounds: u32,
    /// Goals for which the phases are run [default: all]
    #[arg(long, value_delimiter = ',', value_parser = parts::GOALS.map(|(goal, _)| goal))]
    goals: Vec<String>,
    /// Seconds in which the pilot decides for each load and goal while nothing changes; 0 leaves that out
    #[arg(long, default_value_t = 75)]
    stable: u64,
    /// Rounds in which what it chose is measured against other ceilings
    #[arg(long, default_value_t = 16)]
    stable_rounds: u32,
    /// Rounds in which a VM is measured beside two others that poll, and that do not
    #[arg(long, default_value_t = 0)]
    neighbours: u32,
    /// Seconds for which its own cost is measured beside 25 VMs of two vCPUs; 0 leaves that out
    #[arg(long, default_value_t = 0)]
    own: u64,
    /// Between two halts of each of their vCPUs; without it these are rings of vCPUs that wake each other as fast as they can
    #[arg(long)]
    own_gap: Option<String>,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

const COLUMNS: [&str; 6] = ["part", "arm", "round", "vm", "figure", "value"];

/// A child that ends with this.
struct Ends(Child);

impl Ends {
    /// Starts it so that it ends also when the benchmark is killed.
    fn start(command: &Command) -> Result<Self> {
        let mut bound = Command::new("setpriv");
        bound
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        let child = bound.stdout(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("start {command:?}"))?))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // One that has ended has nothing to be killed.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// What a block costs here, as `haltwise calibrate` measures it.
struct Calibrated {
    path: PathBuf,
    switch_cpu_ns: f64,
}

impl Calibrated {
    fn new(programs: &Programs, folder: &Path) -> Result<Self> {
        let path = folder.join("calibration.json");
        let output = Command::new(&programs.haltwise)
            .args(["calibrate", "--json"])
            .output()?;
        std::fs::write(&path, &output.stdout)?;
        let told: Value = serde_json::from_slice(&output.stdout).context("read the calibration")?;
        let switch = told["switch_cpu_ns"]["median"].as_f64();
        Ok(Self {
            path,
            switch_cpu_ns: switch.context("the CPU time of a block could not be measured here")?,
        })
    }

    /// A pilot that may act, with this calibration; it prints its state at the end.
    fn pilot(&self, programs: &Programs, vm: &str, goal: &str) -> Command {
        let mut pilot = Command::new(&programs.haltwise);
        pilot
            .args(["pilot", "--act", "--json", "--vm", vm, "--goal", goal])
            .arg("--calibration")
            .arg(&self.path)
            .stdout(Stdio::piped());
        pilot
    }
}

/// The state of earlier runs of the pilot, which is put aside for as long as this lasts.
struct StateAside(Option<PathBuf>);

const STATE: &str = "/var/lib/haltwise/pilot.json";

impl StateAside {
    fn new() -> Result<Self> {
        let aside = PathBuf::from(format!("{STATE}.aside"));
        if aside.exists() {
            // A benchmark that was killed left it there; what lies in its place is the benchmark's own.
            return Ok(Self(Some(aside)));
        }
        if !Path::new(STATE).exists() {
            return Ok(Self(None));
        }
        std::fs::rename(STATE, &aside).context("put the pilot's state aside")?;
        Ok(Self(Some(aside)))
    }
}

impl Drop for StateAside {
    fn drop(&mut self) {
        // Without one there is nothing to restore, and none to remove where the pilot did not run.
        let _restored = match &self.0 {
            Some(aside) => std::fs::rename(aside, STATE),
            None => std::fs::remove_file(STATE),
        };
    }
}

/// One row of raw figures.
fn row(part: &str, arm: &str, round: usize, vm: &str, figure: &str, value: f64) -> Vec<String> {
    let round = round.to_string();
    let value = format!("{value:.3}");
    [part, arm, &round, vm, figure, &value]
        .map(str::to_owned)
        .to_vec()
}

/// What `haltwise status` says of the pilot.
fn status(programs: &Programs) -> Result<Value> {
    let said = Command::new(&programs.haltwise)
        .args(["status", "--json"])
        .output()?;
    let status: Value = serde_json::from_slice(&said.stdout).context("read the status")?;
    Ok(status["pilot"].clone())
}

/// How many other tasks want the CPUs, as the kernel has it.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_ascii_whitespace().next();
    first
        .and_then(|number| number.parse().ok())
        .unwrap_or(f64::NAN)
}

fn wait(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        let folder = tempfile::tempdir().context("create a folder for the captures")?;
        let _aside = StateAside::new()?;
        say::step("calibrate");
        let calibrated = Calibrated::new(programs, folder.path())?;
        let mut figures = Figures::new(format!(
            "a block costs {:.0} ns; load average at the start {:.1}: whatever else runs takes the CPUs on which VMs \
             would poll\n",
            calibrated.switch_cpu_ns,
            load_average()
        ));
        if args.own > 0 {
            own::measure(programs, args, &mut figures)?;
        }
        published::measure(programs, args, &calibrated, &mut figures)?;
        if args.stable > 0 {
            stable::measure(programs, args, &calibrated, folder.path(), &mut figures)?;
        }
        if args.neighbours > 0 {
            neighbours::measure(programs, args, folder.path(), &mut figures)?;
        }
        if args.phase > 0 {
            phases::measure(programs, args, &calibrated, folder.path(), &mut figures)?;
        }
        Ok(Kept {
            name: "pilot",
            method: "The pilot on VMs of the lab. Published: two vCPUs that are woken each 125 us +-10 %, under the \
                     default ceiling, goal density: CPU time of the VM and polling before the pilot acts and in the \
                     last 12 s, and what it predicted and measured. Stable: each load of the phases for itself; what the \
                     pilot chose, against the ceiling found, and against the best of a sweep in rounds that did not \
                     choose that, second by second in a drawn order: difference of the cost of a halt (median of Walsh averages, 95 %). Phases: four VMs with phases \
                     (idle, ticking, request and response at 15, 50 and 150 us, bulk), each shifted by one; what their \
                     halts cost in a second (for as many halts as under the default), by each goal, under the default, under static ceilings, and under the pilot; \
                     from the static ones the best for all, and the best for each VM; the oracle runs each VM in each phase \
                     under the static ceiling that was best for it there. As they were left: each phase under what was \
                     found, what the pilot had come to at its end, and the oracle's ceilings, second by second in a \
                     drawn order. Neighbours: mean wake-up latency of a VM that \
                     ticks, while two others poll and while they do not, second by second in a drawn order. Own: \
                     what the pilot takes while it observes 25 VMs of two vCPUs, minute by minute. The pilot begins \
                     without the state of an earlier run.",
            columns: &COLUMNS,
            figures,
        })
    })
}
