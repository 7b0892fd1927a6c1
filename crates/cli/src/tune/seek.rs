//! From a capture on disk to recommendations: a pass over its halts (two, if not all of them find room), then
//! the search.

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, HostSample};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::policy::Spec;
use haltwise_core::replay::session::Survey;
use haltwise_core::replay::{Arrivals, Cost, Outcome};
use haltwise_core::tune::advice::{self, Final};
use haltwise_core::tune::caps::{self, Caps};
use haltwise_core::tune::figures::{self, OF_ANY_KIND, Subject};
use haltwise_core::tune::search::{self, Aim, Found};
use haltwise_core::tune::stage::{CeilingsOf, Entry};
use haltwise_core::tune::{Advice, Gather, Goal, Keep, Material, Terms};

use super::goal::Named;
use super::threads::Threads;
use crate::exit::{Exit, Failure};
use crate::replay::costs::{self, Known, Told};
use crate::replay::play::{Clock, each_halt, kernel_of, knobs_of, refused};

/// What is sought.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    /// The weight of latency, in thousandths, and what to call it.
    pub(crate) weight: (String, u64),
    /// The most that polling may take, in % of one CPU.
    pub(crate) max_poll_cpu_percent: Option<f64>,
    /// Whose halts count; all if `None`.
    pub(crate) vms: Option<Vec<VmIndex>>,
    /// Whether waking earlier makes the next gap longer.
    pub(crate) arrivals: Arrivals,
    /// What the command line says of costs.
    pub(crate) told: Told<'a>,
    /// The kernel, if not the capture's.
    pub(crate) kernel: Option<Version>,
    /// The port, if not the capture's.
    pub(crate) arch: Option<Arch>,
    /// Seed of all draws.
    pub(crate) seed: u64,
    /// Only the ceiling is sought.
    pub(crate) ceiling_only: bool,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Sought {
    /// The halts and what holds for them.
    pub(crate) material: Material,
    /// What is known about blocks.
    pub(crate) known: Known,
    /// Parameters that the capture does not tell.
    pub(crate) knobs_assumed: Vec<&'static str>,
    /// How many settings were looked at.
    pub(crate) looked_at: usize,
    /// Who came into the final.
    pub(crate) of: Final,
    /// The recommendation that was asked for.
    pub(crate) advice: Advice,
    /// One for each goal that has a name.
    pub(crate) others: Vec<Advice>,
    /// Ceilings for each VM of its own.
    pub(crate) caps: Option<Caps>,
    /// With all figures: in force, default, the choice (if any), the clairvoyant.
    pub(crate) rows: Vec<(Row, Outcome)>,
    /// The cheapest policy of any kind.
    pub(crate) best_policy: Option<(String, Outcome)>,
    /// What the host's CPUs were idle, in % of one CPU.
    pub(crate) idle_cpu_percent: Option<f64>,
    /// vCPUs whose guest switched host polling off, left out.
    pub(crate) vetoed_vcpus: u64,
}

/// Whose figures these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Row {
    /// The setting in force when recorded.
    InForce,
    /// The kernel's default.
    Default,
    /// The recommendation, or what came nearest to one.
    Choice,
    /// The bound.
    Clairvoyant,
}

/// Halts that are kept in memory at most: 2 GB. More are thinned by stretches of time.
const MOST_HALTS: u64 = 32_000_000;

/// Seeks.
pub(crate) fn seek(capture: &Capture, wish: &Wish<'_>) -> Result<Sought, Failure> {
    let info = capture.info();
    let version = kernel_of(info, wish.kernel)?;
    let arch = arch_of(capture, wish);
    let (in_force, knobs_assumed) = knobs_of(&info.knobs, version, arch);
    let (survey, known, gather) = look(capture, wish)?;
    let terms = Terms {
        version,
        arch,
        in_force,
        arrivals: wish.arrivals,
        elsewhere: known.elsewhere.clone(),
        seed: wish.seed,
        ceiling_only: wish.ceiling_only,
    };
    let material = gather.finish(terms, &survey).map_err(refused)?;
    if material.seats.is_empty() {
        let error = anyhow!(
            "every vCPU of this capture that halted has host polling switched off by its guest: no \
             setting of this host reaches them"
        );
        return Err(Failure::new(Exit::Failed, error).hint(
            "the guest decides: see its parameter guest_halt_poll_ns and MSR_KVM_POLL_CONTROL",
        ));
    }
    let idle_cpu_percent = idle_cpu_percent(capture);
    let possible = idle_cpu_percent.map(|idle| idle + material.recorded_poll_cpu_percent());
    let goals = goals(wish, known.switch_cpu_ns, possible);
    let crew = Threads::new();
    let aims: Vec<Aim> = goals.iter().map(|goal| goal.aim).collect();
    let found: Vec<Found> = search::search(&material, &aims, &crew);
    let of = advice::play_final(&material, &found, &aims, &crew);
    let mut advices = goals
        .iter()
        .map(|goal| advice::advise(&material, &of, goal));
    let Some(advice) = advices.next() else {
        return Err(Failure::new(Exit::Failed, anyhow!("no goal to tune for")));
    };
    let others = advices.collect();
    let base = base(&advice, &in_force);
    let cost = &advice.goal.aim.cost;
    let caps = caps::seek(&material, &base, cost, &crew);
    let (rows, best_policy) = figures(&material, &advice, cost, &crew)?;
    Ok(Sought {
        looked_at: found.len(),
        of,
        others,
        caps,
        rows,
        best_policy,
        advice,
        known,
        knobs_assumed,
        idle_cpu_percent,
        vetoed_vcpus: vetoed(capture).len() as u64,
        material,
    })
}

/// The port of a capture.
pub(super) fn arch_of(capture: &Capture, wish: &Wish<'_>) -> Arch {
    let recorded = || Arch::of_machine(&capture.info().host.arch).unwrap_or(Arch::X86);
    wish.arch.unwrap_or_else(recorded)
}

/// What is asked for first, then every goal that has a name.
pub(super) fn goals(
    wish: &Wish<'_>,
    switch_cpu_ns: u64,
    possible_poll_cpu_percent: Option<f64>,
) -> Vec<Goal> {
    let goal = |name: &str, latency_weight_milli| Goal {
        name: name.to_owned(),
        aim: Aim {
            cost: Cost {
                switch_cpu_ns,
                latency_weight_milli,
            },
            max_poll_cpu_percent: wish.max_poll_cpu_percent,
            possible_poll_cpu_percent,
        },
    };
    let mut goals = vec![goal(&wish.weight.0, wish.weight.1)];
    let named = Named::ALL.map(|named| goal(named.as_str(), named.weight_milli()));
    goals.extend(named);
    goals
}

/// What the host's CPUs were idle while recorded, in % of one CPU; `None` where that was not sampled.
pub(super) fn idle_cpu_percent(capture: &Capture) -> Option<f64> {
    let samples = capture.host_samples().ok()?;
    let samples: Vec<HostSample> = samples.map_while(Result::ok).collect();
    let (first, last) = (samples.first()?, samples.last()?);
    let total_ns = last
        .total_ns
        .checked_sub(first.total_ns)
        .filter(|&ns| ns > 0)?;
    let busy_ns = last.busy_ns.checked_sub(first.busy_ns)?;
    let idle = 1.0 - busy_ns as f64 / total_ns as f64;
    Some(100.0 * idle.max(0.0) * f64::from(last.cpus))
}

/// The setting that stands after the recommendation is followed.
pub(crate) fn base(advice: &Advice, in_force: &Knobs) -> Knobs {
    match &advice.choice {
        Some(choice) if advice.verdict.changes() => choice.knobs,
        _ => *in_force,
    }
}

/// Halts, and the time from the first to the last.
#[derive(Debug, Clone, Copy)]
struct Span {
    halts: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Span {
    fn length_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

fn counts(wish: &Wish<'_>, halt: &Halt) -> bool {
    let of = |vms: &Vec<VmIndex>| halt.vm.is_some_and(|vm| vms.contains(&vm));
    wish.vms.as_ref().is_none_or(of)
}

/// vCPUs that no setting reaches: their guests switched host polling off.
fn vetoed(capture: &Capture) -> Vec<(VmIndex, VcpuId)> {
    let vcpus = capture.info().roster.vcpus.iter();
    let vetoed = vcpus.filter(|vcpu| vcpu.guest_veto == Some(true));
    vetoed.map(|vcpu| (vcpu.vm, vcpu.id)).collect()
}

/// What wake-ups take, and the halts in memory, but for those of vCPUs that no setting reaches.
fn look(capture: &Capture, wish: &Wish<'_>) -> Result<(Survey, Known, Gather), Failure> {
    let vetoed = vetoed(capture);
    let is_vetoed = |halt: &Halt| {
        let seat = halt.vm.zip(halt.vcpu);
        seat.is_some_and(|seat| vetoed.contains(&seat))
    };
    let has_room = (capture.rows(Table::Halts)).is_some_and(|rows| rows <= MOST_HALTS);
    let mut gather = Gather::new(Keep::ALL);
    let mut survey = Survey::default();
    let mut span = Span {
        halts: 0,
        first_ns: u64::MAX,
        last_ns: 0,
    };
    let mut clock = Clock::start(capture);
    each_halt(capture, &mut clock, "looking", |halt| {
        if counts(wish, halt) {
            survey.halt(halt);
            span.halts += 1;
            span.first_ns = span.first_ns.min(halt.start_ns);
            span.last_ns = span.last_ns.max(halt.end_ns());
            if has_room && !is_vetoed(halt) {
                gather.halt(halt);
            }
        }
        Ok(())
    })?;
    if span.halts == 0 {
        let whose = if wish.vms.is_some() {
            "the VM that was asked for has no halts in this capture"
        } else {
            "this capture holds no halts"
        };
        let rows = capture.rows(Table::Halts).unwrap_or(0);
        let error = anyhow!("{whose}: there is nothing to tune by ({rows} halts in all)");
        return Err(Failure::new(Exit::Failed, error).hint("`haltwise report` says why"));
    }
    let known = costs::know(&wish.told, &survey)?;
    if !has_room {
        gather = Gather::new(Keep::at_most(MOST_HALTS, span.halts, span.length_ns()));
        each_halt(capture, &mut clock, "reading", |halt| {
            if counts(wish, halt) && !is_vetoed(halt) {
                gather.halt(halt);
            }
            Ok(())
        })?;
    }
    Ok((survey, known, gather))
}

type Rows = Vec<(Row, Outcome)>;

/// The rows of the page, and the cheapest policy of any kind.
fn figures(
    material: &Material,
    advice: &Advice,
    cost: &Cost,
    crew: &Threads,
) -> Result<(Rows, Option<(String, Outcome)>), Failure> {
    let in_force = Entry {
        ceilings: CeilingsOf::Recorded,
        ..Entry::new(material.terms.in_force)
    };
    let mut rows = vec![
        (Row::InForce, Subject::Setting(in_force)),
        (
            Row::Default,
            Subject::Setting(Entry::new(material.terms.default_knobs())),
        ),
    ];
    if let Some(choice) = &advice.choice {
        rows.push((Row::Choice, Subject::Setting(Entry::new(choice.knobs))));
    }
    rows.push((Row::Clairvoyant, Subject::Policy("clairvoyant".parse()?)));
    let policies: Vec<Spec> = OF_ANY_KIND
        .iter()
        .map(|name| name.parse())
        .collect::<Result<_, _>>()?;
    let mut subjects: Vec<Subject> = rows.iter().map(|(_, subject)| subject.clone()).collect();
    subjects.extend(policies.into_iter().map(Subject::Policy));
    let mut outcomes = figures::figures(material, &subjects, cost, crew)?;
    let of_policies = outcomes.split_off(rows.len());
    let by_cost =
        |a: &(&str, Outcome), b: &(&str, Outcome)| a.1.cost_ns(cost).total_cmp(&b.1.cost_ns(cost));
    let best = OF_ANY_KIND.into_iter().zip(of_policies).min_by(by_cost);
    let rows = rows.into_iter().map(|(row, _)| row).zip(outcomes).collect();
    Ok((rows, best.map(|(name, outcome)| (name.to_owned(), outcome))))
}
