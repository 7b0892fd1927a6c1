//! Many policies on every vCPU of a capture, in two passes over its halts.
//!
//! The first pass ([`Survey`]) learns how long wake-ups take; the second ([`Session`]) plays. Memory
//! depends on the number of vCPUs and policies, not on the length of the capture.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::arrivals::{Arrivals, Evidence, Follow};
use super::cost::Cost;
use super::latency::{Latencies, Price, Sources, Table, is_typical};
use super::outcome::Outcome;
use super::overrun::Overruns;
use super::run::{Frame, LeastCost, Run};
use super::sample::{Sample, sleep_and_latency_ns};
use crate::event::Halt;
use crate::hist::LogHist;
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::policy::{Setting, Spec, SpecError, Start};
use crate::recording::Side;
use crate::stats::Fold;

/// Key of a replayed vCPU, or of a thread that could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuKey {
    pub vm: Option<VmIndex>,
    pub vcpu: Option<VcpuId>,
    /// The thread, where nothing else tells it from others.
    pub tid: Option<Tid>,
}

impl VcpuKey {
    pub fn of(halt: &Halt) -> Self {
        Self {
            vm: halt.vm,
            vcpu: halt.vcpu,
            tid: (halt.vm.is_none() || halt.vcpu.is_none()).then_some(halt.tid),
        }
    }
}

/// Results of the first pass for a vCPU.
#[derive(Debug, Default)]
struct Learned {
    /// Latencies from a trial of another setting: a few halts that speak for themselves.
    tried: Latencies,
    latencies: Latencies,
    evidence: Evidence,
}

impl Learned {
    fn add_typical_to(&self, typical: &mut Latencies) {
        typical.add_typical(&self.tried);
        typical.add_typical(&self.latencies);
    }
}

/// The first pass: what the recorded sleeps tell of wake-ups, and of what follows them.
#[derive(Debug, Default)]
pub struct Survey {
    /// Boxed as all that is large, since a map keeps half of its room free.
    seats: BTreeMap<VcpuKey, Box<Learned>>,
    host: Latencies,
    /// Latencies of sleeps that began because another task wanted the CPU.
    disturbed: Latencies,
    /// Halts, and those of them whose polls were preempted.
    halts: u64,
    cut: u64,
    /// A guest's polls are its own: they say nothing of KVM's.
    is_of_guest: bool,
}

impl Survey {
    /// Survey of halts that were recorded on this side; the default is a survey of a host.
    pub fn of(side: Side) -> Self {
        Self {
            is_of_guest: !side.is_host(),
            ..Self::default()
        }
    }

    /// Adds a halt of a trial of another setting.
    pub fn tried(&mut self, halt: &Halt) {
        self.take(halt, |own| &mut own.tried);
    }

    pub fn halt(&mut self, halt: &Halt) {
        self.take(halt, |own| &mut own.latencies);
    }

    fn take(&mut self, halt: &Halt, latencies: impl Fn(&mut Learned) -> &mut Latencies) {
        let seat = VcpuKey::of(halt);
        let own = self.seats.entry(seat).or_default();
        own.evidence.halt(halt);
        if !self.is_of_guest {
            self.host.halt_ended(halt);
        }
        self.halts += 1;
        self.cut += u64::from(halt.is_preempted());
        latencies(own).halted();
        let Some((slept_ns, latency_ns)) = sleep_and_latency_ns(halt) else {
            return;
        };
        if halt.is_preempted() {
            self.disturbed.add(slept_ns, latency_ns);
            return;
        }
        latencies(own).add(slept_ns, latency_ns);
        self.host.add(slept_ns, latency_ns);
    }

    /// vCPUs whose halts were seen.
    pub fn seats(&self) -> impl Iterator<Item = VcpuKey> {
        self.seats.keys().copied()
    }

    /// The wake-up latency of the host's shortest sleeps: see [`Latencies::shortest_sleeps_ns`].
    pub fn shortest_sleeps_ns(&self) -> Option<[u64; 2]> {
        let sources = [&self.typical(), &self.host, &self.disturbed];
        sources.into_iter().find_map(Latencies::shortest_sleeps_ns)
    }

    fn typical(&self) -> Latencies {
        let mut typical = Latencies::default();
        for own in self.seats.values() {
            own.add_typical_to(&mut typical);
        }
        typical
    }

    /// How long after their windows halts of the host do not sleep.
    pub fn overruns(&self) -> Overruns {
        self.host.overruns()
    }

    /// The same; where this recording shows nothing, as measured another time.
    fn overruns_or(&self, elsewhere: Option<&Latencies>) -> Overruns {
        let others = elsewhere.map_or_else(Overruns::default, Latencies::overruns);
        self.overruns().or(others)
    }

    /// Inputs that are the same for all vCPUs. `elsewhere` was measured another time, on purpose.
    pub(crate) fn common(&self, elsewhere: Option<&Latencies>) -> Common {
        let host = self.typical();
        let mut common = Common {
            price: elsewhere
                .map(|measured| Price::new(measured, &host, is_typical(self.cut, self.halts))),
            vms: self.vms(),
            host,
            few: self.host.clone(),
            disturbed: self.disturbed.clone(),
            overruns: self.overruns_or(elsewhere),
            table: None,
        };
        common.table = Table::new(&common.sources(&[&common.host])).map(Arc::new);
        common
    }

    /// The same of one vCPU alone.
    pub fn table_of(&self, seat: VcpuKey, elsewhere: Option<&Latencies>) -> Option<Table> {
        let table = self.table(seat, &self.common(elsewhere))?;
        Some(Arc::unwrap_or_clone(table))
    }

    /// Typical latencies of each VM that has several vCPUs: the vCPUs of a VM stand side by side.
    fn vms(&self) -> BTreeMap<Option<VmIndex>, Latencies> {
        let mut vms = BTreeMap::new();
        let seats: Vec<_> = self.seats.iter().collect();
        for of_vm in seats.chunk_by(|(one, _), (next, _)| one.vm == next.vm) {
            if let [(first, _), _, ..] = of_vm {
                let mut typical = Latencies::default();
                for (_, own) in of_vm {
                    own.add_typical_to(&mut typical);
                }
                vms.insert(first.vm, typical);
            }
        }
        vms
    }

    /// Wake-up latencies of a vCPU: its own, its VM's, the host's, or those measured on purpose. `None` where none is
    /// known.
    pub(crate) fn table(&self, seat: VcpuKey, common: &Common) -> Option<Arc<Table>> {
        let own = self.seats.get(&seat);
        let own = own.into_iter().flat_map(|own| [&own.tried, &own.latencies]);
        let of_vm = common.vms.get(&seat.vm);
        let typical: Vec<&Latencies> = (own.chain(of_vm)).chain([&common.host]).collect();
        let sources = common.sources(&typical);
        if sources.answer_as(&common.sources(&[&common.host])) {
            return common.table.clone();
        }
        Table::new(&sources).map(Arc::new)
    }

    /// Forgets a vCPU that is not asked for again.
    pub(crate) fn forget(&mut self, seat: VcpuKey) {
        self.seats.remove(&seat);
    }

    /// How far a vCPU's gaps follow its wake-ups.
    pub fn follow(&self, seat: VcpuKey, arrivals: Arrivals) -> Follow {
        let nothing = Evidence::default();
        let evidence = self.seats.get(&seat).map(|own| &own.evidence);
        Follow::new(arrivals, evidence.unwrap_or(&nothing))
    }
}

/// Inputs that are the same for the tables of all vCPUs, and the table of vCPUs that saw too little themselves.
#[derive(Debug)]
pub(crate) struct Common {
    host: Latencies,
    vms: BTreeMap<Option<VmIndex>, Latencies>,
    price: Option<Price>,
    few: Latencies,
    disturbed: Latencies,
    overruns: Overruns,
    table: Option<Arc<Table>>,
}

impl Common {
    fn sources<'a>(&'a self, typical: &'a [&'a Latencies]) -> Sources<'a> {
        Sources {
            typical,
            price: self.price.as_ref(),
            few: [&self.few, &self.disturbed],
            overruns: self.overruns,
        }
    }
}

/// Inputs that hold for a whole session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub specs: Vec<Spec>,
    pub cost: Cost,
    /// Whether waking earlier makes the next gap longer.
    pub arrivals: Arrivals,
    /// Wake-up latencies measured another time, for lengths of sleep that the capture lacks.
    pub elsewhere: Option<Latencies>,
}

/// Why a replay cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A policy that cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("no sleep in this capture has a known wake-up latency")]
    NoLatency,
}

/// The results of one policy on one vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Played {
    /// As a new vCPU would begin.
    pub from_zero: Outcome,
    /// As one whose window stands at its ceiling would go on.
    pub from_ceiling: Outcome,
    /// Halts at which the two had different windows.
    pub apart: u64,
}

/// The results on one vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuResult {
    pub seat: VcpuKey,
    pub recorded: Outcome,
    /// Result under each policy, in the plan's order.
    pub played: Vec<Played>,
    pub gaps: LogHist,
    /// Halts that began before an earlier one, and were left out.
    pub out_of_order: u64,
}

impl Played {
    /// Whether the load has two steady states under this policy: starts that differ stay apart for
    /// more than [`BISTABLE_SHARE`] of the halts, and end apart in cost by as much.
    pub fn is_bistable(&self, cost: &Cost) -> bool {
        let (zero, ceiling) = (
            self.from_zero.cost_ns(cost),
            self.from_ceiling.cost_ns(cost),
        );
        let halts = self.from_zero.halts as f64;
        self.apart as f64 > BISTABLE_SHARE * halts
            && (zero - ceiling).abs() > BISTABLE_SHARE * zero.min(ceiling)
    }

    /// Adds the results on another vCPU.
    pub fn add(&mut self, other: &Self) {
        self.from_zero.fold(&other.from_zero);
        self.from_ceiling.fold(&other.from_ceiling);
        self.apart += other.apart;
    }
}

/// How far two starts may be apart, as a share of the halts and of the cheaper one's cost.
pub const BISTABLE_SHARE: f64 = 0.05;

/// State of one vCPU in the second pass.
#[derive(Debug)]
struct Player {
    table: Arc<Table>,
    follow: Follow,
    runs: Vec<TwoStarts>,
    recorded: Outcome,
    gaps: LogHist,
    turn: u64,
    first_ns: u64,
    last_start_ns: u64,
    last_end_ns: u64,
    out_of_order: u64,
    side: Side,
}

/// A policy without a window at first, and with its largest.
#[derive(Debug)]
struct TwoStarts {
    zero: Run,
    ceiling: Run,
    apart: u64,
}

#[derive(Debug)]
pub struct Session<F> {
    plan: Plan,
    survey: Survey,
    common: Common,
    setting: F,
    players: BTreeMap<VcpuKey, Box<Player>>,
}

impl<F: Fn(&Halt) -> Setting> Session<F> {
    /// Before the first halt. `setting` says what a vCPU's policies are built upon, from its first
    /// halt; [`Setting::start`] and [`Setting::break_even_ns`] are filled in here.
    pub fn new(plan: Plan, survey: Survey, setting: F) -> Self {
        Self {
            common: survey.common(plan.elsewhere.as_ref()),
            plan,
            survey,
            setting,
            players: BTreeMap::new(),
        }
    }

    /// Plays a halt under every policy.
    pub fn halt(&mut self, halt: &Halt) -> Result<(), SessionError> {
        let seat = VcpuKey::of(halt);
        let Self {
            plan,
            survey,
            common,
            setting,
            players,
        } = self;
        let player = match players.entry(seat) {
            Entry::Occupied(seated) => seated.into_mut(),
            Entry::Vacant(free) => {
                let player = Player::register(seat, plan, (survey, common), setting(halt), halt)?;
                survey.forget(seat);
                free.insert(Box::new(player))
            }
        };
        if halt.start_ns < player.last_start_ns {
            player.out_of_order += 1;
            return Ok(());
        }
        player.last_start_ns = halt.start_ns;
        player.last_end_ns = player.last_end_ns.max(halt.end_ns());
        let sample = Sample::new(halt, &player.table, player.turn);
        player.turn += 1;
        player.recorded.add_recorded(halt, &sample, player.side);
        player.gaps.record(sample.gap_ns);
        let frame = Frame {
            table: &player.table,
            cost: plan.cost,
            follow: player.follow,
        };
        let mut least_cost = LeastCost::default();
        for of in &mut player.runs {
            let [zero_ns, ceiling_ns] = [&mut of.zero, &mut of.ceiling]
                .map(|run| run.step_beside(&sample, &frame, Some(&mut least_cost)));
            of.apart += u64::from(zero_ns != ceiling_ns);
        }
        Ok(())
    }

    /// The results, vCPU by vCPU, each made when it is asked for.
    pub fn finish(self) -> impl Iterator<Item = VcpuResult> {
        let players = self.players.into_iter();
        players.map(|(seat, player)| player.finish(seat))
    }
}

impl Player {
    fn register(
        seat: VcpuKey,
        plan: &Plan,
        (survey, common): (&Survey, &Common),
        base: Setting,
        first: &Halt,
    ) -> Result<Self, SessionError> {
        let table = survey.table(seat, common);
        let table = table.ok_or(SessionError::NoLatency)?;
        let build = |spec: &Spec, start: Start| -> Result<Run, SpecError> {
            let break_even_ns = plan.cost.break_even_ns(table.median(0));
            let setting = Setting {
                break_even_ns,
                start,
                ..base
            };
            Ok(Run::new(spec.build(&setting)?))
        };
        let both = |spec| {
            Ok(TwoStarts {
                zero: build(spec, Start::Zero)?,
                ceiling: build(spec, Start::Ceiling)?,
                apart: 0,
            })
        };
        let runs = plan.specs.iter().map(both);
        let runs = runs.collect::<Result<_, SpecError>>()?;
        Ok(Self {
            table,
            follow: survey.follow(seat, plan.arrivals),
            runs,
            recorded: Outcome::default(),
            side: base.side,
            gaps: LogHist::default(),
            turn: 0,
            first_ns: first.start_ns,
            last_start_ns: 0,
            last_end_ns: 0,
            out_of_order: 0,
        })
    }

    fn finish(mut self, seat: VcpuKey) -> VcpuResult {
        let span_ns = self.last_end_ns.saturating_sub(self.first_ns);
        let halt_ns = self.recorded.halt_ns;
        // No longer than it was there, whatever a damaged recording says of its halts.
        self.recorded.span_ns = span_ns.max(halt_ns);
        let finish = |of: TwoStarts| Played {
            from_zero: of.zero.finish(span_ns, halt_ns),
            from_ceiling: of.ceiling.finish(span_ns, halt_ns),
            apart: of.apart,
        };
        let played: Vec<Played> = self.runs.into_iter().map(finish).collect();
        if let Some(first) = played.first() {
            self.recorded.clairvoyant_milli = first.from_zero.clairvoyant_milli;
        }
        VcpuResult {
            seat,
            recorded: self.recorded,
            played,
            gaps: self.gaps,
            out_of_order: self.out_of_order,
        }
    }
}
