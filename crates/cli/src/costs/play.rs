//! From a capture to the figures of its VMs: one pass, or two where not all halts find room in memory. Then the capture
//! is played stretch by stretch; the figures of the stretches add up.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_capture::table::Table;
use haltwise_core::costs::{self, VmCosts};
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::SpecError;
use haltwise_core::replay::GoalName;
use haltwise_core::replay::session::{SessionError, Survey};
use haltwise_core::tune::{Gather, Inputs, Keep, Terms};

use crate::SEED;
use crate::exit::{Exit, Failure};
use crate::prices::{self, GivenCosts, Known, refused};
use crate::reading::given::knobs_of;
use crate::reading::opened::Opened;
use crate::reading::pass::{Sink, pass};
use crate::recommend::candidates::{HaltSink, MOST_HALTS, Span, TuneRequest};
use crate::recommend::reach;
use crate::recommend::threads::Threads;

#[derive(Debug)]
pub(crate) struct PlayedCapture {
    pub(crate) vms: Vec<VmCosts>,
    pub(crate) version: Version,
    pub(crate) arch: Arch,
    pub(crate) known: Known,
    /// From the first halt to the end of the last, in nanoseconds.
    pub(crate) span_ns: u64,
    /// Halts that began before an earlier one of their vCPU, and were left out.
    pub(crate) out_of_order: u64,
}

pub(crate) fn play(opened: &Opened, given: &GivenCosts) -> Result<PlayedCapture, Failure> {
    opened.must_be_of_host("fleet add")?;
    let info = opened.info();
    if !info.mode.keeps_halts() {
        let error = anyhow::anyhow!("fleet add: the capture contains histograms, not single halts");
        return Err(
            Failure::new(Exit::Failed, error).hint("record with --mode full, which is the default")
        );
    }
    let tune = TuneRequest {
        costs: given.clone(),
        ..TuneRequest::of_goal(GoalName::Balanced, None)
    };
    let mut look = HaltSink::new(opened, &tune).with_recorded();
    let ends = pass(opened, "reading", &mut [&mut look]);
    let is_too_long = look.ended(&ends);
    let span = look.span();
    let (version, survey, gather) = look.finish()?;
    let known = prices::know(given, info.price.as_deref(), &survey)?;
    let arch = prices::arch_of(info);
    let (in_force, _) = knobs_of(&info.knobs, version, arch);
    let terms = Terms {
        elsewhere: known.elsewhere.clone(),
        seed: SEED,
        ..Terms::new(version, arch, in_force)
    };
    let mut sums = Summing {
        switch_cpu_ns: known.switch_cpu_ns,
        pool: Threads::new(),
        vms: BTreeMap::new(),
        out_of_order: 0,
        refused: None,
    };
    if is_too_long {
        let stretches = Stretches::new(opened, (terms, survey), span, sums);
        sums = stretches.play(opened)?;
    } else {
        sums.add(gather.finish(terms, survey));
    }
    if let Some(refused) = sums.refused {
        return Err(refused);
    }
    Ok(PlayedCapture {
        vms: sums.vms.into_values().collect(),
        version,
        arch,
        known,
        span_ns: span.length_ns(),
        out_of_order: sums.out_of_order,
    })
}

#[derive(Debug)]
struct Summing {
    switch_cpu_ns: u64,
    pool: Threads,
    vms: BTreeMap<Option<VmIndex>, VmCosts>,
    out_of_order: u64,
    refused: Option<Failure>,
}

impl Summing {
    fn add(&mut self, inputs: Result<Inputs, SessionError>) {
        let played = inputs.map_err(refused).and_then(|inputs| {
            self.out_of_order += inputs.out_of_order;
            let played = costs::costs(&inputs, self.switch_cpu_ns, &self.pool);
            played.map_err(|error: SpecError| Failure::from(error))
        });
        match played {
            Err(failure) => self.refused = Some(failure),
            Ok(vms) => {
                for vm in vms {
                    match self.vms.get_mut(&vm.vm) {
                        Some(known) => known.add(vm),
                        None => drop(self.vms.insert(vm.vm, vm)),
                    }
                }
            }
        }
    }
}

/// Takes halts in until a stretch of time is full, and plays that.
#[derive(Debug)]
struct Stretches {
    terms: Terms,
    survey: Survey,
    disabled: BTreeSet<(VmIndex, VcpuId)>,
    gather: Gather,
    end_ns: u64,
    length_ns: u64,
    sums: Summing,
}

impl Stretches {
    fn new(opened: &Opened, (terms, survey): (Terms, Survey), span: Span, sums: Summing) -> Self {
        let count = span.halts.div_ceil(MOST_HALTS).max(1);
        let length_ns = span.length_ns().div_ceil(count).max(1);
        Self {
            terms,
            survey,
            disabled: reach::disabled(opened.info()),
            gather: Gather::new(Keep::ALL).with_recorded(),
            end_ns: span.first_ns.saturating_add(length_ns),
            length_ns,
            sums,
        }
    }

    fn play(mut self, opened: &Opened) -> Result<Summing, Failure> {
        let ends = pass(opened, "playing", &mut [&mut self]);
        ends.whole(Table::Halts)?;
        self.end();
        Ok(self.sums)
    }

    fn end(&mut self) {
        let gather = std::mem::replace(&mut self.gather, Gather::new(Keep::ALL).with_recorded());
        if self.sums.refused.is_none() {
            let inputs = gather.finish_stretch(self.terms.clone(), &self.survey);
            self.sums.add(inputs);
        }
    }
}

impl Sink for Stretches {
    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        if reach::is_of(&self.disabled, halt.vm, halt.vcpu) {
            return;
        }
        if halt.start_ns >= self.end_ns {
            self.end();
            let ahead = (halt.start_ns - self.end_ns) / self.length_ns + 1;
            self.end_ns = self
                .end_ns
                .saturating_add(ahead.saturating_mul(self.length_ns));
        }
        self.gather.halt(halt);
    }
}
