//! `haltwise pilot`: the command line; the work is in [`crate::pilot`].

use std::path::PathBuf;

use haltwise_core::pilot::Limits;

use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::server::Address;
use crate::exporter::serving::Served;
use crate::pilot::config::{self, Config};
use crate::pilot::run::{self, Given, PilotOptions};
use crate::prices;
use crate::recommend::goal::{Goals, percent};
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(
    about = "Continuously tune the running VMs",
    long_about = "Continuously tune the running VMs

Every 10 s KVM's counters of each VM are read, and of one VM in turn all halts are \
recorded for 3 s and replayed under every setting that can be set: ceilings of VMs \
whose VMM can be asked; where a VMM cannot, the host's parameters for all that follow \
them. A line is printed \
for each decision: what, why, what is expected, what was measured.

It observes: it prints what it would do, and counts what that would have saved. \
With --act it tries a setting in random on and off periods on one VM, keeps it \
only if the measurement agrees, and goes back otherwise. Each change is recorded \
in the journal before it is made; `haltwise undo` restores everything. What is \
modified externally is left alone from then on.",
    after_long_help = "EXAMPLES
  haltwise pilot                                observe, with goal balanced
  haltwise pilot --goal density --goal 'db-*=latency'
  haltwise pilot --dry-run --json               look once, and print the state
  haltwise pilot --act                          try and keep settings
  haltwise pilot --config /etc/haltwise/pilot.toml
  haltwise pilot --listen 127.0.0.1:9478        and serve its state as metrics
  haltwise status                               what it does, why, what it saved
  haltwise top                                  the same beside the VMs' halts

It ends with SIGINT or SIGTERM: what is kept stays in force, what is only
tried is restored."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    given: Given,
    /// Change nothing; print what it would do (the default)
    #[arg(long, conflicts_with = "act")]
    observe: bool,
    /// Try settings, and keep those that are measured to help
    #[arg(long)]
    act: bool,
    /// Limit polling to this share of one CPU, for all VMs together
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    max_poll_cpu: Option<f64>,
    /// Check a configuration, and exit
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check_config: Option<PathBuf>,
    /// Serve metrics at a loopback address with its port, or at unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// Write metrics to this file, for node_exporter
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    // Before anything is attached: a calibration that cannot be used is refused at once.
    prices::calibration(&arguments.given.costs)?;
    if let Some(path) = &arguments.check_config {
        terminal::print(&config::check(path)?)?;
        return Ok(Exit::Done);
    }
    let mut config = match &arguments.given.config {
        Some(path) => config::read(path)?,
        None => of_command_line(&arguments)?,
    };
    let only_observes = arguments.observe || arguments.given.dry_run;
    config.limits.may_act &= !only_observes;
    run::run(&PilotOptions {
        config,
        only_observes,
        given: arguments.given,
    })
}

fn of_command_line(arguments: &Arguments) -> Result<Config, Failure> {
    Ok(Config {
        goals: arguments.goals.of_patterns()?,
        limits: Limits {
            may_act: arguments.act,
            max_poll_cpu_percent: arguments.max_poll_cpu,
            ..Limits::default()
        },
        metrics: Served {
            listen: arguments.listen.clone(),
            textfile: arguments.textfile.clone(),
            ..Served::default()
        },
    })
}
