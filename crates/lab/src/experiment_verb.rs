//! The verb `experiment`: which ones, where the findings go, progress on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use haltwise_lab::experiment::Experiment;
use haltwise_lab::experiment::conduct::{Progress, conduct};
use haltwise_lab::experiment::found::{Report, SCHEMA};
use haltwise_lab::experiment::registry::{EXPERIMENTS, find};
use haltwise_lab::experiment::verdicts;
use haltwise_lab::interrupt::Interrupt;
use haltwise_lab::render;
use haltwise_lab::resctrl::{self, Root};

use crate::args::ExperimentArgs;
use crate::print;

/// Not an experiment's name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an experiment")]
pub(crate) struct UnknownExperiment(String);

pub(crate) fn verb(args: &ExperimentArgs) -> anyhow::Result<()> {
    let report = match (&args.read, &args.name) {
        (Some(file), _) => read(file)?,
        (None, Some(name)) => measure(args, &named(name)?)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    if let Some(file) = &args.html {
        std::fs::write(file, render::html(&report))
            .with_context(|| format!("write `{}`", file.display()))?;
    }
    print(&if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else if args.markdown {
        render::markdown(&report)
    } else {
        render::findings(&report)
    })?;
    let failed = report
        .experiments
        .iter()
        .filter(|found| found.failed.is_some());
    let failed: Vec<&str> = failed.map(|found| found.name.as_str()).collect();
    anyhow::ensure!(failed.is_empty(), "could not do {}", failed.join(", "));
    Ok(())
}

fn named(name: &str) -> Result<Vec<&'static Experiment>, UnknownExperiment> {
    if name == "all" {
        return Ok(EXPERIMENTS.iter().collect());
    }
    let found = find(name).ok_or_else(|| UnknownExperiment(name.to_owned()))?;
    Ok(vec![found])
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("read `{}`", file.display()))?;
    let report: Report = serde_json::from_str(&text)
        .with_context(|| format!("`{}` is not what --json prints", file.display()))?;
    anyhow::ensure!(
        report.schema == SCHEMA,
        "`{}` is of schema {}, this program knows {SCHEMA}",
        file.display(),
        report.schema
    );
    Ok(verdicts::anew(report))
}

fn measure(args: &ExperimentArgs, experiments: &[&'static Experiment]) -> anyhow::Result<Report> {
    if let Some(root) = &args.resctrl {
        resctrl::grant(Root::open(root)?);
    }
    let interrupt = Interrupt::new().context("listen for signals")?;
    let terminal = std::io::stderr().is_terminal();
    let mut last = String::new();
    let report = conduct(experiments, &args.options(), &interrupt, |progress| {
        let Progress {
            name,
            rounds,
            blocks,
            of,
        } = progress;
        // A stderr that takes nothing is no reason to stop measuring.
        if terminal {
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[K{name}: round {rounds}, {blocks}/{of}"
            );
        } else if last != name {
            let _ = writeln!(std::io::stderr(), "{name}");
        }
        name.clone_into(&mut last);
    })?;
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    Ok(report)
}
