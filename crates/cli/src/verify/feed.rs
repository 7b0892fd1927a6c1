//! Reads a capture's halts and calls through the verifier.

use haltwise_capture::table::Table;
use haltwise_core::event::{CeilingSource, Halt, WindowCall, WindowChange};
use haltwise_core::ids::VmIndex;
use haltwise_core::kvm::Knobs;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::policy::{Setting, Spec, Start};
use haltwise_core::recording::Side;
use haltwise_core::verify::tally::Tally;
use haltwise_core::verify::{Difference, Verdict, Verifier, guest, policy};

use crate::exit::{Exit, Failure};
use crate::reading::opened::{Opened, in_a_line};
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::rule::{GuestSetup, Setup};
use crate::reading::select;

#[derive(Debug, Default)]
pub(crate) struct Fed {
    pub(crate) tally: Tally,
    pub(crate) differences: Vec<Difference>,
    pub(crate) ceiling_assumed: u64,
    pub(crate) differences_assumed: u64,
    /// Halts that made a call which the table of calls does not have.
    pub(crate) calls_missing: u64,
    pub(crate) notes: Vec<String>,
}

enum Checker<'a> {
    Host(&'a Setup, Box<Verifier>),
    Guest(Box<guest::Verifier>),
    Policy(Box<policy::Verifier>),
}

impl Checker<'_> {
    fn check(&mut self, halt: &Halt, call: Option<&WindowChange>) -> Verdict {
        match self {
            Self::Host(_, verifier) => verifier.halt(halt, call),
            Self::Guest(verifier) => verifier.period(halt, call),
            Self::Policy(verifier) => verifier.halt(halt, call),
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Host(_, verifier) => verifier.tally(),
            Self::Guest(verifier) => verifier.tally(),
            Self::Policy(verifier) => verifier.tally(),
        }
    }

    fn assumes(&self, halt: &Halt) -> bool {
        match self {
            Self::Host(setup, _) => {
                setup.core.cap.is_none()
                    && halt.ceiling_ns.is_none()
                    && halt.ceiling_source != CeilingSource::Param
            }
            Self::Guest(_) | Self::Policy(_) => false,
        }
    }
}

struct Held<'a> {
    checker: Checker<'a>,
    vms: Option<&'a [VmIndex]>,
    shown: usize,
    fed: Fed,
}

impl Sink for Held<'_> {
    fn wants_calls(&self) -> bool {
        true
    }

    fn halt(&mut self, halt: &Halt, call: Option<&WindowChange>) {
        if !select::is_among(self.vms, halt.vm) {
            return;
        }
        let made_one = halt.change != WindowCall::None;
        self.fed.calls_missing += u64::from(made_one && call.is_none());
        let unknown = self.checker.assumes(halt);
        self.fed.ceiling_assumed += u64::from(unknown);
        if let Verdict::Differs(difference) = self.checker.check(halt, call) {
            self.fed.differences_assumed += u64::from(unknown);
            if self.fed.differences.len() < self.shown {
                self.fed.differences.push(*difference);
            }
        }
    }
}

/// Holds the halts of some VMs, or all, against the rule.
///
/// # Errors
/// Where nothing of the halts can be read. What breaks off counts up to there, with a note.
pub(crate) fn feed(
    opened: &Opened,
    setup: &Setup,
    vms: Option<&[VmIndex]>,
    shown: usize,
) -> Result<Fed, Failure> {
    let checker = match &setup.policy {
        None => Checker::Host(setup, Box::new(Verifier::new(setup.core.clone()))),
        Some(spec) => Checker::Policy(Box::new(of_policy(setup, spec)?)),
    };
    feed_to(opened, checker, vms, shown)
}

/// A policy as the recorded kernel has it in place of KVM's rule, from the start of each vCPU.
fn of_policy(setup: &Setup, spec: &Spec) -> Result<policy::Verifier, Failure> {
    let core = &setup.core;
    let first = Parameter::HOST.map(|it| (it, core.settings.track(it).first()));
    let knobs = Knobs::from(Values::from_iter(first));
    let setting = Setting {
        version: setup.kernel,
        side: Side::Host,
        arch: core.arch,
        knobs,
        ceiling_ns: core.cap.unwrap_or(knobs.halt_poll_ns),
        break_even_ns: 0,
        start: Start::Zero,
    };
    let evidence = (core.sight, core.losses.clone());
    policy::Verifier::new(spec.clone(), setting, evidence)
        .map_err(|error| Failure::new(Exit::Usage, anyhow::Error::new(error)))
}

/// Holds the idle periods of a guest against its governor's rule.
///
/// # Errors
/// As [`feed`].
pub(crate) fn feed_guest(
    opened: &Opened,
    setup: &GuestSetup,
    shown: usize,
) -> Result<Fed, Failure> {
    let verifier = Box::new(guest::Verifier::new(setup.core.clone()));
    feed_to(opened, Checker::Guest(verifier), None, shown)
}

fn feed_to(
    opened: &Opened,
    checker: Checker<'_>,
    vms: Option<&[VmIndex]>,
    shown: usize,
) -> Result<Fed, Failure> {
    let mut held = Held {
        checker,
        vms,
        shown,
        fed: Fed::default(),
    };
    let ends = pass(opened, "checking", &mut [&mut held]);
    if ends.halts == 0 {
        ends.whole(Table::Halts)?;
    }
    Ok(Fed {
        tally: held.checker.tally().clone(),
        notes: broken(&ends),
        ..held.fed
    })
}

fn broken(ends: &PassEnds) -> Vec<String> {
    let tables = [Table::Halts, Table::WindowChanges];
    let broken = tables.iter().filter_map(|table| ends.broken(*table));
    broken.map(in_a_line).collect()
}
