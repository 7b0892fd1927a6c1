//! All blocks, round by round: put the setting in force, run the block, tally it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use haltwise_core::event::{Halt, Vm};
use haltwise_core::policy::{Setting, Start};
use haltwise_core::prove::schedule::{Block, draw};
use haltwise_core::prove::tally::{Tally, tally};
use haltwise_core::recording::{Rung, Side};
use haltwise_core::replay::latency::Latencies;
use haltwise_core::replay::session::Survey;
use haltwise_core::units::Nanos;
use haltwise_host::collector::CollectOptions;
use haltwise_host::discovery;
use haltwise_host::params;
use haltwise_host::root::Root;

use super::ProofRequest;
use super::means::{Means, Sides};
use super::meters::{self, Used};
use super::rule;
use super::scopes::Tallies;
use super::watch::{End, Plan, Watched, Watcher};
use crate::collect::attach::attach;
use crate::collect::interrupt::Interrupt;
use crate::costs;
use crate::exit::{Exit, Failure};
use crate::number::{nanos, percent};
use crate::progress::Progress;
use crate::words::{ceiling_source, plural};

/// An experiment that is ready to run, or has run.
#[derive(Debug)]
pub(crate) struct Experiment<'a> {
    wanted: &'a ProofRequest,
    root: Root,
    sides: Sides,
    means: Means,
    watcher: Watcher,
    elsewhere: Option<Latencies>,
    survey: Survey,
    rounds: Vec<Vec<Measured>>,
    ended_by: &'static str,
}

/// One block, measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What it is for.
    pub(crate) block: Block,
    /// Its halts, tallied and replayed under the other setting.
    pub(crate) tally: Tally,
    /// The same of the VMs that a plan gives ceilings, and of all others, by their places.
    pub(crate) scopes: Tallies,
    /// VMs that counted.
    pub(crate) vms: usize,
    /// Its length after the warm-up.
    pub(crate) seconds: f64,
    /// Events lost.
    pub(crate) lost: u64,
    /// What CPUs used.
    pub(crate) used: Used,
    /// The command's own figure.
    pub(crate) metric: Option<f64>,
    /// What there is to say.
    pub(crate) notes: Vec<String>,
}

/// What an experiment gave.
#[derive(Debug)]
pub(crate) struct Result<'a> {
    /// Rounds; the last may lack blocks.
    pub(crate) rounds: &'a [Vec<Measured>],
    /// Both settings.
    pub(crate) sides: &'a Sides,
    /// How they were put in force.
    pub(crate) means: &'static str,
    /// All halts, for what a block costs.
    pub(crate) survey: &'a Survey,
    /// Where the facts came from.
    pub(crate) rung: String,
    /// Why it ended.
    pub(crate) ended_by: &'static str,
    /// Figures that this host does not tell, and why.
    pub(crate) missing: Vec<(&'static str, String)>,
}

impl Result<'_> {
    /// Rounds with all their blocks.
    pub(crate) fn whole_rounds(&self) -> usize {
        let is_whole = |round: &&Vec<Measured>| round.len() == Block::ALL.len();
        self.rounds.iter().filter(is_whole).count()
    }
}

impl<'a> Experiment<'a> {
    /// Checks what can be checked before anything is started or set, and attaches.
    pub(crate) fn prepare(
        wanted: &'a ProofRequest,
        root: &Root,
    ) -> std::result::Result<Self, Failure> {
        if !params::kvm_is_loaded(root) {
            let error = anyhow!("measure halts: KVM is not loaded on this host");
            return Err(Failure::new(Exit::Unsupported, error)
                .hint("load it (modprobe kvm_intel or kvm_amd), or measure where the VMs run"));
        }
        let sides = Sides::read(wanted, root)?;
        let means = Means::choose(wanted, &sides, root)?;
        // What a block costs is asked after all blocks; here, only which latencies are known already.
        costs::calibration(&wanted.costs)?;
        let given = costs::GivenCosts {
            switch_cpu: Some(Nanos(0)),
            ..wanted.costs.clone()
        };
        let elsewhere = costs::know(&given, &Survey::default())?.elsewhere;
        let mut options = CollectOptions::default();
        if !wanted.vms.is_empty() {
            let scan = discovery::scan(root)?;
            for selector in &wanted.vms {
                options.vms.push(selector.select(&scan.vms)?.pid());
            }
        }
        let mut watcher = Watcher::new(attach(wanted.rung, &options, root)?, root);
        let mut writes = means.writes();
        let ledger = wanted.ledger.as_deref().and_then(directory_above);
        writes.extend(ledger.filter(|directory| !writes.contains(directory)));
        let asks = !sides.scopes.is_empty();
        watcher.confine(&writes, !wanted.command.is_empty(), asks);
        Ok(Self {
            wanted,
            root: root.clone(),
            sides,
            means,
            watcher,
            elsewhere,
            survey: Survey::default(),
            rounds: Vec::new(),
            ended_by: "all rounds",
        })
    }

    /// The line that says what is going on.
    pub(crate) fn greeting(&self) -> String {
        let rounds = plural(u64::from(self.wanted.rounds), "round");
        let vms = self.watcher.collector().roster().vms.len() as u64;
        let what = match (self.means.starts_vms(), self.wanted.command.is_empty()) {
            (true, _) => "of the VMs that the command starts".to_owned(),
            (false, true) => {
                let seconds = self.wanted.duration.as_secs_f64();
                format!("of {seconds} s each on {}", plural(vms, "VM"))
            }
            (false, false) => format!("on {}, as long as the command runs", plural(vms, "VM")),
        };
        format!(
            "Measuring {} against {}: {rounds} of 3 blocks {what}, by {}. Ctrl-C ends it and keeps \
             whole rounds.",
            self.wanted.a,
            self.wanted.b,
            self.watcher.collector().rung(),
        )
    }

    /// Runs all rounds, or until a signal comes; then what was measured is kept.
    pub(crate) fn run(&mut self, interrupt: &Interrupt) -> std::result::Result<(), Failure> {
        let begun = Instant::now();
        let mut progress = Progress::start(None);
        let orders = draw(self.wanted.seed, self.wanted.rounds);
        let all = orders.len() * Block::ALL.len();
        for (round, order) in orders.into_iter().enumerate() {
            self.rounds.push(Vec::new());
            for block in order {
                let done: usize = self.rounds.iter().map(Vec::len).sum();
                let place = Place {
                    number: done + 1,
                    all,
                    round: round + 1,
                    block,
                };
                let show = |progress: &mut Progress| {
                    let elapsed = begun.elapsed();
                    progress.show(elapsed, || place.progress(elapsed));
                };
                show(&mut progress);
                let ended = self.block(&place, interrupt, || show(&mut progress));
                let ended = ended.map_err(|failure| place.explain(failure));
                if let Some(signal) = ended.inspect_err(|_| self.ended_by = "an error")? {
                    self.ended_by = signal;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One block; gives the signal that ended it, if one did.
    fn block(
        &mut self,
        place: &Place,
        interrupt: &Interrupt,
        mut progress: impl FnMut(),
    ) -> std::result::Result<Option<&'static str>, Failure> {
        let knobs = self.sides.under(place.block.is_b());
        self.means.put(&self.sides, place.block.is_b())?;
        let command = self.means.command(&knobs);
        let plan = Plan {
            duration: self.wanted.duration,
            own_vms: self.means.starts_vms(),
            warm_up: self.wanted.warm_up,
        };
        let watched = self
            .watcher
            .block(&plan, command.as_deref(), interrupt, |_| progress());
        let (end, watched) = watched?;
        let output = match end {
            End::Signal(signal) => return Ok(Some(signal)),
            End::Duration => String::new(),
            End::Command {
                status,
                name,
                output,
            } if !status.success() => return Err(command_failed(&name, status, &output)),
            End::Command { output, .. } => output,
        };
        if watched.halts.is_empty() {
            return Err(no_halts(&plan, &watched));
        }
        // The other source does not see a ceiling that a VM has of its own.
        let (others, all) = match self.watcher.collector().rung() {
            Rung::Bpf if self.means.sets() => self.under_others(&watched.halts, place.block),
            _ => (0, 0),
        };
        if others == all && all > 0 {
            return Err(not_in_force(&watched.halts, knobs.halt_poll_ns));
        }
        let mut measured = self.tally(place.block, watched, &output)?;
        if others as f64 > MOST_UNDER_OTHERS * all as f64 {
            measured.notes.push(format!(
                "{} of the halts had a different ceiling than this setting's",
                percent(others as f64, all as f64)
            ));
        }
        if let Some(round) = self.rounds.last_mut() {
            round.push(measured);
        }
        Ok(None)
    }

    fn tally(
        &mut self,
        block: Block,
        mut watched: Watched,
        output: &str,
    ) -> std::result::Result<Measured, Failure> {
        for halt in &watched.halts {
            self.survey.halt(halt);
        }
        watched.notes.extend(self.learn_rule(block, &watched));
        // The rule, under what the other setting would have put in force.
        let kvm = "kvm".parse()?;
        let setting = |halt: &Halt| {
            let given = self.given(halt, !block.is_b());
            let (knobs, ceiling_ns) = self.means.replayed(&self.sides, !block.is_b(), halt, given);
            Setting {
                version: self.sides.version,
                side: Side::Host,
                arch: self.sides.arch,
                knobs,
                ceiling_ns,
                break_even_ns: 0,
                seed: self.wanted.seed,
                start: Start::Zero,
            }
        };
        let elsewhere = self.elsewhere.as_ref();
        let split = self.sides.scopes.split(self.vms(), &watched.halts);
        let mut scopes = Tallies::new();
        for (place, halts) in split {
            scopes.insert(place, tally(&halts, &kvm, elsewhere, setting)?);
        }
        let tally = tally(&watched.halts, &kvm, elsewhere, setting)?;
        let metric = match &self.wanted.metric {
            None => None,
            Some(metric) => Some(last_number(metric, output).ok_or_else(|| no_metric(output))?),
        };
        Ok(Measured {
            block,
            tally,
            scopes,
            vms: watched.vms,
            seconds: watched.seconds,
            lost: watched.lost,
            used: watched.used,
            metric,
            notes: watched.notes,
        })
    }

    fn vms(&self) -> &[Vm] {
        &self.watcher.collector().roster().vms
    }

    /// The ceiling that a side gives the VM of a halt, if a plan gives it one.
    fn given(&self, halt: &Halt, is_b: bool) -> Option<u32> {
        let Sides { scopes, a, .. } = &self.sides;
        let place = scopes.place(self.vms(), halt.vm);
        scopes.given(place, a.halt_poll_ns, is_b)
    }

    /// Halts under another ceiling than the block's, of all whose ceiling is known.
    fn under_others(&self, halts: &[Halt], block: Block) -> (usize, usize) {
        let of_all = self.sides.under(block.is_b()).halt_poll_ns;
        let known = || halts.iter().filter(|halt| halt.ceiling_ns.is_some());
        let is_other = |halt: &&Halt| {
            let wanted = self.given(halt, block.is_b()).unwrap_or(of_all);
            halt.ceiling_ns != Some(wanted)
        };
        (known().filter(is_other).count(), known().count())
    }

    /// Takes the rule that a block shows the running kernel to have; says so when it is another one than its
    /// number's.
    fn learn_rule(&mut self, block: Block, watched: &Watched) -> Option<String> {
        if watched.lost > 0 {
            return None;
        }
        let Sides { version, arch, .. } = self.sides;
        let knobs = self.means.recorded(&self.sides, block.is_b());
        let rung = self.watcher.collector().rung();
        let found = rule::carried((version, arch), knobs, rung, &watched.halts)?;
        self.sides.version = version.with(found);
        Some(format!(
            "the recorded halts show that this kernel has backports ({}): predictions use that \
             algorithm from here on",
            self.sides.version
        ))
    }

    /// Puts back what was in force before.
    pub(crate) fn restore(&mut self) -> std::result::Result<(), Failure> {
        self.means.restore()
    }

    /// What was measured so far.
    pub(crate) fn measured(&self) -> Result<'_> {
        Result {
            rounds: &self.rounds,
            sides: &self.sides,
            means: self.means.name(),
            survey: &self.survey,
            rung: self.watcher.collector().rung().to_string(),
            ended_by: self.ended_by,
            missing: meters::missing(&self.root),
        }
    }
}

/// Which block of all this is.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: usize,
    all: usize,
    round: usize,
    block: Block,
}

impl Place {
    /// What a block of so far has taken on average, it will take.
    fn progress(&self, elapsed: Duration) -> String {
        let done = self.number - 1;
        let left = (self.all - done) as f64 * elapsed.as_secs_f64() / done.max(1) as f64;
        let left = if done > 0 {
            format!(", about {left:.0} s left")
        } else {
            String::new()
        };
        let Self { number, all, .. } = self;
        format!("block {number} of {all} ({}){left}", self.block.as_str())
    }

    fn explain(&self, failure: Failure) -> Failure {
        let Self { number, round, .. } = self;
        let under = self.block.as_str();
        let context = format!("block {number} (round {round}, {under})");
        Failure {
            error: failure.error.context(context),
            ..failure
        }
    }
}

/// From this share on, halts under another ceiling are told of: those that were under way while it
/// changed are fewer.
const MOST_UNDER_OTHERS: f64 = 0.01;

/// The directory of a file, or where that is not there yet, the one in which it will be made.
fn directory_above(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    let mut above = file.ancestors().skip(1);
    Some(above.find(|directory| directory.is_dir())?.to_owned())
}

fn not_in_force(halts: &[Halt], ceiling_ns: u32) -> Failure {
    let found = halts.iter().find_map(|halt| {
        let ceiling = nanos(u64::from(halt.ceiling_ns?));
        Some(format!(
            "{ceiling} ({})",
            ceiling_source(halt.ceiling_source)
        ))
    });
    let error = anyhow!(
        "the setting was not in force: every halt was under another ceiling than {}, such as {}",
        nanos(u64::from(ceiling_ns)),
        found.unwrap_or_default()
    );
    Failure::new(Exit::Failed, error).hint(
        "a VM with a ceiling of its own does not follow the host's parameter, nor does one that was \
         made under Linux 5.8 to 6.0; does the command hand {halt_poll_ns} on to the VM?",
    )
}

/// The last lines that a command printed.
fn said(output: &str) -> String {
    let last: Vec<&str> = output.trim_end().lines().rev().take(3).collect();
    let last: Vec<String> = last.into_iter().rev().map(crate::page::harmless).collect();
    if last.is_empty() {
        "it printed nothing".to_owned()
    } else {
        format!("it said: {}", last.join(" / "))
    }
}

fn no_metric(output: &str) -> Failure {
    let error = anyhow!(
        "the command printed no number where --metric looks; {}",
        said(output)
    );
    Failure::new(Exit::Failed, error)
        .hint("the group of the last match must hold a number; its unit stays outside")
}

fn command_failed(name: &str, status: std::process::ExitStatus, output: &str) -> Failure {
    let said = said(output);
    Failure::new(Exit::Failed, anyhow!("`{name}` failed: {status}; {said}"))
        .hint("the command runs once for each block and must succeed each time; try it by itself")
}

fn no_halts(plan: &Plan, watched: &Watched) -> Failure {
    let (what, hint) = if plan.own_vms {
        (
            "the command started no VM that was seen to halt after the warm-up",
            "the command must start the VMs itself, as its own children, and run until they end; is \
             it long enough for the warm-up?",
        )
    } else {
        (
            "no VM of this host was seen to halt after the warm-up",
            "`haltwise doctor` lists the VMs that run, and says what can be seen",
        )
    };
    let lost = match watched.lost {
        0 => String::new(),
        lost => format!(" ({lost} events were lost)"),
    };
    Failure::new(Exit::Failed, anyhow!("{what}{lost}")).hint(hint)
}

/// The number in the first group of the last match.
fn last_number(metric: &regex::Regex, text: &str) -> Option<f64> {
    let last = metric.captures_iter(text).last()?;
    let number: f64 = last.get(1)?.as_str().trim().parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_last_match_counts_if_it_is_a_number() {
        let metric = regex::Regex::new(r"median\s+([-\d.e]+)").unwrap();
        for (text, number) in [
            ("median 5", Some(5.0)),
            ("median 5\nmedian  7.25 us\n", Some(7.25)),
            ("median 1e3", Some(1_000.0)),
            ("median -", None),
            ("mean 5", None),
            ("", None),
        ] {
            assert_eq!(last_number(&metric, text), number, "{text}");
        }
    }

    #[test]
    fn progress_says_what_is_left() {
        let place = Place {
            number: 4,
            all: 36,
            round: 2,
            block: Block::Control,
        };
        assert_eq!(
            place.progress(Duration::from_secs(6)),
            "block 4 of 36 (A again), about 66 s left"
        );
        let failure = place.explain(Failure::from(anyhow!("x")));
        assert_eq!(
            format!("{:#}", failure.error),
            "block 4 (round 2, A again): x"
        );
    }
}
