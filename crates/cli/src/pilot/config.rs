//! The pilot's configuration: TOML, of which every mistake is reported with its line, its column and what to do.

use std::fmt;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use haltwise_capture::files;
use haltwise_core::pilot::{Goal, GoalOfVms, Goals, Limits, Parameters};
use haltwise_core::replay::GoalName;
use serde::Deserialize;
use toml::Spanned;

use crate::exit::{Exit, Failure};
use crate::exporter::server::Address;
use crate::exporter::serving::{MOST_SERIES, Served};
use crate::page::harmless;
use crate::recommend::goal::{for_pilot, milli};

/// The largest file that is read, in bytes: a thousand patterns.
const MAX_BYTES: u64 = 256 << 10;

const HINT: &str = "contrib/pilot.toml in the package describes each key";

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Config {
    pub(crate) goals: Goals,
    pub(crate) limits: Limits,
    pub(crate) metrics: Served,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, what } = self;
        write!(f, "line {line}, column {column}: {what}")
    }
}

impl std::error::Error for Mistake {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    act: bool,
    goal: Option<Spanned<String>>,
    weight: Option<Spanned<f64>>,
    #[serde(default)]
    vm: Vec<Spanned<VmTable>>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    metrics: MetricsTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VmTable {
    name: Spanned<String>,
    goal: Option<Spanned<String>>,
    weight: Option<Spanned<f64>>,
    #[serde(default)]
    leave_alone: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    ceilings: Option<bool>,
    parameters: Option<bool>,
    shared_parameters: Option<bool>,
    max_ceiling_ns: Option<Spanned<u64>>,
    max_poll_cpu_percent: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsTable {
    listen: Option<Spanned<String>>,
    textfile: Option<Spanned<PathBuf>>,
    max_series: Option<usize>,
}

/// Reads a configuration. Fails if it cannot be read, if others could write it, or if anything in it is not understood.
pub(crate) fn read(path: &Path) -> Result<Config, Failure> {
    let text = text_of(path)
        .with_context(|| format!("read {}", path.display()))
        .map_err(|error| Failure::new(Exit::Usage, error).hint(HINT))?;
    parse(&text)
        .map_err(anyhow::Error::new)
        .with_context(|| format!("read {}", path.display()))
        .map_err(|error| Failure::new(Exit::Usage, error).hint(HINT))
}

fn text_of(path: &Path) -> io::Result<String> {
    let file = files::open(path)?;
    let found = file.metadata()?;
    // A user who can write it decides what root sets.
    let is_ours = found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        let what = format!(
            "users other than root and its own can change it (owner {}, mode {mode:o}): chown root, chmod 644",
            found.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        let what = format!("it is larger than {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(text)
}

pub(crate) fn parse(text: &str) -> Result<Config, Mistake> {
    let mistake = |(at, what): Wrong| located(text, at.start, &what);
    let tables: Tables = toml::from_str(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        mistake((at, error.message().to_owned()))
    })?;
    config(tables).map_err(mistake)
}

type Wrong = (Range<usize>, String);

fn config(tables: Tables) -> Result<Config, Wrong> {
    let of_all = goal(tables.goal.as_ref(), tables.weight.as_ref())?;
    let of_vms = tables.vm.into_iter().map(of_vms);
    let textfile = tables.metrics.textfile.map(textfile).transpose()?;
    let listen = tables.metrics.listen.map(|it| {
        let address = it.get_ref().parse::<Address>();
        address.map_err(|why| (it.span(), why))
    });
    Ok(Config {
        goals: Goals {
            of_all: of_all.unwrap_or_default(),
            of_vms: of_vms.collect::<Result<_, _>>()?,
        },
        limits: limits(&tables.limits, tables.act)?,
        metrics: Served {
            listen: listen.transpose()?,
            textfile,
            max_series: tables.metrics.max_series.unwrap_or(MOST_SERIES),
        },
    })
}

fn of_vms(table: Spanned<VmTable>) -> Result<GoalOfVms, Wrong> {
    let at = table.span();
    let table = table.into_inner();
    if table.name.get_ref().is_empty() {
        let what = "a name, or a pattern with * and ?, is expected".to_owned();
        return Err((table.name.span(), what));
    }
    let goal = goal(table.goal.as_ref(), table.weight.as_ref())?;
    match (&goal, table.leave_alone) {
        (None, false) => {
            let what = "expected one of goal, weight and leave_alone = true".to_owned();
            return Err((at, what));
        }
        (Some(_), true) => {
            let what = "leave_alone = true excludes goal and weight".to_owned();
            return Err((at, what));
        }
        _ => {}
    }
    Ok(GoalOfVms {
        pattern: table.name.into_inner(),
        goal,
    })
}

fn goal(
    name: Option<&Spanned<String>>,
    weight: Option<&Spanned<f64>>,
) -> Result<Option<Goal>, Wrong> {
    match (name, weight) {
        (None, None) => Ok(None),
        (Some(_), Some(weight)) => Err((
            weight.span(),
            "goal and weight exclude each other".to_owned(),
        )),
        (Some(name), None) => {
            let named = GoalName::from_name(name.get_ref()).ok_or_else(|| {
                let given = harmless(name.get_ref());
                let what =
                    format!("unknown goal `{given}`: possible are density, balanced, latency");
                (name.span(), what)
            })?;
            Ok(Some(for_pilot(named)))
        }
        (None, Some(weight)) if (0.0..=1e6).contains(weight.get_ref()) => Ok(Some(Goal {
            name: "lambda".to_owned(),
            weight_milli: milli(*weight.get_ref()),
        })),
        (None, Some(weight)) => {
            let what = "expected a number from 0 to 1000000: ns of CPU time per ns of latency";
            Err((weight.span(), what.to_owned()))
        }
    }
}

fn limits(table: &LimitsTable, may_act: bool) -> Result<Limits, Wrong> {
    let known = Limits::default();
    let max_ceiling_ns = match &table.max_ceiling_ns {
        None => known.max_ceiling_ns,
        Some(given) => u32::try_from(*given.get_ref())
            .ok()
            .filter(|ns| *ns <= known.max_ceiling_ns)
            .ok_or_else(|| {
                let what = format!("expected a time in ns from 0 to {}", known.max_ceiling_ns);
                (given.span(), what)
            })?,
    };
    let percent = table.max_poll_cpu_percent.as_ref();
    if let Some(percent) = percent.filter(|it| !(0.0..=1e6).contains(it.get_ref())) {
        let what = "expected percent of one CPU, from 0 on".to_owned();
        return Err((percent.span(), what));
    }
    Ok(Limits {
        may_act,
        ceilings: table.ceilings.unwrap_or(known.ceilings),
        parameters: match (table.parameters, table.shared_parameters) {
            (Some(false), _) => Parameters::Never,
            (_, Some(true)) => Parameters::Shared,
            _ => known.parameters,
        },
        max_poll_cpu_percent: percent.map(|it| *it.get_ref()),
        max_ceiling_ns,
    })
}

fn textfile(given: Spanned<PathBuf>) -> Result<PathBuf, Wrong> {
    let path = given.get_ref();
    if path.is_absolute() && path.extension().is_some_and(|end| end == "prom") {
        return Ok(given.into_inner());
    }
    let what = "expected an absolute path that ends in .prom, as node_exporter reads them";
    Err((given.span(), what.to_owned()))
}

fn located(text: &str, at: usize, what: &str) -> Mistake {
    let at = (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    let before = &text[..at.unwrap_or(0)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Mistake {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        what: harmless(&what.replace('\n', ", ")),
    }
}

/// Refuses what `--check-config` names, or says that it is good: nothing is attached or set.
pub(crate) fn check(path: &Path) -> Result<String, Failure> {
    let config = read(path)?;
    let what = if config.limits.may_act {
        "may change settings"
    } else {
        "observes"
    };
    Ok(format!(
        "{}: valid; the pilot {what}, goal {}, {} for single VMs\n",
        path.display(),
        config.goals.of_all.name,
        config.goals.of_vms.len()
    ))
}

#[cfg(test)]
mod test;
