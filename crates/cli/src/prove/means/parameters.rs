//! The machine's own parameters, set through the only writer of settings, which records first what was there:
//! `haltwise undo` restores that even if this process is killed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use haltwise_core::parameter::Parameter;
use haltwise_host::cpus;
use haltwise_host::knob::{Baseline, KnobError, Proposal, Request, Target, Writer};
use haltwise_host::root::Root;

use super::{Sides, Which};
use crate::exit::{Exit, Failure};

const WHO: &str = "haltwise prove";

#[derive(Debug)]
pub(crate) struct Parameters {
    writer: Writer,
    root: Root,
    /// Those that are set: of a host those that either setting changes, of a guest all.
    names: Vec<Parameter>,
    baseline: Baseline,
    /// The setting of a host that is in force; `None` where nothing of ours is.
    under: Option<Which>,
    /// Values that must still be in force: as last set here, or as they were at the start.
    expected: BTreeMap<Parameter, u32>,
    is_of_guest: bool,
    /// How long a CPU of a guest sleeps to leave its limit behind.
    stay: Duration,
    /// Whether ceilings of VMs are set, and parameters.
    sets: (bool, bool),
    /// Whether anything may have been set since.
    touched: bool,
}

fn changed(sides: &Sides) -> Vec<Parameter> {
    let [now, a, b] = sides.values;
    let differs = |it: Parameter| a.get(it) != now.get(it) || b.get(it) != now.get(it);
    // Where each VM has a ceiling of its own, no VM follows halt_poll_ns.
    let is_followed = |it: Parameter| it != Parameter::HaltPollNs || !sides.scopes.are_all_vms;
    let all = now.iter().map(|(it, _)| it);
    all.filter(|it| is_followed(*it) && differs(*it)).collect()
}

/// Longer than any limit lasts that may have grown: up to 4.3 s on each CPU, if the user sets such a limit.
fn stay(sides: &Sides) -> Duration {
    let ceilings = sides.values.map(|of| of.get(Parameter::GuestHaltPollNs));
    let ceiling_ns = ceilings.into_iter().flatten().max().unwrap_or(0);
    Duration::from_nanos(ceiling_ns.into()) + Duration::from_millis(1)
}

/// Lists the values that would be written, for users who did not say --yes.
pub(super) fn refusal(sides: &Sides) -> Failure {
    let one = |parameter: Parameter| {
        let [now, a, b] = sides.values.map(|of| of.get(parameter));
        let [now, a, b] = [now?, a?, b?].map(|value| parameter.written(value));
        Some(format!(
            "{parameter} to {a} and {b} alternately (now {now})"
        ))
    };
    let all: Vec<String> = changed(sides).into_iter().filter_map(one).collect();
    if !sides.side.is_host() {
        let error = anyhow!(
            "this would set {} in this guest: not without --yes",
            all.join(", ")
        );
        return Failure::new(Exit::Usage, error).hint("the current values are restored at the end");
    }
    let host = if all.is_empty() {
        String::new()
    } else {
        format!("{} for all VMs of this host", all.join(", "))
    };
    let ceilings = sides.scopes.alternate(sides.ceiling_ns(false));
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
        let writer = Writer::open(root, WHO).map_err(explain)?;
        let is_of_guest = !sides.side.is_host();
        let names = if is_of_guest {
            sides
                .values(Which::InForce)
                .iter()
                .map(|(it, _)| it)
                .collect()
        } else {
            changed(sides)
        };
        let parameters = Self {
            baseline: writer.now().baseline.clone(),
            writer,
            root: root.clone(),
            names,
            under: None,
            expected: sides.values(Which::InForce).iter().collect(),
            is_of_guest,
            stay: stay(sides),
            sets: (!sides.scopes.is_empty(), !changed(sides).is_empty()),
            touched: false,
        };
        for is_b in [false, true] {
            let request = parameters.request(sides, is_b);
            let now = parameters.writer.now();
            now.propose(&request).map_err(explain)?;
        }
        Ok(parameters)
    }

    pub(super) fn writes(&self) -> Vec<PathBuf> {
        self.writer.writes()
    }

    pub(super) fn name(&self) -> &'static str {
        match self.sets {
            _ if self.is_of_guest => "guest-parameters",
            (true, true) => "host-parameters-and-vm-ceilings",
            (true, false) => "vm-ceilings",
            (false, _) => "host-parameters",
        }
    }

    fn request(&self, sides: &Sides, is_b: bool) -> Request {
        let all = sides.values(Which::of(is_b)).iter();
        let parameters = all.filter(|(it, _)| self.names.contains(it));
        let mut request = of_parameters(parameters);
        let ceilings = sides.scopes.wanted(sides.ceiling_ns(false), is_b);
        request.wanted.extend(ceilings);
        request
    }

    /// Puts a setting in force. In a guest each block begins with limits of 0, which grew under the setting before.
    pub(super) fn put(&mut self, sides: &Sides, is_b: bool) -> Result<(), Failure> {
        let which = Which::of(is_b);
        if self.is_of_guest {
            self.clear_limits()?;
        } else if self.under == Some(which) {
            return Ok(());
        }
        let request = self.request(sides, is_b);
        self.set(&request)?;
        self.under = Some(which);
        Ok(())
    }

    /// A limit moves after a stay in HLT alone, and polls that end in time keep it from that: with a ceiling of 0 and a
    /// divisor of 0 the next stay takes it to 0, and each CPU is given one.
    fn clear_limits(&mut self) -> Result<(), Failure> {
        let cleared = [
            (Parameter::GuestShrink, 0),
            (Parameter::GuestAllowShrink, 1),
            (Parameter::GuestHaltPollNs, 0),
        ];
        self.set(&of_parameters(cleared))?;
        let slept = cpus::idle_on_each(&self.root, self.stay);
        Ok(slept.context("let each CPU of the guest halt once")?)
    }

    fn set(&mut self, request: &Request) -> Result<(), Failure> {
        let proposal = self.writer.now().propose(request).map_err(explain)?;
        self.look_for_others(&proposal)?;
        self.touched = true;
        self.writer.apply(&proposal).map_err(explain)?;
        self.expected.extend(request.parameters());
        Ok(())
    }

    /// All is as we set it last, or as it was when we came, unless it was modified externally.
    fn look_for_others(&self, proposal: &Proposal) -> Result<(), Failure> {
        let theirs = proposal.changes.iter().find_map(|change| {
            let parameter = change.target.parameter()?;
            let found = parameter.value(change.old.value.as_ref()?).ok()?;
            let was = *self.expected.get(&parameter)?;
            (found != was).then_some((parameter, found, was))
        });
        let Some((parameter, found, was)) = theirs else {
            return Ok(());
        };
        let error = anyhow!(
            "{parameter} was modified externally to {} (it was {}) and is left alone",
            parameter.written(found),
            parameter.written(was)
        );
        Err(Failure::new(Exit::Failed, error)
            .hint("measure again when nothing else changes settings"))
    }

    pub(super) fn restore(&mut self) -> Result<(), Failure> {
        self.under = None;
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
                let whose = if self.is_of_guest { "guest" } else { "host" };
                let context = format!("restore the {whose}'s parameters");
                let error = anyhow::Error::new(error).context(context);
                Err(Failure::new(Exit::Failed, error).hint("`haltwise undo` tries again"))
            }
        }
    }
}

fn of_parameters(values: impl IntoIterator<Item = (Parameter, u32)>) -> Request {
    let values = values.into_iter();
    let wanted = values.map(|(it, value)| (Target::Parameter(it), value));
    Request {
        wanted: wanted.collect(),
        ..Request::default()
    }
}

impl Drop for Parameters {
    /// Whatever happens here, the machine gets back what it had.
    fn drop(&mut self) {
        if let Err(failure) = self.restore() {
            crate::terminal::complain(&failure);
        }
    }
}

fn explain(error: KnobError) -> Failure {
    let (exit, hint) = match &error {
        KnobError::Absent(parameter) | KnobError::ReadOnly { parameter, .. }
            if parameter.is_of_guest() =>
        {
            (Exit::Unsupported, "the guest's governor must be haltpoll")
        }
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
