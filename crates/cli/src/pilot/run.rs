//! The pilot at work: reads, collects, decides, sets, and says so.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use haltwise_core::kvm::{Arch, Rule, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::pilot::decision::Decision;
use haltwise_core::pilot::input::Scope;
use haltwise_core::pilot::replayed::Replayed;
use haltwise_core::pilot::standing::PilotVm;
use haltwise_core::pilot::{Pilot, Setup};
use haltwise_core::replay::calibration::{Calibration, SwitchCpu};
use haltwise_core::replay::latency::Latencies;
use haltwise_core::units::Nanos;
use haltwise_host::knob;
use haltwise_host::sandbox::{self, Duties};
use haltwise_host::support::KernelRelease;
use haltwise_host::{clock, host_sample};

use super::collecting::{Collecting, DRAIN, is_vetoed};
use super::config::{self, Config};
use super::machine::{INTERVAL, Machine};
use super::{acting, say};
use crate::SEED;
use crate::collect::attach::{self, check_kvm};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::serving::{Exposition, Serving};
use crate::knob::watching;
use crate::pilot_state::kept::{self, Keeping, Kept};
use crate::pilot_state::metrics::{Latest, exposition};
use crate::pilot_state::{PilotCost, PilotStatus, SCHEMA};
use crate::prices::{self, GivenCosts};
use crate::proof::ledger;
use crate::state::GivenRoot;
use crate::terminal;
use crate::time;

/// Between two turns while nothing is recorded.
const TURN: Duration = Duration::from_millis(250);

/// Options that apply with and without a configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// Only this VM, by a name, UUID, VMID or PID, or all whose name is like a pattern with * and
    /// ?; may be repeated [default: all]. The host's parameters are not set while other VMs
    /// follow them
    #[arg(long = "vm", value_name = "VM")]
    only: Vec<String>,
    /// Change nothing, and end after a look at each VM
    #[arg(long, conflicts_with = "act")]
    pub(crate) dry_run: bool,
    /// Also set what was modified externally since the pilot set it
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true)]
    duration: Option<Nanos>,
    /// Print the state as JSON at the end (see docs/pilot-json.md)
    #[arg(long)]
    json: bool,
    /// Read goals, limits and where metrics are served from this file (see
    /// contrib/pilot.toml); SIGHUP has it read again. The unit of systemd uses it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["goals", "act", "max_poll_cpu", "listen", "textfile"])]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    root: GivenRoot,
}

#[derive(Debug)]
pub(crate) struct PilotOptions {
    pub(crate) config: Config,
    /// It changes nothing, whatever a configuration says.
    pub(crate) only_observes: bool,
    pub(crate) given: Given,
}

struct Running<'a> {
    options: &'a PilotOptions,
    /// The configuration in force; where metrics are shown is not read again.
    config: Config,
    serving: Serving,
    latest: Arc<Latest>,
    exposition: Arc<Exposition>,
    pilot: Pilot<Replayed>,
    machine: Machine,
    collecting: Collecting,
    /// Targets of which a first change was made.
    taken_over: BTreeSet<Scope>,
    began: Instant,
    started_utc: String,
    cpu_before_ns: u64,
    last_decision: Option<String>,
    keeping: Keeping,
}

pub(crate) fn run(options: &PilotOptions) -> Outcome {
    let root = &options.given.root;
    check_kvm(root)?;
    let interrupt = match options.given.config {
        Some(_) => Interrupt::of_daemon()?,
        None => Interrupt::watch()?,
    };
    let mut running = Running::start(options, &interrupt)?;
    running.confine();
    running.serving.serve(&running.exposition, "")?;
    terminal::say(&running.greeting());
    running.serving.notifier.ready();
    let ended = running.turns(&interrupt);
    let stopped = running.stop();
    if options.given.json {
        terminal::print_json(&running.status())?;
    }
    ended.and(stopped)?;
    Ok(Exit::Done)
}

/// Inputs of replays: the given values, else the price of a sleep that is kept with the host, or measured now.
fn evidence(
    options: &PilotOptions,
    kernel: (Version, Arch),
    interrupt: &Interrupt,
) -> Result<Replayed, Failure> {
    let kept = || {
        let root = &options.given.root;
        let price = if root.is_host() {
            prices::kept::or_measured(root, || interrupt.came().is_some())
        } else {
            prices::kept::of_host(root)
        };
        Calibration::try_from(&price?).ok()
    };
    let calibration = prices::calibration(&options.given.costs)?.or_else(kept);
    let calibration = calibration.as_ref();
    let given = options.given.costs.switch_cpu.map(|Nanos(ns)| SwitchCpu {
        ns,
        ends_ns: [ns, ns],
    });
    let mut latencies = calibration.map_or_else(Latencies::default, |calibration| {
        calibration.latencies().clone()
    });
    if let Some(Nanos(latency_ns)) = options.given.costs.wake_latency {
        latencies.add(0, latency_ns);
    }
    let switch_cpu = given.or_else(|| calibration.and_then(Calibration::switch_cpu));
    Ok(Replayed::new(kernel, switch_cpu, latencies, SEED))
}

impl<'a> Running<'a> {
    fn start(options: &'a PilotOptions, interrupt: &Interrupt) -> Result<Self, Failure> {
        let root = &options.given.root;
        let release = KernelRelease::read(root)?;
        let unknown = || {
            let error = anyhow::anyhow!(
                "decide on settings: the halt polling of Linux {release} is not known"
            );
            Failure::new(Exit::Unsupported, error)
        };
        let (version, arch) = watching::kernel(&release.text).ok_or_else(unknown)?;
        let evidence = evidence(options, (version, arch), interrupt)?;
        let mut pilot = Pilot::new(Setup {
            evidence,
            rule: Rule::of(version, arch),
            limits: options.config.limits.clone(),
            memory: kept::memory(root).unwrap_or_default(),
            proofs: ledger::errors(root),
            seed: SEED,
        });
        if options.given.take_over {
            pilot.take_over();
        }
        let config = options.config.clone();
        let serving = Serving::bind(&config.metrics)?;
        let latest: Arc<Latest> = Arc::default();
        let exposition = exposition(config.metrics.max_series, Arc::clone(&latest));
        let machine = Machine::attach(root)?;
        Ok(Self {
            options,
            config,
            serving,
            latest,
            exposition: Arc::new(exposition),
            pilot,
            collecting: Collecting::prepare(root, machine.rung())?,
            machine,
            taken_over: BTreeSet::new(),
            began: Instant::now(),
            started_utc: say::utc(0),
            cpu_before_ns: clock::process_cpu_ns(),
            last_decision: None,
            keeping: Keeping::default(),
        })
    }

    /// Gives up the rights that neither recording nor setting takes. It goes on without that too, and says so.
    fn confine(&mut self) {
        let root = &self.options.given.root;
        let parameters: &[Parameter] = if self.may_come_to_act() {
            &Parameter::HOST
        } else {
            &[]
        };
        // Where it cannot be made, keeping the state will say so.
        let _made = knob::make_place(root);
        let mut writes = knob::writes(root, parameters);
        let mut shown = self.serving.writes();
        shown.retain(|it| !writes.contains(it));
        writes.extend(shown);
        let opens_events = [self.machine.confine(), self.collecting.confine()];
        let duties = Duties {
            writes: &writes,
            opens_events: opens_events.contains(&true),
            sets_ceilings: true,
            serves: self.serving.listens(),
            ..Duties::default()
        };
        attach::say_kept(sandbox::recorder(root, duties));
    }

    /// Whether it may act, or a configuration may say so later.
    fn may_come_to_act(&self) -> bool {
        let options = self.options;
        options.config.limits.may_act || (options.given.config.is_some() && !options.only_observes)
    }

    fn greeting(&self) -> String {
        let goal = &self.config.goals.of_all.name;
        let what = if self.config.limits.may_act {
            "It tries settings, keeps what is measured to help, and records each change in the journal (haltwise undo)."
        } else {
            "It observes and changes nothing; --act lets it change settings."
        };
        format!("Pilot, goal {goal}. {what} Ctrl-C ends it.")
    }

    fn turns(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut next_step = self.began;
        let mut is_first = true;
        loop {
            if interrupt.came().is_some() {
                return Ok(());
            }
            let most = self.options.given.duration;
            if most.is_some_and(|Nanos(ns)| self.began.elapsed() >= Duration::from_nanos(ns)) {
                return Ok(());
            }
            if interrupt.takes_reload() {
                self.reload()?;
            }
            self.collect()?;
            let is_due = Instant::now() >= next_step;
            if is_due || self.machine.has_events {
                self.machine.drain()?;
            }
            if is_due {
                // After a stall, the intervals missed have no counts.
                next_step = Instant::now() + INTERVAL;
                let mut seen =
                    self.machine
                        .read(&self.config.goals, &self.options.given.only, !is_first);
                seen.host.own_cpu_ns = self.process_cpu_ns() + self.kernel_cpu_ns().unwrap_or(0);
                is_first = false;
                self.taken_over.retain(|scope| match scope {
                    Scope::Vm(key) => seen.vms.iter().any(|vm| vm.key == *key),
                    Scope::Host => true,
                });
                let decisions = self.pilot.step(clock::monotonic_ns(), seen);
                self.carry_out(decisions)?;
                let status = self.status();
                self.show(&status);
                if self.keeping.is_due(&status) {
                    self.keep_as(status);
                }
            }
            self.serving.turn(&self.exposition)?;
            if self.options.given.dry_run && self.has_looked() {
                return Ok(());
            }
            std::thread::sleep(if self.collecting.is_running() {
                DRAIN
            } else {
                TURN
            });
        }
    }

    /// Reads the configuration again. One that is not understood changes nothing.
    fn reload(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.options.given.config else {
            return Ok(());
        };
        self.serving.notifier.reloading();
        match config::read(path) {
            Ok(config) => {
                self.config = config;
                self.config.limits.may_act &= !self.options.only_observes;
                terminal::say(&format!("{} was read again.", path.display()));
                let decisions = self.pilot.limit(self.config.limits.clone());
                self.carry_out(decisions)?;
                // The user who asked for it sees that it holds.
                self.keep();
            }
            Err(failure) => {
                terminal::complain(&failure);
                terminal::say("What was in force before stays.");
            }
        }
        self.serving.notifier.ready();
        Ok(())
    }

    fn has_looked(&self) -> bool {
        self.began.elapsed() >= 3 * INTERVAL && self.pilot.standing().has_looked
    }

    fn collect(&mut self) -> Result<(), Failure> {
        // A stretch that is no longer wanted holds halts under two settings, or its trial has ended.
        self.collecting.abandon_unless(self.pilot.wanted());
        if let Some(facts) = self.collecting.drain()? {
            for (vm, stretch) in &facts {
                if let Some(stretch) = stretch {
                    self.machine.note_veto(*vm, is_vetoed(stretch));
                }
            }
            let decisions = self.pilot.facts(clock::monotonic_ns(), facts);
            self.carry_out(decisions)?;
        }
        match self.pilot.wanted() {
            Some(wanted) if !self.collecting.is_running() => {
                let wanted = wanted.clone();
                self.collecting.start(&wanted)?;
            }
            None => self.collecting.rest()?,
            Some(_) => {}
        }
        Ok(())
    }

    /// Makes the changes that were decided, one after the other, and says what was decided.
    fn carry_out(&mut self, decisions: Vec<Decision>) -> Result<(), Failure> {
        let mut said = Ok(());
        let mut decisions: std::collections::VecDeque<Decision> = decisions.into();
        while let Some(decision) = decisions.pop_front() {
            if !decision.kind.is_period() {
                // A log that cannot be written keeps nothing from being restored.
                said = said.and(self.say(&decision));
                // Before anything is set: who comes after a crash knows that a trial was under way.
                self.keep();
            }
            let is_made =
                decision.is_made && (self.config.limits.may_act || decision.kind.restores());
            let Some(change) = decision.change.filter(|_| is_made) else {
                continue;
            };
            let takes_over = self.options.given.take_over && self.taken_over.insert(decision.scope);
            let root = &self.options.given.root;
            let made = acting::make(root, decision.scope, change, takes_over);
            if let Scope::Vm(vm) = decision.scope {
                let set_ns = made.is_ok().then_some(change.to.halt_poll_ns);
                self.machine.ceilings.was_tried(vm, set_ns);
            }
            if let Err(refused) = &made {
                terminal::say(&format!(
                    "warning: {}: not set: {refused}",
                    decision.kind.as_str()
                ));
            }
            let more = self.pilot.made(clock::monotonic_ns(), &decision, made);
            decisions.extend(more);
            if !decision.kind.is_period() {
                self.keep();
            }
        }
        said
    }

    fn say(&mut self, decision: &Decision) -> Result<(), Failure> {
        let vm = match decision.scope {
            Scope::Vm(key) => self.machine.vm(key),
            Scope::Host => None,
        };
        let line = say::line(decision, vm.map_or("", |vm| &vm.name));
        self.last_decision = Some(line.clone());
        if self.options.given.json {
            terminal::say(&line);
            return Ok(());
        }
        terminal::print(&format!("{line}\n"))
    }

    fn show(&self, status: &PilotStatus) {
        if let Some(line) = &status.last_decision {
            self.serving.notifier.status(line);
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some((status.clone(), clock::monotonic_ns()));
    }

    /// Stops as people expect: what is kept stays, and what is only tried goes.
    fn stop(&mut self) -> Result<(), Failure> {
        self.serving.stop();
        self.collecting.detach();
        let decisions = self.pilot.stop();
        let done = self.carry_out(decisions);
        self.keep();
        done
    }

    fn keep(&mut self) {
        self.keep_as(self.status());
    }

    fn keep_as(&mut self, status: PilotStatus) {
        let memory = self.pilot.memory();
        let kept = Kept { status, memory };
        self.keeping.keep(&self.options.given.root, &kept);
    }

    fn process_cpu_ns(&self) -> u64 {
        clock::process_cpu_ns().saturating_sub(self.cpu_before_ns)
    }

    fn kernel_cpu_ns(&self) -> Option<u64> {
        let of_counts = self.machine.kernel_cpu_ns()?;
        Some(of_counts + self.collecting.kernel_cpu_ns())
    }

    pub(crate) fn status(&self) -> PilotStatus {
        let standing = self.pilot.standing();
        let running = self.began.elapsed();
        let (process_cpu_ns, kernel_cpu_ns) = (self.process_cpu_ns(), self.kernel_cpu_ns());
        let cpu_ns = process_cpu_ns + kernel_cpu_ns.unwrap_or(0);
        let memory = host_sample::read(&self.options.given.root, None).ok();
        PilotStatus {
            schema: SCHEMA,
            pid: std::process::id(),
            mode: if self.config.limits.may_act {
                "act"
            } else {
                "observe"
            }
            .to_owned(),
            started_utc: self.started_utc.clone(),
            written_utc: say::utc(0),
            running_ns: time::nanos(running),
            goal: self.config.goals.of_all.name.clone(),
            last_decision: self.last_decision.clone(),
            vms: (standing.vms.into_iter())
                .map(|(key, vm)| PilotVm {
                    uuid: (self.machine.vm(key)).and_then(|it| it.identity.uuid.clone()),
                    since_utc: say::utc(vm.state_ns.unwrap_or(0)),
                    ..vm
                })
                .collect(),
            guards: standing.guards,
            decisions: standing.decisions,
            own: PilotCost {
                cpu_percent: 100.0 * cpu_ns as f64 / running.as_nanos().max(1) as f64,
                process_cpu_ns,
                kernel_cpu_ns,
                memory_bytes: memory.map(|host| host.recorder_rss_bytes),
                halts_held: standing.halts_held as u64,
                lost: self.machine.lost + self.collecting.lost,
                readings_dropped: standing.dropped,
            },
            errors: standing.errors,
        }
    }
}
