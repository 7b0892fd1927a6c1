//! The host's own parameters, set through the only writer of settings, which records first what was there:
//! `haltwise undo` restores that even if this process is killed.

use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::kvm::Knobs;
use haltwise_host::knob::{Baseline, KnobError, Parameter, Proposal, Request, Writer};
use haltwise_host::root::Root;

use super::Sides;
use crate::exit::{Exit, Failure};
use crate::knob::of_kvm;

/// Whom the journal names.
const WHO: &str = "haltwise prove";

/// The parameters, while a proof sets them.
#[derive(Debug)]
pub(crate) struct Parameters {
    writer: Writer,
    /// Those that either setting changes.
    names: Vec<Parameter>,
    /// What they were when we came.
    before: Knobs,
    /// What was recorded when we came.
    baseline: Baseline,
    under: Option<Knobs>,
    /// The side whose ceilings are set.
    side: Option<bool>,
    /// Whether ceilings of VMs are set, and parameters.
    sets: (bool, bool),
    /// Whether anything may have been set since.
    touched: bool,
}

/// The parameters that either setting changes.
fn changed(sides: &Sides) -> Vec<Parameter> {
    let differs = |parameter: &Parameter| {
        let now = of_kvm(&sides.in_force, *parameter);
        of_kvm(&sides.a, *parameter) != now || of_kvm(&sides.b, *parameter) != now
    };
    // Where each VM has a ceiling of its own, nobody follows halt_poll_ns.
    let is_followed =
        |parameter: &Parameter| *parameter != Parameter::HaltPollNs || !sides.scopes.are_all_vms;
    Parameter::KVM
        .into_iter()
        .filter(is_followed)
        .filter(differs)
        .collect()
}

/// What would be written, for those who did not say --yes.
pub(super) fn refusal(sides: &Sides) -> Failure {
    let one = |parameter: Parameter| {
        let of = |knobs| of_kvm(knobs, parameter);
        let (now, a, b) = (of(&sides.in_force)?, of(&sides.a)?, of(&sides.b)?);
        Some(format!(
            "{parameter} to {a} and {b} alternately (now {now})"
        ))
    };
    let all: Vec<String> = changed(sides).into_iter().filter_map(one).collect();
    let host = if all.is_empty() {
        String::new()
    } else {
        format!("{} for all VMs of this host", all.join(", "))
    };
    let ceilings = sides.scopes.alternate(sides.a.halt_poll_ns);
    let and = if host.is_empty() || ceilings.is_empty() {
        ""
    } else {
        "; and "
    };
    let error = anyhow!("this would set {host}{and}{ceilings}: not without --yes");
    Failure::new(Exit::Usage, error).hint(format!(
        "the current values are restored at the end; or give a command that starts the VMs, with {} \
         where it takes their ceiling, and nothing on the host is changed",
        super::command::PLACE
    ))
}

impl Parameters {
    /// Takes the lock and looks whether both settings can be made.
    pub(super) fn take(root: &Root, sides: &Sides) -> Result<Self, Failure> {
        let writer = Writer::open(root, WHO, None).map_err(explain)?;
        let parameters = Self {
            baseline: writer.baseline().clone(),
            writer,
            names: changed(sides),
            before: sides.in_force,
            under: None,
            side: None,
            sets: (!sides.scopes.is_empty(), !changed(sides).is_empty()),
            touched: false,
        };
        for is_b in [false, true] {
            let request = parameters.request(sides, is_b);
            parameters.writer.propose(&request).map_err(explain)?;
        }
        Ok(parameters)
    }

    /// The directories in which that writes.
    pub(super) fn writes(&self) -> Vec<PathBuf> {
        self.writer.writes()
    }

    /// The name in data.
    pub(super) fn name(&self) -> &'static str {
        match self.sets {
            (true, true) => "host-parameters-and-vm-ceilings",
            (true, false) => "vm-ceilings",
            (false, _) => "host-parameters",
        }
    }

    fn request(&self, sides: &Sides, is_b: bool) -> Request {
        let knobs = sides.under(is_b);
        let pair = |parameter: &Parameter| Some((*parameter, of_kvm(&knobs, *parameter)?));
        Request {
            parameters: self.names.iter().filter_map(pair).collect(),
            ceilings: sides.scopes.request(sides.a.halt_poll_ns, is_b),
            ..Request::default()
        }
    }

    /// Puts a setting in force.
    pub(super) fn put(&mut self, sides: &Sides, is_b: bool) -> Result<(), Failure> {
        if self.side == Some(is_b) {
            return Ok(());
        }
        let request = self.request(sides, is_b);
        let proposal = self.writer.propose(&request).map_err(explain)?;
        self.look_for_others(&proposal)?;
        self.touched = true;
        self.writer.apply(&proposal).map_err(explain)?;
        (self.under, self.side) = (Some(sides.under(is_b)), Some(is_b));
        Ok(())
    }

    /// All is as we set it last, or as it was when we came, unless it was modified externally.
    fn look_for_others(&self, proposal: &Proposal) -> Result<(), Failure> {
        let expected = self.under.unwrap_or(self.before);
        let old = proposal.changes.iter().filter_map(|change| {
            let found = change.old.as_ref()?.parse().ok()?;
            Some((change.target.parameter()?, found))
        });
        let already = proposal.already.iter();
        let already = already.filter_map(|(target, found)| Some((target.parameter()?, *found)));
        let mut found = already.chain(old);
        let theirs = found.find_map(|(parameter, found)| {
            let was = of_kvm(&expected, parameter)?;
            (found != was).then_some((parameter, found, was))
        });
        let Some((parameter, found, was)) = theirs else {
            return Ok(());
        };
        let error = anyhow!(
            "{parameter} was modified externally to {found} (it was {was}) and is left alone"
        );
        Err(Failure::new(Exit::Failed, error)
            .hint("measure again when nothing else changes settings"))
    }

    /// Puts back what was in force before.
    pub(super) fn restore(&mut self) -> Result<(), Failure> {
        (self.under, self.side) = (None, None);
        if !std::mem::take(&mut self.touched) {
            return Ok(());
        }
        match self.writer.return_to(&self.baseline) {
            Ok(foreign) if foreign.is_empty() => Ok(()),
            Ok(foreign) => {
                let left = foreign.len();
                let error =
                    anyhow!("{left} of the parameters were modified externally and are left alone");
                Err(Failure::new(Exit::Failed, error)
                    .hint("`haltwise status` shows the current settings"))
            }
            Err(error) => {
                let error = anyhow::Error::new(error).context("restore the host's parameters");
                Err(Failure::new(Exit::Failed, error).hint("`haltwise undo` tries again"))
            }
        }
    }
}

impl Drop for Parameters {
    /// Whatever happens here, the host gets back what it had.
    fn drop(&mut self) {
        if let Err(failure) = self.restore() {
            crate::terminal::complain(&failure);
        }
    }
}

fn explain(error: KnobError) -> Failure {
    let (exit, hint) = match &error {
        KnobError::NoKvm | KnobError::Absent(_) | KnobError::ReadOnly { .. } => (
            Exit::Unsupported,
            "give a command that starts the VMs, with {halt_poll_ns} where it takes their ceiling",
        ),
        KnobError::Denied { .. } => (Exit::Denied, "run as root"),
        KnobError::Busy { .. } => (Exit::Failed, "wait until it has ended"),
        KnobError::Theirs(_) | KnobError::Meanwhile { .. } => (
            Exit::Failed,
            "the parameters were modified externally: run `haltwise undo` first",
        ),
        _ => (Exit::Failed, "`haltwise status` shows the current settings"),
    };
    Failure::new(exit, error).hint(hint)
}

#[cfg(test)]
mod test;
