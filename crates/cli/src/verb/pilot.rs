//! `haltwise pilot`: the command line; the work is in [`crate::pilot`].

use std::path::PathBuf;
use std::time::Duration;

use haltwise_core::pilot::Limits;
use haltwise_core::units::Nanos;

use super::root::root;
use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::address::Address;
use crate::pilot::config::{self, Config};
use crate::pilot::run::{self, PilotOptions};
use crate::pilot::serving::Shown;
use crate::prices::{self, GivenCosts};
use crate::recommend::goal::{Goals, percent};
use crate::terminal;
use crate::time;

/// Arguments of `haltwise pilot`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Decide all the time which setting serves each VM

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
    after_help = "EXAMPLES
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    goals: Goals,
    /// Only this VM, by a name, UUID, VMID or PID, or all whose name is like a pattern with * and
    /// ?; may be repeated [default: all]. The host's parameters are not set while other VMs
    /// follow them
    #[arg(long = "vm", value_name = "VM")]
    only: Vec<String>,
    /// Change nothing; print what it would do (the default)
    #[arg(long, conflicts_with = "act")]
    observe: bool,
    /// Try settings, and keep those that are measured to help
    #[arg(long)]
    act: bool,
    /// Change nothing, and end after a look at each VM
    #[arg(long, conflicts_with = "act")]
    dry_run: bool,
    /// Also set what was modified externally since the pilot set it
    #[arg(long)]
    take_over: bool,
    /// Limit polling to this share of one CPU, for all VMs together
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    max_poll_cpu: Option<f64>,
    #[command(flatten)]
    costs: GivenCosts,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration)]
    duration: Option<Nanos>,
    /// Print the state as JSON at the end (see docs/pilot-json.md)
    #[arg(long)]
    json: bool,
    /// Read goals, limits and where metrics are served from this file (see
    /// contrib/pilot.toml); SIGHUP has it read again. The unit of systemd uses it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["goals", "act", "max_poll_cpu", "listen", "textfile"])]
    config: Option<PathBuf>,
    /// Check a configuration, and exit
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check_config: Option<PathBuf>,
    /// Serve the pilot's state as metrics: a loopback address with its port, or
    /// unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// Write them to this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Directory that holds /sys, /proc, /etc and /var, to try it out [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    // Before anything is attached: a calibration that cannot be used is refused at once.
    prices::calibration(&arguments.costs)?;
    if let Some(path) = &arguments.check_config {
        terminal::print(&config::check(path)?)?;
        return Ok(Exit::Done);
    }
    let mut config = match &arguments.config {
        Some(path) => config::read(path)?,
        None => of_command_line(&arguments)?,
    };
    let only_observes = arguments.observe || arguments.dry_run;
    config.limits.may_act &= !only_observes;
    run::run(&PilotOptions {
        goals: config.goals,
        limits: config.limits,
        config: arguments.config,
        only_observes,
        shown: Shown {
            listen: config.metrics,
            textfile: config.textfile,
            max_series: config.max_series,
        },
        only: arguments.only,
        costs: arguments.costs,
        take_over: arguments.take_over,
        duration: arguments.duration.map(|Nanos(ns)| Duration::from_nanos(ns)),
        dry_run: arguments.dry_run,
        json: arguments.json,
        root: root(arguments.root),
    })
}

/// What the command line says, as a configuration.
fn of_command_line(arguments: &Arguments) -> Result<Config, Failure> {
    Ok(Config {
        goals: arguments.goals.of_patterns()?,
        limits: Limits {
            may_act: arguments.act,
            max_poll_cpu_percent: arguments.max_poll_cpu,
            ..Limits::default()
        },
        metrics: arguments.listen.clone(),
        textfile: arguments.textfile.clone(),
        ..Config::default()
    })
}
