//! From the halts of a capture to recommendations: a pass over them (two, if not all of them find room), then the
//! search.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use haltwise_capture::table::Table;
use haltwise_core::account::ledger::Ledger;
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::kvm::{Knobs, Version};
use haltwise_core::pilot::guards::is_contended;
use haltwise_core::recording::Side;
use haltwise_core::replay::calibration::drifts_percent;
use haltwise_core::replay::session::Survey;
use haltwise_core::replay::{Cost, GoalName};
use haltwise_core::tune::advice::{self, Comparison};
use haltwise_core::tune::figures::{self, LEADER, Played, Subject};
use haltwise_core::tune::final_round::{self, FinalRound};
use haltwise_core::tune::search::{self, Aim, Found};
use haltwise_core::tune::stage::Entry;
use haltwise_core::tune::{Advice, Gather, Goal, Inputs, Keep, Terms};

use super::caps::{self, CeilingsFor, OwnCeilings};
use super::guest;
use super::reach;
use super::threads::Threads;
use crate::SEED;
use crate::exit::{Exit, Failure};
use crate::prices::{self, GivenCosts, Known, refused};
use crate::reading::given::knobs_of;
use crate::reading::opened::{Broken, Opened, explain_shared};
use crate::reading::pass::{PassEnds, Sink};
use crate::reading::rule::KernelSought;
use crate::reading::select;

#[derive(Debug)]
pub(crate) struct TuneRequest {
    pub(crate) goal: GoalName,
    pub(crate) goals: BTreeMap<VmIndex, GoalName>,
    pub(crate) ceilings: CeilingsFor,
    /// The most that polling may take, in % of one CPU.
    pub(crate) max_poll_cpu_percent: Option<f64>,
    /// VMs whose halts count; all if `None`.
    pub(crate) vms: Option<Vec<VmIndex>>,
    pub(crate) costs: GivenCosts,
    pub(crate) ceiling_only: bool,
    pub(crate) extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The recommendation in short.
    Setting,
    /// It, and the current setting, the default and no polling with all figures.
    WithOff,
    /// All that `tune` says: bounds, other policies, a ceiling for each VM.
    All,
}

impl TuneRequest {
    /// Request of a command line that gives no more than a goal.
    pub(crate) fn of_goal(goal: GoalName, vms: Option<Vec<VmIndex>>) -> Self {
        Self {
            goal,
            goals: BTreeMap::new(),
            ceilings: CeilingsFor::Settable,
            max_poll_cpu_percent: None,
            vms,
            costs: GivenCosts::default(),
            ceiling_only: false,
            extent: Extent::Setting,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Candidates {
    pub(crate) inputs: Inputs,
    pub(crate) known: Known,
    /// Parameters that the capture does not tell.
    pub(crate) knobs_assumed: Vec<&'static str>,
    pub(crate) looked_at: usize,
    pub(crate) of: FinalRound,
    pub(crate) advice: Advice,
    pub(crate) goals: BTreeMap<VmIndex, GoalName>,
    /// One for each goal that has a name.
    pub(crate) others: [Advice; 3],
    pub(crate) caps: Option<OwnCeilings>,
    /// With all figures, in the order of [`SettingRow`]; none for [`Extent::Setting`].
    pub(crate) rows: Vec<(SettingRow, Played)>,
    pub(crate) best_policy: Option<(String, Played)>,
    /// No polling against what is in force; none for [`Extent::Setting`].
    pub(crate) off: Option<Comparison>,
    /// Idle time of the host's CPUs, in % of one CPU.
    pub(crate) idle_cpu_percent: Option<f64>,
    /// Tasks waited for CPUs: no setting that polls more is recommended.
    pub(crate) contended: bool,
    /// vCPUs whose guest switched host polling off, left out.
    pub(crate) vetoed_vcpus: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SettingRow {
    InForce,
    Default,
    /// The recommendation, or what came nearest to one.
    Choice,
    /// No polling.
    Off,
    Clairvoyant,
}

/// Halts that are kept in memory at most: 1 GB. More are thinned by stretches of time.
pub(crate) const MOST_HALTS: u64 = 32_000_000;

pub(crate) fn search(
    opened: &Opened,
    request: &TuneRequest,
    look: HaltSink,
) -> Result<Candidates, Failure> {
    let info = opened.info();
    let (version, survey, gather) = look.finish()?;
    let known = prices::know(&request.costs, info.price.as_deref(), &survey)?;
    let arch = prices::arch_of(info);
    let (in_force, knobs_assumed) = knobs_of(&info.knobs, version, arch);
    let terms = Terms {
        elsewhere: known.elsewhere.clone(),
        seed: SEED,
        ceiling_only: request.ceiling_only || reach::have_own(info, request.vms.as_deref()),
        weights_milli: (request.goals.iter())
            .map(|(vm, goal)| (*vm, goal.weight_milli()))
            .collect(),
        ..Terms::new(version, arch, in_force)
    };
    let mut inputs = gather.finish(terms, survey).map_err(refused)?;
    inputs.take_own_ceiling();
    if inputs.seats.is_empty() {
        return Err(all_disabled());
    }
    let idle_cpu_percent = idle_cpu_percent(opened);
    let contended = contended(opened);
    let room = contended.then_some(0.0).or(idle_cpu_percent);
    let possible = room.map(|room| room + inputs.recorded_poll_cpu_percent());
    let goals = goals(request, &known, possible, contended);
    let pool = Threads::new();
    let aims = goals.each_ref().map(|goal| goal.aim);
    let found: Vec<Found> = search::search(&inputs, &aims, &pool);
    let of = final_round::play_final(&inputs, &found, &aims, &pool);
    let [advice, others @ ..] = goals.map(|goal| advice::advise(&inputs, &of, &goal));
    let caps = match request.extent {
        Extent::Setting | Extent::WithOff => None,
        Extent::All => caps::search(info, request, (&inputs, &of, &advice), &pool)?,
    };
    let with_off = request.extent != Extent::Setting;
    let off = (of.all()).find(|it| it.knobs.halt_poll_ns == 0 && with_off);
    let aim = &advice.goal.aim;
    let off = off.map(|off| advice::compare_finalists(&inputs, off, &of.in_force, aim));
    let (rows, best_policy) = figures(&inputs, (&of, &advice), request.extent, &pool)?;
    Ok(Candidates {
        looked_at: found.len(),
        of,
        others,
        caps,
        rows,
        best_policy,
        off,
        advice,
        goals: request.goals.clone(),
        known,
        knobs_assumed,
        idle_cpu_percent,
        contended,
        vetoed_vcpus: reach::disabled(info).len() as u64,
        inputs,
    })
}

/// The requested goal first, then every goal that has a name.
pub(super) fn goals(
    request: &TuneRequest,
    known: &Known,
    possible_poll_cpu_percent: Option<f64>,
    contended: bool,
) -> [Goal; 4] {
    let goal = |named: GoalName| Goal {
        name: named.as_str().to_owned(),
        aim: Aim {
            cost: Cost {
                switch_cpu_ns: known.switch_cpu_ns,
                latency_weight_milli: named.weight_milli(),
                ..Cost::FREE
            },
            switch_cpu_ends_ns: known.switch_cpu_ends_ns,
            drifts_percent: drifts_percent(contended),
            max_poll_cpu_percent: request.max_poll_cpu_percent,
            possible_poll_cpu_percent,
        },
    };
    let [density, balanced, latency] = GoalName::ALL;
    [request.goal, density, balanced, latency].map(goal)
}

/// Idle time of the host's CPUs while recorded, in % of one CPU; `None` where it was not sampled.
pub(super) fn idle_cpu_percent(opened: &Opened) -> Option<f64> {
    let samples = &opened.host_samples().rows;
    let (first, last) = (samples.first()?, samples.last()?);
    let total_ns = last
        .total_ns
        .checked_sub(first.total_ns)
        .filter(|&ns| ns > 0)?;
    let busy_ns = last.busy_ns.checked_sub(first.busy_ns)?;
    let idle = 1.0 - busy_ns as f64 / total_ns as f64;
    Some(100.0 * idle.max(0.0) * f64::from(last.cpus))
}

/// Whether the host's CPUs were contended, as the pilot's guards have it.
pub(super) fn contended(opened: &Opened) -> bool {
    let mut ledger = Ledger::default();
    opened
        .host_samples()
        .rows
        .iter()
        .for_each(|sample| ledger.host(sample));
    let host = &ledger.host;
    let vcpus = opened.info().roster.vcpus.len() as u64;
    let cpus = opened.info().host.cpus;
    host.busy_cpus()
        .is_some_and(|busy| is_contended(cpus, vcpus, busy, host.cpu_pressure()))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) halts: u64,
    pub(crate) first_ns: u64,
    last_ns: u64,
}

impl Span {
    pub(crate) fn length_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

pub(super) fn all_disabled() -> Failure {
    let error = anyhow!(
        "on every vCPU of this capture that halted the guest disabled host polling: no setting of this \
         host affects them"
    );
    Failure::new(Exit::Failed, error)
        .hint("the guest decides: see its parameter guest_halt_poll_ns and MSR_KVM_POLL_CONTROL")
}

/// Takes the halts in: what wake-ups take, and the halts in memory, but for those of vCPUs that no setting reaches.
#[derive(Debug)]
pub(crate) struct HaltSink {
    vms: Option<Vec<VmIndex>>,
    vetoed: BTreeSet<(VmIndex, VcpuId)>,
    kernel: Option<Result<KernelSought, Failure>>,
    version: Option<Result<Version, Failure>>,
    survey: Survey,
    span: Span,
    /// Whether this pass gathers: not the first one where not all halts find room.
    gathers: bool,
    gather: Gather,
    rows: u64,
    most: u64,
    broken: Option<Broken>,
}

impl HaltSink {
    pub(crate) fn new(opened: &Opened, request: &TuneRequest) -> Self {
        let rows = opened.capture().rows(Table::Halts);
        let most = match opened.info().side {
            Side::Host => MOST_HALTS,
            Side::Guest => guest::MOST_PERIODS,
        };
        Self {
            vms: request.vms.clone(),
            vetoed: reach::disabled(opened.info()),
            kernel: Some(KernelSought::new(opened)),
            version: None,
            survey: Survey::of(opened.info().side),
            span: Span {
                halts: 0,
                first_ns: u64::MAX,
                last_ns: 0,
            },
            gathers: rows.is_some_and(|rows| rows <= most),
            gather: Gather::new(Keep::ALL),
            rows: rows.unwrap_or(0),
            most,
            broken: None,
        }
    }

    /// The same that keeps what was recorded of each halt, too.
    #[must_use]
    pub(crate) fn with_recorded(self) -> Self {
        Self {
            gather: self.gather.with_recorded(),
            ..self
        }
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// A pass has ended; whether there must be another.
    pub(crate) fn ended(&mut self, ends: &PassEnds) -> bool {
        if self.broken.is_none() {
            self.broken = ends.broken(Table::Halts).cloned();
        }
        if let Some(kernel) = self.kernel.take() {
            self.version = Some(kernel.map(|kernel| kernel.finish(ends)));
        }
        let span = &self.span;
        if self.gathers || span.halts == 0 || self.broken.is_some() {
            return false;
        }
        self.gathers = true;
        let keep = Keep::at_most(self.most, span.halts, span.length_ns());
        self.gather = Gather::new(keep);
        true
    }

    pub(crate) fn finish(self) -> Result<(Version, Survey, Gather), Failure> {
        let nobody = || Failure::new(Exit::Failed, anyhow!("the halts were not read"));
        let version = self.version.unwrap_or_else(|| Err(nobody()))?;
        if let Some(broken) = &self.broken {
            return Err(explain_shared(broken));
        }
        if self.span.halts == 0 {
            let whose = if self.vms.is_some() {
                "the selected VM has no halts in this capture"
            } else {
                "this capture contains no halts"
            };
            let rows = self.rows;
            let error = anyhow!("{whose}, so there is nothing to tune ({rows} halts in total)");
            return Err(Failure::new(Exit::Failed, error).hint("`haltwise report` says why"));
        }
        Ok((version, self.survey, self.gather))
    }
}

impl Sink for HaltSink {
    fn wants_calls(&self) -> bool {
        matches!(&self.kernel, Some(Ok(kernel)) if kernel.wants_calls())
    }

    fn halt(&mut self, halt: &Halt, call: Option<&WindowChange>) {
        let is_first = self.version.is_none();
        if let Some(Ok(kernel)) = &mut self.kernel {
            kernel.halt(halt, call);
        }
        if !select::is_among(self.vms.as_deref(), halt.vm) {
            return;
        }
        if is_first {
            self.survey.halt(halt);
            self.span.halts += 1;
            self.span.first_ns = self.span.first_ns.min(halt.start_ns);
            self.span.last_ns = self.span.last_ns.max(halt.end_ns());
        }
        if self.gathers && !reach::is_of(&self.vetoed, halt.vm, halt.vcpu) {
            self.gather.halt(halt);
        }
    }
}

type Rows = Vec<(SettingRow, Played)>;

/// Settings with all figures, which are played one by one, and the policy that learns; none where the recommendation is all
/// that is asked.
fn figures(
    inputs: &Inputs,
    (of, advice): (&FinalRound, &Advice),
    extent: Extent,
    pool: &Threads,
) -> Result<(Rows, Option<(String, Played)>), Failure> {
    if extent == Extent::Setting {
        return Ok((Vec::new(), None));
    }
    let cost = &advice.goal.aim.cost;
    let mut entries = vec![
        (SettingRow::InForce, of.in_force.entry().recorded()),
        (SettingRow::Default, of.default.entry()),
    ];
    let choice = advice.choice.as_ref();
    entries.extend(choice.map(|choice| (SettingRow::Choice, choice.entry())));
    let off = Knobs {
        halt_poll_ns: 0,
        ..inputs.terms.in_force
    };
    entries.push((SettingRow::Off, Entry::new(off)));
    let subjects = entries
        .into_iter()
        .map(|(row, entry)| (row, Subject::Setting(entry)));
    let (mut rows, mut subjects): (Vec<_>, Vec<_>) = subjects.unzip();
    if extent == Extent::All {
        rows.push(SettingRow::Clairvoyant);
        subjects.push(Subject::Policy("clairvoyant".parse()?));
        subjects.push(Subject::Policy(LEADER.parse()?));
    }
    let mut played = figures::figures(inputs, &subjects, cost, pool)?;
    let leader = played.split_off(rows.len()).pop();
    let rows = rows.into_iter().zip(played).collect();
    Ok((rows, leader.map(|played| (LEADER.to_owned(), played))))
}
