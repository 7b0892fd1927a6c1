//! The pilot's configuration: TOML, of which every mistake is reported with its line, its column and what to do.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use haltwise_capture::files;
use haltwise_core::pilot::{Goal, GoalOfVms, Goals, Limits, Parameters};
use haltwise_core::replay::GoalName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    act: bool,
    #[serde(default, deserialize_with = "goal")]
    goal: Option<Goal>,
    #[serde(default, deserialize_with = "weight")]
    weight: Option<Spanned<Goal>>,
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
    #[serde(deserialize_with = "pattern")]
    name: String,
    #[serde(default, deserialize_with = "goal")]
    goal: Option<Goal>,
    #[serde(default, deserialize_with = "weight")]
    weight: Option<Spanned<Goal>>,
    #[serde(default)]
    leave_alone: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    ceilings: Option<bool>,
    parameters: Option<bool>,
    shared_parameters: Option<bool>,
    #[serde(default, deserialize_with = "ceiling")]
    max_ceiling_ns: Option<u32>,
    #[serde(default, deserialize_with = "percent")]
    max_poll_cpu_percent: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsTable {
    #[serde(default, deserialize_with = "address")]
    listen: Option<Address>,
    #[serde(default, deserialize_with = "textfile")]
    textfile: Option<PathBuf>,
    max_series: Option<usize>,
}

/// A value of the file as `check` takes it; where it does not, the mistake is at the value.
fn checked<'de, D: Deserializer<'de>, R: Deserialize<'de>, T>(
    of: D,
    check: impl FnOnce(R) -> Result<T, String>,
) -> Result<T, D::Error> {
    check(R::deserialize(of)?).map_err(D::Error::custom)
}

fn pattern<'de, D: Deserializer<'de>>(of: D) -> Result<String, D::Error> {
    let expected = "a name, or a pattern with * and ?, is expected";
    checked(of, |name: String| {
        (!name.is_empty()).then_some(name).ok_or(expected.into())
    })
}

fn goal<'de, D: Deserializer<'de>>(of: D) -> Result<Option<Goal>, D::Error> {
    checked(of, |name: String| {
        let unknown = || {
            let given = harmless(&name);
            format!("unknown goal `{given}`: possible are density, balanced, latency")
        };
        let named = GoalName::from_name(&name).ok_or_else(unknown)?;
        Ok(Some(for_pilot(named)))
    })
}

fn weight<'de, D: Deserializer<'de>>(of: D) -> Result<Option<Spanned<Goal>>, D::Error> {
    let expected = "expected a number from 0 to 1000000: ns of CPU time per ns of latency";
    checked(of, |weight: Spanned<f64>| {
        let given = *weight.get_ref();
        let of = Goal {
            name: "lambda".to_owned(),
            weight_milli: milli(given),
        };
        let is_known = (0.0..=1e6).contains(&given);
        let of = is_known.then(|| Spanned::new(weight.span(), of));
        of.map(Some).ok_or(expected.into())
    })
}

fn ceiling<'de, D: Deserializer<'de>>(of: D) -> Result<Option<u32>, D::Error> {
    let most = Limits::default().max_ceiling_ns;
    checked(of, |ns: u64| {
        let ns = u32::try_from(ns).ok().filter(|ns| *ns <= most);
        ns.map(Some)
            .ok_or(format!("expected a time in ns from 0 to {most}"))
    })
}

fn percent<'de, D: Deserializer<'de>>(of: D) -> Result<Option<f64>, D::Error> {
    checked(of, |percent: f64| {
        let is_known = (0.0..=1e6).contains(&percent);
        let percent = is_known.then_some(Some(percent));
        percent.ok_or("expected percent of one CPU, from 0 on".into())
    })
}

fn address<'de, D: Deserializer<'de>>(of: D) -> Result<Option<Address>, D::Error> {
    checked(of, |text: String| text.parse().map(Some))
}

fn textfile<'de, D: Deserializer<'de>>(of: D) -> Result<Option<PathBuf>, D::Error> {
    let expected = "expected an absolute path that ends in .prom, as node_exporter reads them";
    checked(of, |path: PathBuf| {
        let is_read = path.is_absolute() && path.extension().is_some_and(|end| end == "prom");
        is_read.then_some(Some(path)).ok_or(expected.into())
    })
}

/// Reads a configuration. Fails if it cannot be read, if others could write it, or if anything in it is not understood.
pub(crate) fn read(path: &Path) -> Result<Config, Failure> {
    let text = text_of(path).map_err(anyhow::Error::from);
    text.and_then(|text| parse(&text))
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

fn parse(text: &str) -> anyhow::Result<Config> {
    let mistake = |at: usize, what: &str| {
        let [line, column] = place(text, at);
        let what = harmless(&what.replace('\n', ", "));
        anyhow!("line {line}, column {column}: {what}")
    };
    let tables: Tables = toml::from_str(text)
        .map_err(|error| mistake(error.span().map_or(0, |at| at.start), error.message()))?;
    let one_of = |goal: Option<Goal>, weight: Option<Spanned<Goal>>| match (goal, weight) {
        (Some(_), Some(weight)) => Err(mistake(
            weight.span().start,
            "goal and weight exclude each other",
        )),
        (goal, weight) => Ok(goal.or(weight.map(Spanned::into_inner))),
    };
    let of_vms = tables.vm.into_iter().map(|table| {
        let at = table.span().start;
        let table = table.into_inner();
        let goal = one_of(table.goal, table.weight)?;
        match (&goal, table.leave_alone) {
            (None, false) => {
                let what = "expected one of goal, weight and leave_alone = true";
                Err(mistake(at, what))
            }
            (Some(_), true) => Err(mistake(at, "leave_alone = true excludes goal and weight")),
            _ => Ok(GoalOfVms {
                pattern: table.name,
                goal,
            }),
        }
    });
    let (limits, metrics, known) = (tables.limits, tables.metrics, Limits::default());
    Ok(Config {
        goals: Goals {
            of_vms: of_vms.collect::<Result<_, _>>()?,
            of_all: one_of(tables.goal, tables.weight)?.unwrap_or_default(),
        },
        limits: Limits {
            may_act: tables.act,
            ceilings: limits.ceilings.unwrap_or(known.ceilings),
            parameters: match (limits.parameters, limits.shared_parameters) {
                (Some(false), _) => Parameters::Never,
                (_, Some(true)) => Parameters::Shared,
                _ => known.parameters,
            },
            max_poll_cpu_percent: limits.max_poll_cpu_percent,
            max_ceiling_ns: limits.max_ceiling_ns.unwrap_or(known.max_ceiling_ns),
        },
        metrics: Served {
            listen: metrics.listen,
            textfile: metrics.textfile,
            max_series: metrics.max_series.unwrap_or(MOST_SERIES),
        },
    })
}

/// Line and column of a byte, both from 1, the column in characters.
fn place(text: &str, at: usize) -> [usize; 2] {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit('\n').next().unwrap_or(before);
    [before.matches('\n').count() + 1, line.chars().count() + 1]
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
