//! What `libhaltwise_preload.so` costs on the way of `KVM_RUN`: CPU time of a round trip through the guest with the
//! library and without, by a VMM that does nothing else (`crates/governor/examples/small_vmm.rs`).
//!
//! Each round starts that VMM four times on one CPU: without, with, with, without; the second pair turns drifts
//! round. Each half of a round gives a ratio, and a ratio of two VMMs without the library says what noise gives.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haltwise_core::stats::median_estimate;

use super::kept::{Figures, Kept};
use super::run::obstacle;
use crate::{repo, say, tool};

/// Options of this benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of four runs
    #[arg(long, default_value_t = 101)]
    rounds: u32,
    /// Round trips in each run
    #[arg(long, default_value_t = 20_000)]
    trips: u32,
    /// The CPU on which all run
    #[arg(long, default_value_t = 1)]
    pin: u32,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

struct Programs {
    vmm: PathBuf,
    library: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        say::step("build the library and the VMM for release");
        let root = repo::root();
        let release = ["build", "--release", "--quiet", "-p"];
        let preload = ["haltwise-preload"];
        tool::run(tool::cargo(&root).args(release).args(preload))?;
        let vmm = ["haltwise-governor", "--example", "small_vmm"];
        tool::run(tool::cargo(&root).args(release).args(vmm))?;
        let built = repo::target_dir().join("release");
        Ok(Self {
            vmm: built.join("examples/small_vmm"),
            library: built.join("libhaltwise_preload.so"),
        })
    }

    /// CPU time of a round trip, in nanoseconds.
    fn trip_ns(&self, args: &Args, library: Option<&Path>) -> Result<f64> {
        let line = "echo trips $1 | exec taskset -c $2 env LD_PRELOAD=$3 $4";
        let library = library.unwrap_or(Path::new(""));
        let (trips, pin) = (args.trips.to_string(), args.pin.to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", line, "sh", &trips, &pin]);
        let said = tool::ask(shell.arg(library).arg(&self.vmm))?;
        let total: f64 = said.lines().last().unwrap_or_default().parse()?;
        Ok(total / f64::from(args.trips))
    }
}

/// One round: times without, with, with, without.
struct Round([f64; 4]);

impl Round {
    /// With against without, in both halves.
    fn ratios(&self) -> [f64; 2] {
        let [a, b, c, d] = self.0;
        [b / a, c / d]
    }

    /// The same of nothing against nothing.
    fn control(&self) -> f64 {
        self.0[3] / self.0[0]
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(reason) = obstacle() {
        say::skipped(reason);
        return Ok(());
    }
    let programs = Programs::build()?;
    say::step(&format!("{} rounds", args.rounds));
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let mut times = [0.0; 4];
        for (place, has_library) in times.iter_mut().zip([false, true, true, false]) {
            let library = has_library.then_some(programs.library.as_path());
            *place = programs.trip_ns(args, library)?;
        }
        rounds.push(Round(times));
    }
    let kept = kept(&rounds)?;
    for line in kept.figures.summary.lines() {
        say::note(line);
    }
    if !args.discard {
        kept.write()?;
    }
    Ok(())
}

fn kept(rounds: &[Round]) -> Result<Kept<'static>> {
    let times = |at: [usize; 2]| rounds.iter().flat_map(move |it| at.map(|at| it.0[at]));
    let mut summary = String::new();
    let mut line = |what: &str, samples: Vec<f64>, digits: usize| -> Result<()> {
        let of = median_estimate(&samples).context("no round was run")?;
        let (median, low, high) = (of.median, of.low, of.high);
        // Writing to a String cannot fail.
        let _ = writeln!(
            summary,
            "{what:<26} {median:>9.digits$}  95 % {low:.digits$} to {high:.digits$}"
        );
        Ok(())
    };
    line("without, ns", times([0, 3]).collect(), 1)?;
    line("with, ns", times([1, 2]).collect(), 1)?;
    let ratios = rounds.iter().flat_map(Round::ratios).collect();
    line("with / without", ratios, 4)?;
    let control = rounds.iter().map(Round::control).collect();
    line("without / without", control, 4)?;
    let row = |round: &Round| round.0.iter().map(|ns| format!("{ns:.2}")).collect();
    Ok(Kept {
        name: "preload",
        method: "CPU time of a KVM_RUN round trip (an `out` to a port that the VMM handles) in a VMM that does nothing \
                 else, pinned: without libhaltwise_preload.so, with, with, without in each round, each in a new process.",
        columns: &["without_ns", "with_ns", "with_again_ns", "without_again_ns"],
        figures: Figures {
            rows: rounds.iter().map(row).collect(),
            summary,
        },
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ratios_are_of_neighbours() {
        let rounds: Vec<Round> = (0..9)
            .map(|_| Round([100.0, 101.0, 202.0, 200.0]))
            .collect();
        let kept = kept(&rounds).unwrap();
        let summary = &kept.figures.summary;
        assert!(
            summary.contains("with / without                1.0100"),
            "{summary}"
        );
        assert!(
            summary.contains("without / without             2.0000"),
            "{summary}"
        );
        assert_eq!(
            kept.figures.rows[0],
            ["100.00", "101.00", "202.00", "200.00"]
        );
    }
}
