//! What counting exits costs, per exit: nobody, haltwise with and without, and perf's recording of the
//! same tracepoints.
//!
//! Goals: CPU time of the vCPU's thread for each exit of the same guest, every watcher within each round,
//! in an order drawn anew; the difference to nobody in the same round. Where KVM virtualises in software,
//! an emulated instruction stands for an exit. Non-goals: what the programs cost by themselves, with a
//! thousand vCPUs (`crates/host/tests/exits_synthetic.rs` prints that).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use haltwise_core::stats::median_estimate;
use haltwise_core::workload::SplitMix64;

use super::kept::{Figures, Kept};
use super::run::{Programs, bench, number};
use super::watcher::{Watching, watch};
use crate::say;

/// Options of the benchmark of exits.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of all watchers
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Rounds of the guest in each run: 828 exits and as many halts again each
    #[arg(long, default_value_t = 60)]
    guest_rounds: u32,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// Who watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Watcher {
    Nobody,
    Halts,
    Exits,
    ExitsAndKeys,
    /// The tracepoints that `haltwise record --exits` stands on, and those of halts.
    Perf,
}

const WATCHERS: [Watcher; 5] = [
    Watcher::Nobody,
    Watcher::Halts,
    Watcher::Exits,
    Watcher::ExitsAndKeys,
    Watcher::Perf,
];

const KEYS: &str = "--exits=msr,pio,mmio,gpa,hypercall,vector,cpuid";

const EVENTS: [&str; 7] = [
    "kvm:kvm_exit",
    "kvm:kvm_entry",
    "kvm:kvm_userspace_exit",
    "kvm:kvm_fpu",
    "kvm:kvm_inj_virq",
    "kvm:kvm_emulate_insn",
    "kvm:kvm_vcpu_wakeup",
];

impl Watcher {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Halts => "haltwise record",
            Self::Exits => "haltwise record --exits",
            Self::ExitsAndKeys => "haltwise, all sub-keys",
            Self::Perf => "perf record, same events",
        }
    }

    fn start(self, programs: &Programs, out: PathBuf) -> Result<Watching> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        let haltwise = |command: &mut Command, exits: &[&str]| {
            command.arg(&programs.haltwise).args(["record", "-o"]);
            command.arg(out.join("capture")).args(exits);
        };
        match self {
            Self::Nobody => return watch(None, self.name(), out, false),
            Self::Halts => haltwise(&mut command, &[]),
            Self::Exits => haltwise(&mut command, &["--exits"]),
            Self::ExitsAndKeys => haltwise(&mut command, &[KEYS]),
            Self::Perf => {
                command.args(["perf", "record", "--quiet", "-a", "-m", "4096", "-o"]);
                command.arg(out.join("perf.data"));
                command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
            }
        }
        watch(Some(command), self.name(), out, self != Self::Perf)
    }
}

/// One run.
struct Figure {
    round: u32,
    watcher: Watcher,
    exits: f64,
    cpu_ns_per_exit: f64,
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        let mut order = SplitMix64(u64::from(args.rounds));
        let mut figures = Vec::new();
        for round in 0..args.rounds {
            say::step(&format!("round {} of {}", round + 1, args.rounds));
            let mut keyed = WATCHERS.map(|watcher| (order.next_u64(), watcher));
            keyed.sort_unstable();
            for (_, watcher) in keyed {
                figures.push(measure(args, programs, round, watcher)?);
            }
        }
        let summary = summary(args, &figures);
        Ok(kept(&figures, summary))
    })
}

fn measure(args: &Args, programs: &Programs, round: u32, watcher: Watcher) -> Result<Figure> {
    let folder = tempfile::tempdir().context("create a folder for the watcher")?;
    let watching = watcher.start(programs, folder.path().to_owned())?;
    let rounds = args.guest_rounds.to_string();
    let guest = [
        "exits",
        "--rounds",
        &rounds,
        "--pin",
        "1",
        "--gap",
        "fixed:20us",
    ];
    let outcome = programs.lab(&guest)?;
    watching.stop()?;
    let stat = |name: &str| number(&outcome, &format!("/vms/0/vcpus/0/stats/{name}"));
    // Where KVM tells no kvm_exit, its emulator's instructions stand for exits.
    let exits = stat("exits")?.max(stat("insn_emulation")?);
    let cpu_ns = number(&outcome, "/vms/0/vcpus/0/cpu_ns")?;
    Ok(Figure {
        round,
        watcher,
        exits,
        cpu_ns_per_exit: cpu_ns / exits.max(1.0),
    })
}

/// CPU time per exit beyond that of nobody in the same round.
fn added(figures: &[Figure], figure: &Figure) -> Option<f64> {
    let alone = |it: &&Figure| it.round == figure.round && it.watcher == Watcher::Nobody;
    Some(figure.cpu_ns_per_exit - figures.iter().find(alone)?.cpu_ns_per_exit)
}

fn summary(args: &Args, figures: &[Figure]) -> String {
    let exits = figures.first().map_or(0.0, |figure| figure.exits);
    let mut text = format!(
        "exits, {} rounds of {} rounds of the guest, {exits:.0} exits each; CPU time of the vCPU for \
         each exit, medians [95 % interval]\n{:<26} {:>10} {:>26}\n",
        args.rounds, args.guest_rounds, "watcher", "ns", "added ns"
    );
    for watcher in WATCHERS {
        let own = || figures.iter().filter(|figure| figure.watcher == watcher);
        let all: Vec<f64> = own().map(|figure| figure.cpu_ns_per_exit).collect();
        let more: Vec<f64> = own().filter_map(|figure| added(figures, figure)).collect();
        let (Some(all), Some(more)) = (median_estimate(&all), median_estimate(&more)) else {
            continue;
        };
        let more = format!("{:+.0} [{:+.0}, {:+.0}]", more.median, more.low, more.high);
        // Writing to a String cannot fail.
        let _written = writeln!(
            text,
            "{:<26} {:>10.0} {more:>26}",
            watcher.name(),
            all.median
        );
    }
    text
}

fn kept(figures: &[Figure], summary: String) -> Kept<'static> {
    let rows = figures
        .iter()
        .map(|figure| {
            vec![
                figure.round.to_string(),
                figure.watcher.name().replace(',', ";"),
                format!("{:.0}", figure.exits),
                format!("{:.2}", figure.cpu_ns_per_exit),
            ]
        })
        .collect();
    Kept {
        name: "exits",
        method: "The lab's guest `exits`, pinned to CPU 1, the watcher on CPU 0. In each round every \
                 watcher comes once, in an order drawn anew. `cpu_ns_per_exit` is the CPU time of the \
                 vCPU's thread by the number of its exits: KVM's own count, or where KVM virtualises in \
                 software that of emulated instructions. `added` is the difference to nobody in the \
                 same round.",
        columns: &["round", "watcher", "exits", "cpu_ns_per_exit"],
        figures: Figures { rows, summary },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_difference_is_taken_within_its_own_round() {
        let figure = |round, watcher, cpu_ns_per_exit| Figure {
            round,
            watcher,
            exits: 1.0,
            cpu_ns_per_exit,
        };
        let figures = [
            figure(0, Watcher::Nobody, 1_000.0),
            figure(0, Watcher::Exits, 1_100.0),
            figure(1, Watcher::Exits, 5_100.0),
            figure(1, Watcher::Nobody, 5_050.0),
        ];
        assert_eq!(added(&figures, &figures[1]), Some(100.0));
        assert_eq!(added(&figures, &figures[2]), Some(50.0));
        assert_eq!(added(&figures[..2], &figures[2]), None);
    }
}
