//! The machine's own parameters, set through the only writer of settings, which records first what was there:
//! `haltwise undo` restores that even if this process is killed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_host::cpus;
use haltwise_host::knob::{Baseline, KnobError, Request, Target, Writer};
use haltwise_host::root::Root;

use super::sides::Sides;
use crate::exit::{Exit, Failure};

const WHO: &str = "haltwise prove";

#[derive(Debug)]
pub(crate) struct Parameters {
    writer: Writer,
    root: Root,
    /// A and B: of a host the parameters that either setting changes, and ceilings; of a guest all parameters.
    requests: [Request; 2],
    baseline: Baseline,
    /// Whether B is in force, on a host; `None` where nothing of ours is.
    under: Option<bool>,
    /// Values that must still be in force: as last set here, or as they were at the start.
    expected: Values,
    is_of_guest: bool,
    /// How long a CPU of a guest sleeps to leave its limit behind.
    stay: Duration,
    /// Whether anything may have been set since.
    touched: bool,
}

fn changed(sides: &Sides) -> Vec<Parameter> {
    let (a, b) = (sides.values(false), sides.values(true));
    // Where each VM has a ceiling of its own, no VM follows halt_poll_ns.
    let is_followed = |it: Parameter| it != Parameter::HaltPollNs || !sides.scopes.are_all_vms;
    let all = sides.in_force.iter();
    let changed = all.filter(|(it, now)| a.get(*it) != Some(*now) || b.get(*it) != Some(*now));
    let changed = changed.map(|(it, _)| it);
    changed.filter(|it| is_followed(*it)).collect()
}

/// Longer than any limit lasts that may have grown: up to 4.3 s on each CPU, if the user sets such a limit.
fn stay(sides: &Sides) -> Duration {
    let all = [&sides.in_force, sides.values(false), sides.values(true)];
    let ceilings = all.map(|of| of.get(Parameter::GuestHaltPollNs));
    let ceiling_ns = ceilings.into_iter().flatten().max().unwrap_or(0);
    Duration::from_nanos(ceiling_ns.into()) + Duration::from_millis(1)
}

/// Lists the values that would be written, for users who did not say --yes.
fn refusal(sides: &Sides) -> Failure {
    let one = |parameter: Parameter| {
        let all = [&sides.in_force, sides.values(false), sides.values(true)];
        let [now, a, b] = all.map(|of| of.get(parameter));
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
    let ceilings = sides.scopes.alternate();
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
    /// Takes the lock and looks whether both settings can be made; `yes` permits it.
    pub(super) fn take(root: &Root, sides: &Sides, yes: bool) -> Result<Self, Failure> {
        if !yes {
            return Err(refusal(sides));
        }
        let writer = Writer::open(root, WHO).map_err(explain)?;
        let is_of_guest = !sides.side.is_host();
        let changed = changed(sides);
        let requests = [false, true].map(|is_b| {
            let all = sides.values(is_b).iter();
            let set = all.filter(|(it, _)| is_of_guest || changed.contains(it));
            let mut request = of_parameters(set);
            request.wanted.extend(sides.scopes.wanted(is_b));
            request
        });
        for request in &requests {
            writer.now().propose(request).map_err(explain)?;
        }
        Ok(Self {
            baseline: writer.now().baseline.clone(),
            writer,
            root: root.clone(),
            requests,
            under: None,
            expected: sides.in_force,
            is_of_guest,
            stay: stay(sides),
            touched: false,
        })
    }

    pub(super) fn writes(&self) -> Vec<PathBuf> {
        self.writer.writes()
    }

    pub(super) fn name(&self) -> &'static str {
        let targets = || self.requests[0].wanted.iter().map(|(target, _)| target);
        let sets_ceilings = targets().any(|it| it.is_ceiling());
        let sets_parameters = targets().any(|it| !it.is_ceiling());
        match (sets_ceilings, sets_parameters) {
            _ if self.is_of_guest => "guest-parameters",
            (false, _) => "host-parameters",
            (true, false) => "vm-ceilings",
            (true, true) => "host-parameters-and-vm-ceilings",
        }
    }

    /// Puts a setting in force. In a guest each block begins with limits of 0, which grew under the setting before.
    pub(super) fn put(&mut self, is_b: bool) -> Result<(), Failure> {
        if self.is_of_guest {
            self.clear_limits()?;
        } else if self.under == Some(is_b) {
            return Ok(());
        }
        self.set(&self.requests[usize::from(is_b)].clone())?;
        self.under = Some(is_b);
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

    /// Sets what is as we set it last, or as it was when we came: what was modified externally is left alone.
    fn set(&mut self, request: &Request) -> Result<(), Failure> {
        let wanted = request.parameters();
        let expected = wanted.iter().filter_map(|(it, _)| {
            let was = self.expected.get(it)?;
            Some((Target::Parameter(it), was))
        });
        let expected: Vec<_> = expected.collect();
        let proposal = self.writer.propose_on(request, &expected, false);
        let proposal = proposal.map_err(explain)?;
        self.touched = true;
        self.writer.apply(&proposal).map_err(explain)?;
        self.expected = wanted.over(self.expected);
        Ok(())
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
    if let KnobError::Otherwise(it) = &error {
        let error = anyhow!(
            "{} was modified externally to {} (it was {}) and is left alone",
            it.name,
            it.found,
            it.expected
        );
        return Failure::new(Exit::Failed, error)
            .hint("measure again when nothing else changes settings");
    }
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
