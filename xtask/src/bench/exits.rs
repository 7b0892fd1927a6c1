//! What counting exits costs, per exit: nobody, haltwise with and without, counting by hash maps as scripts
//! for bcc do it (`crates/host/examples/exits_peer.rs`), `perf kvm stat record`, and perf's recording of the
//! tracepoints that haltwise stands on.
//!
//! And what the programs take by themselves, played to exits that never happened: haltwise's beside those
//! with hash maps, one vCPU and a thousand. For KVM that virtualises in software tells no exits.
//!
//! Goals: CPU time of the vCPU's thread for each exit of the same guest, every watcher within each round,
//! in an order drawn anew; the difference to nobody in the same round. Where KVM virtualises in software,
//! an emulated instruction stands for an exit.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use haltwise_core::stats::median_estimate;
use haltwise_core::workload::SplitMix64;

use super::kept::{Figures, Kept};
use super::run::{Programs, bench, number};
use super::watcher::{Watching, watch};
use crate::{repo, say, tool};

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
    /// Hash maps, by thread and reason.
    HashMaps,
    /// Its own choice of tracepoints.
    PerfKvmStat,
    /// The tracepoints that `haltwise record --exits` stands on, and those of halts.
    Perf,
}

const WATCHERS: [Watcher; 7] = [
    Watcher::Nobody,
    Watcher::Halts,
    Watcher::Exits,
    Watcher::ExitsAndKeys,
    Watcher::HashMaps,
    Watcher::PerfKvmStat,
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
            Self::HashMaps => "hash maps, as bcc has it",
            Self::PerfKvmStat => "perf kvm stat record",
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
            Self::HashMaps => {
                command.arg(peer(programs)).arg("watch").current_dir(&out);
            }
            Self::PerfKvmStat => {
                command.args(["perf", "kvm", "stat", "record", "-a", "-m", "4096", "-o"]);
                command.arg(out.join("perf.data"));
            }
            Self::Perf => {
                command.args(["perf", "record", "--quiet", "-a", "-m", "4096", "-o"]);
                command.arg(out.join("perf.data"));
                command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
            }
        }
        let is_haltwise = matches!(self, Self::Halts | Self::Exits | Self::ExitsAndKeys);
        watch(Some(command), self.name(), out, is_haltwise)
    }
}

/// The peer with hash maps.
fn peer(programs: &Programs) -> PathBuf {
    programs
        .haltwise
        .with_file_name("examples")
        .join("exits_peer")
}

fn build_peer() -> Result<()> {
    let example = ["-p", "haltwise-host", "--example", "exits_peer"];
    let mut cargo = tool::cargo(&repo::root());
    tool::run(cargo.args(["build", "--release", "--quiet"]).args(example))
}

/// Both kinds of programs, played: one shape in one round.
#[derive(Debug, Clone, PartialEq)]
struct Play {
    round: u32,
    vcpus: u32,
    exits: u32,
    haltwise_ns: f64,
    peer_ns: f64,
}

impl Play {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.trim().split(',').collect();
        let [round, vcpus, exits, haltwise_ns, peer_ns] = words[..] else {
            return None;
        };
        Some(Self {
            round: round.parse().ok()?,
            vcpus: vcpus.parse().ok()?,
            exits: exits.parse().ok()?,
            haltwise_ns: haltwise_ns.parse().ok()?,
            peer_ns: peer_ns.parse().ok()?,
        })
    }

    fn shape(&self) -> (u32, u32) {
        (self.vcpus, self.exits)
    }
}

fn play(args: &Args, programs: &Programs) -> Result<Vec<Play>> {
    say::step("exits that never happened");
    let rounds = args.rounds.to_string();
    let text = tool::ask(Command::new(peer(programs)).args(["play", &rounds]))?;
    Ok(text.lines().filter_map(Play::parse).collect())
}

struct Figure {
    round: u32,
    watcher: Watcher,
    exits: f64,
    cpu_ns_per_exit: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        build_peer()?;
        let plays = play(args, programs)?;
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
        let summary = summary(args, &figures) + &summary_of_plays(&plays);
        Ok(kept(&figures, &plays, summary))
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

fn summary_of_plays(plays: &[Play]) -> String {
    let mut text = format!(
        "\nplayed to exits that never happened, the programs alone: ns for an exit and its entry\n\
         {:<26} {:>22} {:>22}\n",
        "vCPUs x exits, 12 reasons", "haltwise --exits", "hash maps"
    );
    let shapes: BTreeSet<_> = plays.iter().map(Play::shape).collect();
    for (vcpus, exits) in shapes {
        let own = || plays.iter().filter(|play| play.shape() == (vcpus, exits));
        let told = |samples: Vec<f64>| {
            median_estimate(&samples).map_or_else(String::new, |it| {
                format!("{:.0} [{:.0}, {:.0}]", it.median, it.low, it.high)
            })
        };
        let ours = told(own().map(|play| play.haltwise_ns).collect());
        let peers = told(own().map(|play| play.peer_ns).collect());
        let shape = format!("{vcpus} x {exits}");
        let _written = writeln!(text, "{shape:<26} {ours:>22} {peers:>22}");
    }
    text
}

fn kept(figures: &[Figure], plays: &[Play], summary: String) -> Kept<'static> {
    let played = plays.iter().flat_map(|play| {
        let of = |who: &str, ns: f64| {
            vec![
                play.round.to_string(),
                format!("played {} vCPUs: {who}", play.vcpus),
                (play.vcpus * play.exits).to_string(),
                format!("{ns:.1}"),
            ]
        };
        [
            of("haltwise", play.haltwise_ns),
            of("hash maps", play.peer_ns),
        ]
    });
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
        .chain(played)
        .collect();
    Kept {
        name: "exits",
        method: "The lab's guest `exits`, pinned to CPU 1, the watcher on CPU 0. In each round every \
                 watcher comes once, in an order drawn anew. `cpu_ns_per_exit` is the CPU time of the \
                 vCPU's thread by the number of its exits: KVM's own count, or where KVM virtualises in \
                 software that of emulated instructions. `added` is the difference to nobody in the \
                 same round. Rows `played` are BPF programs run by the kernel on request, for exits \
                 that never happened: an exit and its entry, less what the kernel's own looks at the \
                 clock take; whoever comes first changes with the round.",
        columns: &["round", "watcher", "exits", "cpu_ns_per_exit"],
        figures: Figures { rows, summary },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_the_peer_prints_is_read_and_its_heading_is_not() {
        assert_eq!(Play::parse("round,vcpus,exits,haltwise_ns,peer_ns"), None);
        let play = Play::parse("3,1000,300,130.5,301.2\n").unwrap();
        assert_eq!((play.round, play.shape()), (3, (1000, 300)));
        assert!(summary_of_plays(&[play]).contains("1000 x 300"));
    }

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
