//! All blocks, round by round: put the setting in force, run the block, tally it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use haltwise_core::account::Account;
use haltwise_core::event::{Halt, Vm};
use haltwise_core::kvm::{Knobs, Rule};
use haltwise_core::policy::{Setting, Start};
use haltwise_core::prove::compare::{Block, draw};
use haltwise_core::prove::tally::{Tally, tally};
use haltwise_core::recording::{Mode, Rung, Side};
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::replay::latency::Latencies;
use haltwise_core::replay::session::Survey;
use haltwise_core::units::Nanos;
use haltwise_core::verify::carried::Trial;
use haltwise_core::verify::loss::Losses;
use haltwise_core::verify::settings::Settings;
use haltwise_core::verify::{Setup, Sight};
use haltwise_host::collector::CollectOptions;
use haltwise_host::discovery;
use haltwise_host::root::Root;

use super::ProofRequest;
use super::command::with_ceiling;
use super::parameters::Parameters;
use super::scopes::Tallies;
use super::sides::Sides;
use super::watch::{End, Plan, Watched, Watcher};
use crate::SEED;
use crate::collect::attach::{attach, attach_idle};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure};
use crate::number::{nanos, percent};
use crate::prices::{self, kept};
use crate::progress::Progress;
use crate::words::{ceiling_source, plural};

#[derive(Debug)]
pub(crate) struct Experiment<'a> {
    wanted: &'a ProofRequest,
    pub(super) root: Root,
    pub(super) sides: Sides,
    parameters: Option<Parameters>,
    pub(super) watcher: Watcher,
    elsewhere: Option<Latencies>,
    pub(super) price: Option<Written>,
    pub(super) survey: Survey,
    /// The last may lack blocks.
    pub(super) rounds: Vec<Vec<Measured>>,
    pub(super) ended_by: &'static str,
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) block: Block,
    pub(crate) tally: Tally,
    pub(crate) account: Account,
    /// The same of the VMs that a plan gives ceilings, and of all others, by their places.
    pub(crate) scopes: Tallies,
    pub(crate) metric: Option<f64>,
    /// Without its halts.
    pub(crate) watched: Watched,
}

impl<'a> Experiment<'a> {
    /// Checks what can be checked before anything is started or set, and attaches.
    pub(crate) fn prepare(wanted: &'a ProofRequest, root: &Root) -> Result<Self, Failure> {
        let sides = Sides::read(wanted, root)?;
        let sets = sides.are_set();
        let parameters = sets.then(|| Parameters::take(root, &sides, wanted.given.yes));
        let parameters = parameters.transpose()?;
        // The cost of a block is asked for after all blocks; here, only which latencies are known already.
        let price = kept::of_host(root);
        let given = prices::GivenCosts {
            switch_cpu: Some(Nanos(0)),
            ..wanted.given.costs.clone()
        };
        let elsewhere = prices::know(&given, price.as_ref(), &Survey::default())?.elsewhere;
        let mut options = CollectOptions::default();
        if !wanted.given.vms.is_empty() {
            let scan = discovery::scan(root)?;
            for selector in &wanted.given.vms {
                options.vms.push(selector.select(&scan.vms)?.pid());
            }
        }
        let collector = match sides.side {
            Side::Host => attach(wanted.given.rung, &options, root)?,
            Side::Guest => {
                let (collector, mode) = attach_idle(wanted.given.rung, &options, root)?;
                if mode != Mode::Full {
                    return Err(counted_alone());
                }
                collector
            }
        };
        let plan = Plan {
            duration: Duration::from_nanos(wanted.given.duration.0),
            own_vms: sides.starts_vms,
            warm_up: wanted.given.warm_up,
        };
        let mut watcher = Watcher::new(collector, root, sides.side, plan);
        let writes = parameters.as_ref().map(Parameters::writes);
        let mut writes = writes.unwrap_or_default();
        let ledger = wanted.ledger.as_deref().and_then(directory_above);
        writes.extend(ledger.filter(|directory| !writes.contains(directory)));
        let asks = !sides.scopes.is_empty();
        watcher.confine(&writes, !wanted.given.command.is_empty(), asks);
        Ok(Self {
            wanted,
            root: root.clone(),
            sides,
            parameters,
            watcher,
            elsewhere,
            price,
            survey: Survey::default(),
            rounds: Vec::new(),
            ended_by: "all rounds",
        })
    }

    pub(crate) fn greeting(&self) -> String {
        let rounds = plural(u64::from(self.wanted.given.rounds), "round");
        let roster = self.watcher.collector.roster();
        let whose = match self.sides.side {
            Side::Host => plural(roster.vms.len() as u64, "VM"),
            Side::Guest => format!(
                "the {} of this guest",
                plural(roster.vcpus.len() as u64, "CPU")
            ),
        };
        let what = match (self.sides.starts_vms, self.wanted.given.command.is_empty()) {
            (true, _) => "of the VMs that the command starts".to_owned(),
            (false, true) => {
                let seconds = self.wanted.given.duration.0 as f64 / 1e9;
                format!("of {seconds} s each on {whose}")
            }
            (false, false) => format!("on {whose}, as long as the command runs"),
        };
        let [a, b] = self.wanted.specs();
        format!(
            "Measuring {a} against {b}: {rounds} of 3 blocks {what}, by {}. Ctrl-C ends it and keeps \
             whole rounds.",
            self.watcher.collector.rung(),
        )
    }

    /// Runs all rounds, or until a signal comes; then what was measured is kept.
    pub(crate) fn run(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut progress = Progress::start(None);
        let orders = draw(SEED, self.wanted.given.rounds);
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
    ) -> Result<Option<&'static str>, Failure> {
        let ceiling_ns = self.sides.ceiling_ns(place.block.is_b());
        if let Some(parameters) = &mut self.parameters {
            parameters.put(place.block.is_b())?;
        }
        let command = &self.wanted.given.command;
        let command = (!command.is_empty()).then(|| with_ceiling(command, ceiling_ns));
        let watched = self
            .watcher
            .block(command.as_deref(), interrupt, |_| progress());
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
            return Err(no_halts(&self.sides, &watched));
        }
        // The other source does not see a ceiling that a VM has of its own.
        let (others, all) = match self.watcher.collector.rung() {
            Rung::Bpf if self.sides.are_put_in_force() => {
                self.under_others(&watched.halts, place.block)
            }
            _ => (0, 0),
        };
        if others == all && all > 0 {
            return Err(not_in_force(self.sides.side, &watched.halts, ceiling_ns));
        }
        let mut measured = self.tally(place.block, watched, &output)?;
        if others as f64 > MOST_UNDER_OTHERS * all as f64 {
            measured.watched.notes.push(format!(
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
    ) -> Result<Measured, Failure> {
        let mut account = Account::default();
        for halt in &watched.halts {
            self.survey.halt(halt);
            account.halt(halt);
        }
        watched.notes.extend(self.learn_rule(block, &watched));
        watched
            .notes
            .extend(self.above_ceiling(block, &watched.halts));
        // The rule, under what the other setting would have put in force.
        let policy = self.sides.policy(!block.is_b())?;
        let setting = |halt: &Halt| {
            let given = self.given(halt, !block.is_b());
            let Sides { version, arch, .. } = self.sides;
            let (knobs, ceiling_ns) = match self.sides.side {
                Side::Host => self.sides.replayed(!block.is_b(), halt, given),
                // Nothing is known of a guest's host, and the guest's policy does not ask.
                Side::Guest => (Knobs::defaults(version, arch), 0),
            };
            Setting {
                version,
                side: self.sides.side,
                arch,
                knobs,
                ceiling_ns,
                break_even_ns: 0,
                start: Start::Zero,
            }
        };
        let elsewhere = self.elsewhere.as_ref();
        let split = self.sides.scopes.split(self.vms(), &watched.halts);
        let mut scopes = Tallies::new();
        for (place, halts) in split {
            scopes.insert(place, tally(&halts, &policy, elsewhere, setting)?);
        }
        let tally = tally(&watched.halts, &policy, elsewhere, setting)?;
        let metric = self.wanted.given.metric.as_ref();
        let metric = metric.map(|it| last_number(it, output).ok_or_else(|| no_metric(output)));
        Ok(Measured {
            block,
            tally,
            account,
            scopes,
            metric: metric.transpose()?,
            watched: Watched {
                halts: Vec::new(),
                ..watched
            },
        })
    }

    /// Says of a guest how many periods began with a limit above the setting's ceiling: it had grown under the other
    /// setting, and the CPU has not halted since.
    fn above_ceiling(&self, block: Block, halts: &[Halt]) -> Option<String> {
        if self.sides.side.is_host() || !self.sides.are_put_in_force() {
            return None;
        }
        let ceiling_ns = self.sides.ceiling_ns(block.is_b());
        let limits = halts.iter().filter_map(|halt| halt.window_ns);
        let above = limits.filter(|limit_ns| *limit_ns > ceiling_ns).count();
        let share = above as f64 / halts.len().max(1) as f64;
        (share > MOST_UNDER_OTHERS).then(|| {
            format!(
                "{} of the halts began with a limit above this setting's ceiling, which had grown before",
                percent(above as f64, halts.len() as f64)
            )
        })
    }

    fn vms(&self) -> &[Vm] {
        &self.watcher.collector.roster().vms
    }

    /// The ceiling that a side gives the VM of a halt, if a plan gives it one.
    fn given(&self, halt: &Halt, is_b: bool) -> Option<u32> {
        let scopes = &self.sides.scopes;
        let place = scopes.place(self.vms(), halt.vm);
        scopes.given(place, is_b)
    }

    /// Halts under another ceiling than the block's, of all whose ceiling is known.
    fn under_others(&self, halts: &[Halt], block: Block) -> (usize, usize) {
        let of_all = self.sides.ceiling_ns(block.is_b());
        let known = || halts.iter().filter(|halt| halt.ceiling_ns.is_some());
        let is_other = |halt: &&Halt| {
            let wanted = self.given(halt, block.is_b()).unwrap_or(of_all);
            halt.ceiling_ns != Some(wanted)
        };
        (known().filter(is_other).count(), known().count())
    }

    /// Takes the rule that a block shows the running kernel to have; says so when it is another one than its
    /// number's. `None` where nothing indicates any change, or where the backports are known already.
    fn learn_rule(&mut self, block: Block, watched: &Watched) -> Option<String> {
        let Sides { version, arch, .. } = self.sides;
        if watched.lost > 0 || !self.sides.side.is_host() || !version.backports.is_empty() {
            return None;
        }
        let mut trial = Trial::new(&Setup {
            rule: Rule::of(version, arch),
            arch,
            sight: match self.watcher.collector.rung() {
                Rung::Bpf => Sight::Vcpu,
                Rung::Tracepoints | Rung::Cpuidle | Rung::Import => Sight::Calls,
            },
            settings: Settings::fixed(self.sides.recorded(block.is_b())),
            cap: None,
            losses: Losses::default(),
            vetoed: BTreeSet::new(),
        })?;
        watched.halts.iter().for_each(|halt| trial.halt(halt, None));
        let found = trial.finish().backports;
        if found.is_empty() {
            return None;
        }
        self.sides.version = version.with(found);
        Some(format!(
            "the recorded halts show that this kernel has backports ({}): predictions use that \
             algorithm from here on",
            self.sides.version
        ))
    }

    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        let parameters = self.parameters.as_mut();
        parameters.map_or(Ok(()), Parameters::restore)
    }

    pub(super) fn means(&self) -> &'static str {
        match &self.parameters {
            _ if self.sides.starts_vms => "vm-ceiling",
            Some(parameters) => parameters.name(),
            None => "in-force",
        }
    }

    pub(crate) fn whole_rounds(&self) -> usize {
        let is_whole = |round: &&Vec<Measured>| round.len() == Block::ALL.len();
        self.rounds.iter().filter(is_whole).count()
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    number: usize,
    all: usize,
    round: usize,
    block: Block,
}

impl Place {
    /// Assumes that a block takes as long as the blocks so far on average.
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

fn counted_alone() -> Failure {
    let error = anyhow!(
        "measure idle periods: neither BPF nor tracepoints record them here, and what cpuidle counts says nothing of \
         single ones"
    );
    Failure::new(Exit::Unsupported, error)
        .hint("`haltwise status --check` says what this machine offers")
}

/// From this share on, halts under another ceiling are reported: those that were under way while it
/// changed are fewer.
const MOST_UNDER_OTHERS: f64 = 0.01;

/// The directory of a file, or where that is not there yet, the one in which it will be made.
fn directory_above(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    let mut above = file.ancestors().skip(1);
    Some(above.find(|directory| directory.is_dir())?.to_owned())
}

fn not_in_force(side: Side, halts: &[Halt], ceiling_ns: u32) -> Failure {
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
    if !side.is_host() {
        return Failure::new(Exit::Failed, error)
            .hint("is another process setting guest_halt_poll_ns? `haltwise status` shows it");
    }
    Failure::new(Exit::Failed, error).hint(
        "a VM with a ceiling of its own does not follow the host's parameter, nor does one that was \
         made under Linux 5.8 to 6.0; does the command hand {halt_poll_ns} on to the VM?",
    )
}

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

fn no_halts(sides: &Sides, watched: &Watched) -> Failure {
    let (what, hint) = if !sides.side.is_host() {
        (
            "no CPU of this guest was seen idle twice after the warm-up",
            "an idle period is recorded when the next one of its CPU begins: is there load on all CPUs, or \
             is the block too short?",
        )
    } else if sides.starts_vms {
        (
            "the command started no VM that was seen to halt after the warm-up",
            "the command must start the VMs itself, as its own children, and run until they end; is \
             it long enough for the warm-up?",
        )
    } else {
        (
            "no VM of this host was seen to halt after the warm-up",
            "`haltwise status --check` lists the VMs that run, and says what can be seen",
        )
    };
    let lost = match watched.lost {
        0 => String::new(),
        lost => format!(" ({lost} events were lost)"),
    };
    Failure::new(Exit::Failed, anyhow!("{what}{lost}")).hint(hint)
}

fn last_number(metric: &regex_lite::Regex, text: &str) -> Option<f64> {
    let last = metric.captures_iter(text).last()?;
    let number: f64 = last.get(1)?.as_str().trim().parse().ok()?;
    number.is_finite().then_some(number)
}
