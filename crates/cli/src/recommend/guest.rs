//! The recommendation for a capture of a guest: parameters of its governor haltpoll, or polling in its host instead,
//! or nothing.

pub(crate) mod joined;
pub(crate) mod say;
pub(crate) mod view;

use haltwise_core::explain::in_guest::MOST_STEAL;
use haltwise_core::kvm::guest::{Params, Rule};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::replay::Cost;
use haltwise_core::replay::Sums;
use haltwise_core::tune::advice::{self, Comparison, LEAST_GAIN, Verdict};
use haltwise_core::tune::figures::{self, Played, Subject};
use haltwise_core::tune::final_round::{FinalRound, Finalist};
use haltwise_core::tune::guest::{self, Governor};
use haltwise_core::tune::search;
use haltwise_core::tune::stage;
use haltwise_core::tune::{Advice, Goal, Inputs, Terms};

use self::joined::Joined;
use super::candidates::{HaltSink, TuneRequest, goals, idle_cpu_percent};
use super::threads::Threads;
use crate::SEED;
use crate::exit::{Exit, Failure};
use crate::prices::price::{GivenPrice, Price};
use crate::prices::{self, Known, refused};
use crate::reading::opened::Opened;
use crate::reading::rule;

#[derive(Debug)]
pub(crate) struct GuestCandidates {
    pub(crate) inputs: Inputs,
    pub(crate) known: Known,
    pub(crate) price: Price,
    pub(crate) version: Version,
    pub(crate) governor_name: Option<String>,
    pub(crate) looked_at: usize,
    pub(crate) of: FinalRound<Params>,
    /// Entries into HLT as the replay of the guest's own setting has them, whether its host polls or not.
    pub(crate) hlts_replayed: u64,
    /// The recommendation for the guest alone.
    pub(crate) advice: Advice<Params>,
    /// One for each goal that has a name.
    pub(crate) others: [Advice<Params>; 3],
    pub(crate) host: OfHost,
    /// The guest with a CPU of its own, less the best of what the guest and the host can do.
    pub(crate) cpu_pm: Comparison,
    pub(crate) shared: Others,
    /// With all figures: in force, default, the choice (if any), off, the host, the others, in this order.
    pub(crate) rows: Vec<(GuestRow, Played)>,
    /// Least cost of a halt, in nanoseconds.
    pub(crate) least_ns: f64,
}

#[derive(Debug)]
pub(crate) struct OfHost {
    pub(crate) choice: Finalist,
    /// Its parts, with the exits of a guest that never polls.
    pub(crate) parts: Vec<Sums>,
    pub(crate) against_in_force: Comparison,
    pub(crate) against_guest: Comparison,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GuestRow {
    InForce,
    Default,
    /// The recommendation, or what came nearest to one.
    Choice,
    Off,
    Host,
    /// A guest booted with `idle=poll`.
    IdlePoll,
    /// A guest whose HLT and MWAIT do not exit.
    CpuPm,
}

impl GuestRow {
    /// The words for it; the choice is a recommendation if it is to be set.
    pub(crate) fn name(self, is_set: bool) -> &'static str {
        match self {
            Self::InForce => "current",
            Self::Default => "default",
            Self::Choice if is_set => "recommended",
            Self::Choice => "best found",
            Self::Off => "off",
            Self::Host => "host polls",
            Self::IdlePoll => "idle=poll",
            Self::CpuPm => "cpu-pm",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    Nowhere,
    Guest,
    Host,
    /// In the VM's definition: the guest keeps its CPU while it is idle.
    CpuPm,
}

/// Idle periods that are kept at most; more are thinned by stretches of time. Each is played under about a thousand
/// settings, one by one.
pub(super) const MOST_PERIODS: u64 = 1_000_000;

pub(crate) fn search(
    opened: &Opened,
    request: &TuneRequest,
    look: HaltSink,
    (given, joined): (GivenPrice, Option<Joined>),
) -> Result<GuestCandidates, Failure> {
    let (version, survey, gather) = look.finish()?;
    let Some(rule) = Rule::of(version) else {
        let error = anyhow::anyhow!("tune: Linux {version} has no governor haltpoll");
        return Err(Failure::new(Exit::Unsupported, error).hint("it exists since 5.4"));
    };
    // Its host knows better what a block takes there.
    let known = match &joined {
        Some(joined) => joined.known.clone(),
        None => prices::know(&request.costs, opened.info().price.as_deref(), &survey)?,
    };
    let price = Price::new(given, known.prices(opened.info().side));
    let price = price.or_joined(joined.as_ref().map(|joined| joined.join.exit_ns));
    let arch = prices::arch_of(opened.info());
    let (governor, governor_name) = governor(opened, rule);
    // KVM's algorithm is that of the kernel which runs it, and its parameters are the host's: a guest does not see them.
    let (of_host, in_force) = match &joined {
        Some(joined) => (joined.version.unwrap_or(version), joined.in_force()),
        None => (version, Knobs::defaults(version, Arch::X86)),
    };
    let terms = Terms {
        elsewhere: known.elsewhere.clone(),
        seed: SEED,
        governor,
        ..Terms::new(of_host, arch, in_force)
    };
    let inputs = gather.finish(terms, survey).map_err(refused)?;
    let others = Others {
        stolen_of_wanted: stolen_of_wanted(opened, &inputs),
        joined,
    };
    let goals = of_guest(opened, request, (&known, &price), &others);
    let kernel = (version, governor_name);
    found(inputs, (known, price), kernel, &goals, others)
}

/// Facts about others that share the host with the guest.
#[derive(Debug)]
pub(crate) struct Others {
    /// Share of the time in which the guest wanted its CPUs, polling included, that its host gave to others.
    pub(crate) stolen_of_wanted: Option<f64>,
    pub(crate) joined: Option<Joined>,
}

impl Others {
    /// Whether they want its CPUs too much for a guest that polls: KVM cannot end its polls.
    pub(crate) fn want_its_cpus(&self) -> bool {
        self.is_stolen_from() || self.joined.as_ref().is_some_and(Joined::is_contended)
    }

    /// Whether its host gives too much of the guest's time to them.
    pub(crate) fn is_stolen_from(&self) -> bool {
        self.stolen_of_wanted
            .is_some_and(|share| share >= MOST_STEAL)
    }

    /// Whether it is known that they do not want its CPUs.
    pub(crate) fn leave_its_cpus(&self) -> bool {
        let is_known = match &self.joined {
            Some(joined) => joined.is_free(),
            None => self.stolen_of_wanted.is_some(),
        };
        is_known && !self.want_its_cpus()
    }
}

fn found(
    inputs: Inputs,
    (known, price): (Known, Price),
    (version, governor_name): (Version, Option<String>),
    goals: &[Goal; 4],
    shared: Others,
) -> Result<GuestCandidates, Failure> {
    let pool = Threads::new();
    let aims = goals.each_ref().map(|goal| goal.aim);
    let found = search::search(&inputs, &aims, &pool);
    let mut of = guest::play_final(&inputs, &found, &aims, &pool);
    let hlts_replayed = Sums::total(&of.in_force.parts).blocks;
    let host_polls = polling_host(&shared, &inputs.terms.governor);
    if let Some(knobs) = host_polls {
        in_force_on_host(&inputs, &mut of, knobs, &pool);
    }
    let [advice, others @ ..] = goals
        .each_ref()
        .map(|goal| advice::advise(&inputs, &of, goal));
    let host = of_host(&inputs, (&of, &advice), &pool);
    let cpu_pm = of_cpu_pm(&inputs, (&of, &advice, &host), &pool)?;
    let all = (&of, &advice, &host);
    let (rows, least_ns) = rows(&inputs, all, host_polls, &pool)?;
    Ok(GuestCandidates {
        looked_at: found.len(),
        inputs,
        known,
        price,
        version,
        governor_name,
        hlts_replayed,
        of,
        advice,
        others,
        host,
        cpu_pm,
        shared,
        rows,
        least_ns,
    })
}

impl GuestCandidates {
    /// Where to change something: in the host, where its best setting certainly costs less than the best setting of the
    /// guest, and than the current setting.
    ///
    /// A guest that keeps its CPU is recommended only if no other task wants that CPU, and that is known.
    pub(crate) fn place(&self) -> Place {
        if self.cpu_pm_costs_less() && self.shared.leave_its_cpus() {
            return Place::CpuPm;
        }
        if self.host.costs_less() {
            return Place::Host;
        }
        if self.advice.verdict.changes() {
            Place::Guest
        } else {
            Place::Nowhere
        }
    }

    /// Whether a guest that keeps its CPU certainly costs less than all else.
    pub(crate) fn cpu_pm_costs_less(&self) -> bool {
        is_less(&self.cpu_pm)
    }
}

fn is_less(of: &Comparison) -> bool {
    of.cost_share.is_below_zero() && of.cost_share.value <= -LEAST_GAIN
}

impl OfHost {
    /// Whether polling in the host certainly costs less than what is best in the guest, and than what is in force.
    fn costs_less(&self) -> bool {
        is_less(&self.against_guest) && is_less(&self.against_in_force)
    }
}

/// The host's setting, where it polls for a guest that does not: that is what is in force then.
fn polling_host(shared: &Others, governor: &Governor) -> Option<Knobs> {
    let joined = shared.joined.as_ref()?;
    let polls = joined.host_polls() && governor.in_force.guest_halt_poll_ns == 0;
    polls.then(|| joined.in_force())
}

fn in_force_on_host(inputs: &Inputs, of: &mut FinalRound<Params>, knobs: Knobs, pool: &Threads) {
    let entries = stage::Entry::new(knobs).from_both();
    let played = stage::play(inputs, &entries, stage::Part::Whole, "judge", pool);
    let exits = guest::never_polls(inputs, pool);
    let mut played = played.iter().map(|parts| guest::exits_as(parts, &exits));
    if let (Some(zero), Some(ceiling)) = (played.next(), played.next()) {
        (of.in_force.parts, of.in_force.others) = (zero, ceiling);
    }
}

/// The governor as it was set; one that is not haltpoll counts as no polling.
fn governor(opened: &Opened, rule: Rule) -> (Governor, Option<String>) {
    let name = rule::governor(opened);
    let mut in_force = Params::default();
    if name.as_deref() == Some("haltpoll") {
        in_force = rule::in_force(opened);
    } else {
        in_force.guest_halt_poll_ns = 0;
    }
    (Governor { rule, in_force }, name)
}

fn stolen_of_wanted(opened: &Opened, inputs: &Inputs) -> Option<f64> {
    // A CPU that polls is idle in its kernel's accounts.
    let polled = inputs.seats.iter().map(|seated| seated.recorded.poll_ns);
    stolen(opened, haltwise_core::stats::total(polled))
}

/// Share of the time in which the guest wanted its CPUs, polls of this length included, that its host gave to
/// others.
pub(crate) fn stolen(opened: &Opened, polled_ns: u64) -> Option<f64> {
    let samples = &opened.host_samples().rows;
    let (first, last) = (samples.first()?, samples.last()?);
    let stolen_ns = last.steal_ns?.checked_sub(first.steal_ns?)?;
    let busy_ns = last.busy_ns.checked_sub(first.busy_ns)?;
    let wanted_ns = busy_ns.saturating_add(polled_ns);
    (wanted_ns > 0).then(|| stolen_ns as f64 / wanted_ns as f64)
}

/// The goals of all, by the prices of a guest. Where others want its CPUs, polling may take nothing.
fn of_guest(
    opened: &Opened,
    request: &TuneRequest,
    (known, price): (&Known, &Price),
    shared: &Others,
) -> [Goal; 4] {
    let idle = idle_cpu_percent(opened);
    let mut goals = goals(request, known, idle, shared.want_its_cpus());
    for goal in &mut goals {
        goal.aim.cost = price.on(goal.aim.cost);
        if shared.want_its_cpus() {
            goal.aim.max_poll_cpu_percent = Some(0.0);
        }
    }
    goals
}

fn of_host(
    inputs: &Inputs,
    (of, advice): (&FinalRound<Params>, &Advice<Params>),
    pool: &Threads,
) -> OfHost {
    let aim = &advice.goal.aim;
    let aims = [*aim];
    let found = search::search(inputs, &aims, pool);
    let finals = haltwise_core::tune::final_round::play_final(inputs, &found, &aims, pool);
    let chosen = advice::advise(inputs, &finals, &advice.goal);
    let is_taken = |it: &advice::Advice| it.verdict.changes() || it.verdict == Verdict::Unproven;
    let choice = Some(chosen)
        .filter(is_taken)
        .and_then(|it| it.choice)
        .unwrap_or(finals.in_force);
    let parts = guest::exits_as(&choice.parts, &guest::never_polls(inputs, pool));
    let best = advice.choice.as_ref().filter(|_| advice.verdict.changes());
    let blocks = parts.get(1..).unwrap_or_default();
    let against = |guest: &Finalist<Params>| advice::compare(inputs, blocks, guest.blocks(), aim);
    OfHost {
        against_in_force: against(&of.in_force),
        against_guest: against(best.unwrap_or(&of.in_force)),
        choice,
        parts,
    }
}

/// A guest that keeps its CPU, less the best of what the guest and the host can do. Where polling is limited it
/// takes more than it may, and is not asked for.
fn of_cpu_pm(
    inputs: &Inputs,
    (of, advice, host): (&FinalRound<Params>, &Advice<Params>, &OfHost),
    pool: &Threads,
) -> Result<Comparison, Failure> {
    let aim = &advice.goal.aim;
    let parts = guest::parts_of(inputs, &CPU_PM.parse()?, pool)?;
    let best = advice.choice.as_ref().filter(|_| advice.verdict.changes());
    let guest = best.unwrap_or(&of.in_force);
    let blocks = if host.costs_less() {
        host.parts.get(1..).unwrap_or_default()
    } else {
        guest.blocks()
    };
    let own = parts.get(1..).unwrap_or_default();
    Ok(advice::compare(inputs, own, blocks, aim))
}

const CPU_PM: &str = "cpu-pm";

type Rows = Vec<(GuestRow, Played)>;

/// The rows of the table, and what a halt costs at the least.
fn rows(
    inputs: &Inputs,
    (of, advice, host): (&FinalRound<Params>, &Advice<Params>, &OfHost),
    host_polls: Option<Knobs>,
    pool: &Threads,
) -> Result<(Rows, f64), Failure> {
    let cost: &Cost = &advice.goal.aim.cost;
    let setting = |params: Params| Subject::Guest(guest::entry(&inputs.terms, params));
    let off = Params {
        guest_halt_poll_ns: 0,
        ..Params::default()
    };
    let of_host = Subject::Setting(host.choice.entry());
    let in_force = match host_polls {
        Some(knobs) => Subject::Setting(stage::Entry::new(knobs)),
        None => setting(of.in_force.knobs),
    };
    let mut rows = vec![
        (GuestRow::InForce, in_force),
        (GuestRow::Default, setting(of.default.knobs)),
    ];
    let choice = advice.choice.as_ref();
    rows.extend(choice.map(|choice| (GuestRow::Choice, setting(choice.knobs))));
    rows.extend([(GuestRow::Off, setting(off)), (GuestRow::Host, of_host)]);
    for (row, text) in [(GuestRow::IdlePoll, "idle-poll"), (GuestRow::CpuPm, CPU_PM)] {
        rows.push((row, Subject::Policy(text.parse()?)));
    }
    let mut subjects = vec![Subject::Policy("clairvoyant".parse()?)];
    subjects.extend(rows.iter().map(|(_, subject)| subject.clone()));
    let mut played = figures::figures(inputs, &subjects, cost, pool)?.into_iter();
    let least = played.next().map_or(0.0, |played| {
        let outcome = played.outcome;
        outcome.clairvoyant_milli as f64 / 1e3 / outcome.halts.max(1) as f64
    });
    let rows = rows.into_iter().map(|(row, _)| row).zip(played).collect();
    Ok((rows, least))
}
