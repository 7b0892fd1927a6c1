//! Plans on disk: read with suspicion, written whole or not at all.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::files;
use haltwise_capture::files::output::{self, Readers};
use haltwise_core::parameter::Values;
use serde::Deserialize;

use super::{Effect, Expected, Plan, PlannedCeiling, SCHEMA, Scope, VERSION, VERSION_OF_GUEST};
use crate::exit::{Exit, Failure};
use crate::terminal;

/// The largest plan that is read, in bytes: a hundred times what `tune` writes.
const MAX_BYTES: u64 = 256 << 10;

const HINT: &str = "`haltwise tune DIR --plan FILE` writes plans; docs/plan-json.md describes them";

#[derive(Debug, Deserialize)]
struct Head {
    schema: String,
    version: u32,
}

impl Plan {
    /// Reads a plan. Fails if it cannot be read, is no plan, is of another version, lacks a field, has
    /// one too many, or holds a value that no setting can have.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let read = || -> anyhow::Result<Self> {
            let mut bytes = Vec::new();
            files::open(path)?
                .take(MAX_BYTES + 1)
                .read_to_end(&mut bytes)?;
            Self::parse(&bytes)
        };
        read()
            .with_context(|| format!("read the plan {}", path.display()))
            .map_err(|error| Failure::new(Exit::Failed, error).hint(HINT))
    }

    pub(super) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        if bytes.len() as u64 > MAX_BYTES {
            return Err(anyhow!(
                "it is larger than {MAX_BYTES} bytes; no plan is that large"
            ));
        }
        let head: Head = serde_json::from_slice(bytes).context("it is not a plan")?;
        if head.schema != SCHEMA {
            return Err(anyhow!(
                "its schema is {:?}; a plan's is {SCHEMA:?}",
                head.schema
            ));
        }
        if ![VERSION, VERSION_OF_GUEST].contains(&head.version) {
            return Err(anyhow!(
                "it is of version {}; this haltwise reads versions {VERSION} and {VERSION_OF_GUEST}: make it anew \
                 with this one",
                head.version
            ));
        }
        let plan: Self = serde_json::from_slice(bytes).context("it is not a whole plan")?;
        plan.check().map_err(|what| anyhow!(what))?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        self.check_scope()?;
        check_values(&self.settings).map_err(|what| format!("settings: {what}"))?;
        check_lambda("goal", self.goal.lambda)?;
        self.check_ceilings()?;
        if self.goal.max_poll_cpu_percent.is_some_and(|max| max < 0.0) {
            return Err("goal: max_poll_cpu_percent is below 0".to_owned());
        }
        if self.reason.trim().is_empty() {
            return Err("reason: it is empty; every plan says why".to_owned());
        }
        match &self.expected {
            Some(_) if self.leaves_it() => {
                Err("expected: it must be null where settings is empty".to_owned())
            }
            Some(expected) => expected.check(),
            None => Ok(()),
        }
    }

    /// A host's parameters and a guest's are not in one plan.
    fn check_scope(&self) -> Result<(), String> {
        let (scope, version) = (self.scope, self.scope.version());
        if self.version != version {
            return Err(format!(
                "scope: a plan of this scope is of version {version}"
            ));
        }
        let side = scope.side();
        for (name, of) in [("before", &self.before), ("settings", &self.settings)] {
            if !of.are_of(side) {
                let whose = if side.is_host() { "a guest's" } else { "KVM's" };
                return Err(format!(
                    "{name}: it has {whose} parameters, which are not of its scope"
                ));
            }
        }
        Ok(())
    }

    fn check_ceilings(&self) -> Result<(), String> {
        if self.ceilings.is_empty() == (self.scope == Scope::HostAndVms) {
            return Err(
                "scope: it must be host-and-vms where ceilings has VMs, and only there".to_owned(),
            );
        }
        let mut names = BTreeSet::new();
        for PlannedCeiling {
            vm,
            halt_poll_ns,
            goal: _,
            lambda,
        } in &self.ceilings
        {
            let what = format!("ceilings: {vm:?}");
            if vm.trim().is_empty() || !names.insert(vm) {
                return Err(format!("{what} is no name, or comes twice"));
            }
            if *halt_poll_ns > MOST {
                return Err(format!(
                    "{what}: halt_poll_ns is {halt_poll_ns}; a plan may hold 0 to {MOST}"
                ));
            }
            check_lambda(&what, *lambda)?;
        }
        Ok(())
    }

    /// Writes a plan in one step: a reader sees the old file or the new, never a part.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = terminal::json(self)?;
        output::write(path, text.as_bytes(), Readers::Umask)
            .with_context(|| format!("write the plan {}", path.display()))
            .map_err(|error| {
                Failure::new(Exit::Failed, error)
                    .hint("name a file in a directory that you may write to")
            })
    }
}

/// The longest poll, in nanoseconds, and the largest factor or divisor that a setting may have: above it, one step takes
/// any window to its end.
const MOST: u32 = 1_000_000_000;

/// Refuses values that are slips rather than settings (`-1` reads as 4294967295 in the kernel).
fn check_values(values: &Values) -> Result<(), String> {
    let slip = values.iter().find(|(_, value)| *value > MOST);
    slip.map_or(Ok(()), |(parameter, value)| {
        Err(format!(
            "{parameter} is {value}; a plan may hold 0 to {MOST}"
        ))
    })
}

fn check_lambda(what: &str, lambda: f64) -> Result<(), String> {
    if (0.0..=1e6).contains(&lambda) {
        return Ok(());
    }
    Err(format!(
        "{what}: lambda is {lambda}; it may be 0 to 1000000"
    ))
}

impl Expected {
    fn check(&self) -> Result<(), String> {
        let effects = [
            ("cost_ns_per_halt", &self.cost_ns_per_halt),
            ("poll_cpu_percent", &self.poll_cpu_percent),
            ("wake_latency_mean_ns", &self.wake_latency_mean_ns),
        ];
        for (name, effect) in effects {
            let Effect {
                before,
                after,
                change_low,
                change_high,
            } = *effect;
            if before < 0.0 || after < 0.0 {
                return Err(format!("expected: {name} is below 0"));
            }
            if change_low > change_high {
                return Err(format!(
                    "expected: {name} has an interval that ends ({change_high}) before it begins \
                     ({change_low})"
                ));
            }
        }
        Ok(())
    }
}
