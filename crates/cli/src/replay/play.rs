//! From a capture on disk to the results of every policy, in two passes over its halts.

use anyhow::anyhow;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{Setting, Spec, Start};
use haltwise_core::replay::session::{Plan, Session, SessionError, Survey, VcpuResult};
use haltwise_core::replay::{Arrivals, Cost};

use crate::exit::{Exit, Failure};
use crate::prices::price::{GivenPrice, Price};
use crate::prices::{self, GivenCosts, Known, refused};
use crate::reading::given::knobs_of;
use crate::reading::opened::Opened;
use crate::reading::pass::{Sink, pass};
use crate::reading::rule::KernelSought;

#[derive(Debug)]
pub(crate) struct ReplayRequest {
    pub(crate) specs: Vec<Spec>,
    pub(crate) latency_weight_milli: u64,
    pub(crate) costs: GivenCosts,
    pub(crate) price: GivenPrice,
}

pub(crate) struct Replayed {
    /// Results vCPU by vCPU, in order, each made when it is asked for.
    pub(super) seats: Box<dyn Iterator<Item = VcpuResult>>,
    pub(super) model: ReplayModel,
}

#[derive(Debug)]
pub(super) struct ReplayModel {
    pub(super) cost: Cost,
    pub(super) known: Known,
    pub(super) price: Price,
    /// The kernel whose rule `kvm` means.
    pub(super) version: Version,
    pub(super) arch: Arch,
    /// Parameters that the capture does not tell, taken at that kernel's defaults.
    pub(super) knobs_assumed: Vec<&'static str>,
}

pub(crate) fn play(opened: &Opened, request: ReplayRequest) -> Result<Replayed, Failure> {
    let info = opened.info();
    refuse_counts(info)?;
    let mut first = First {
        kernel: KernelSought::new(opened)?,
        survey: Survey::of(info.side),
    };
    let ends = pass(opened, "reading", &mut [&mut first]);
    let First { kernel, survey } = first;
    let version = kernel.finish(&ends);
    ends.whole(Table::Halts)?;
    let arch = prices::arch_of(info);
    let (knobs, knobs_assumed) = knobs_of(&info.knobs, version, arch);
    if survey.seats().next().is_none() {
        let error = anyhow!("this capture contains no halts: nothing to replay");
        return Err(Failure::new(Exit::Failed, error).hint("`haltwise report` says why"));
    }
    let known = prices::know(&request.costs, info.price.as_deref(), &survey)?;
    let price = Price::new(request.price, known.prices(info.side));
    let cost = price.on(Cost {
        switch_cpu_ns: known.switch_cpu_ns,
        latency_weight_milli: request.latency_weight_milli,
        ..Cost::FREE
    });
    let plan = Plan {
        specs: request.specs,
        cost,
        arrivals: Arrivals::BySource,
        elsewhere: known.elsewhere.clone(),
    };
    let side = info.side;
    let setting = move |halt: &Halt| Setting {
        version,
        side,
        arch,
        knobs,
        ceiling_ns: halt.ceiling_ns.unwrap_or(knobs.halt_poll_ns),
        break_even_ns: 0,
        start: Start::Zero,
    };
    let mut second = Second {
        session: Session::new(plan, survey, setting),
        played: Ok(()),
    };
    let ends = pass(opened, "replaying", &mut [&mut second]);
    second.played.map_err(refused)?;
    ends.whole(Table::Halts)?;
    Ok(Replayed {
        seats: Box::new(second.session.finish()),
        model: ReplayModel {
            cost,
            known,
            price,
            version,
            arch,
            knobs_assumed,
        },
    })
}

struct First {
    kernel: KernelSought,
    survey: Survey,
}

impl Sink for First {
    fn wants_calls(&self) -> bool {
        self.kernel.wants_calls()
    }

    fn halt(&mut self, halt: &Halt, call: Option<&WindowChange>) {
        self.kernel.halt(halt, call);
        self.survey.halt(halt);
    }
}

/// Plays in the second pass, until something cannot be played.
struct Second<F> {
    session: Session<F>,
    played: Result<(), SessionError>,
}

impl<F: Fn(&Halt) -> Setting> Sink for Second<F> {
    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        if self.played.is_ok() {
            self.played = self.session.halt(halt);
        }
    }
}

fn refuse_counts(info: &CaptureInfo) -> Result<(), Failure> {
    if info.mode.keeps_halts() {
        return Ok(());
    }
    let mode = info.mode;
    let error = anyhow!("this capture was made with --mode {mode} and contains no single halts");
    Err(Failure::new(Exit::Failed, error).hint(format!("record again without --mode {mode}")))
}
