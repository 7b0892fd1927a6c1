//! `haltwise fleet show`: what many hosts should set, from their costs tables.

use std::path::PathBuf;

use haltwise_core::fleet::By;
use haltwise_core::fleet::gather::Asked;

use crate::exit::{Exit, Outcome};
use crate::fleet::build::{self, Assumptions};
use crate::fleet::{load, page};
use crate::offered;
use crate::shown::Shown;
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(
    about = "Recommend settings for a fleet from costs tables",
    after_long_help = "EXAMPLES
  haltwise fleet show /srv/lake                       by kernel
  haltwise fleet show /srv/lake --by kernel,class     by kernel and class of VMs
  haltwise fleet show lake/host=a lake/host=b --by host
  haltwise fleet show lake --goal latency --html fleet.html
  haltwise fleet show lake --hosts 10000
  haltwise fleet show lake --json | jq '.plans[] | {plan, gain, cpus_saved}'

The tables come from `haltwise fleet add`, see docs/costs-format.md. Settings
are chosen on the first half of each capture and evaluated on the second half;
no setting of any host is changed. A cohort is of VMs with the same values of
all that --by names. Files are added up on all CPUs; memory grows with hosts,
cohorts and VMs, not with days.

Exits with 5 if a table is damaged, or of a capture that another one has
already, or has rows of another grid; the rest counts."
)]
pub(crate) struct Arguments {
    /// Costs tables, or directories with such
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Put VMs together by these: kernel, cpu, arch, host, vmm, class, goal, label:KEY
    #[arg(
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        default_value = "kernel",
        hide_possible_values = true,
        value_parser = offered::known::<By>(&["kernel", "cpu", "arch", "host", "vmm", "class", "goal", "label:"])
    )]
    by: Vec<By>,
    #[command(flatten)]
    assumptions: Assumptions,
    /// Write the result as a page for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let asked = Asked {
        by: arguments.by.clone(),
        weight_milli: arguments.assumptions.weight.milli(),
    };
    let loaded = load::load(&arguments.paths, &asked)?;
    let mut result = build::build(loaded, &arguments.assumptions);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut result.cohorts, &mut result.losing])?;
    if let Some(path) = &arguments.html {
        let bytes = page::write(&result, path)?;
        terminal::say(&format!(
            "wrote {} ({} kB)",
            path.display(),
            bytes.div_ceil(1000)
        ));
    }
    shown.print(&result, |top| page::document(&result, top))?;
    let partial = !result.read.refused.is_empty() || result.read.rows_of_other_grids > 0;
    Ok(Exit::of_partial(partial))
}
