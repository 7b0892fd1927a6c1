//! `haltwise top`: the command line; the work is in [`crate::top`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;

use crate::collect::watching::ToWatch;
use crate::exit::{Exit, Failure, Outcome};
use crate::offered;
use crate::reading::select;
use crate::terminal;
use crate::time;
use crate::top::{self, Form};

#[derive(Debug, clap::Args)]
#[command(
    about = "Show the cost of halts live, or step through a capture",
    long_about = "Show the cost of halts live, or step through a capture

Shows for each VM its halts, the CPU time spent polling, the wake-up latency, \
the ceiling, and with --exits its exits. Enter opens a VM and then a vCPU, `?` \
lists the keys. In a capture, and while paused, the left and right arrow keys \
step through time.",
    after_long_help = "EXAMPLES
  haltwise top                        this host, every second
  haltwise top --exits                with exits and their reasons
  haltwise top cap                    a capture, interval by interval
  haltwise top cap --at 90s           from 90 s after its start
  haltwise top --once                 one interval as text, for scripts
  haltwise top --json | jq -c '.total.halts_per_s'
                                      one JSON document each second

While `haltwise pilot` runs, two columns show its state of each VM and what it
saved. A VM's own screen, --once and --json have the setting, since when, why,
and what was saved with the 95 % interval.

Live, nothing is shown before the first interval ends. With --once and --json,
exits with 5 if events were lost or the capture is incomplete."
)]
pub(crate) struct Arguments {
    /// Capture directory [default: show this host live]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Length of an interval; a long capture may use longer ones
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time::seconds)]
    interval: Nanos,
    #[command(flatten)]
    printed: Printed,
    /// Start at this time of the capture, for example 90s
    #[arg(long, value_name = "TIME", requires = "dir", value_parser = time::seconds)]
    at: Option<Nanos>,
    /// Only this VM, by a name, UUID, VMID or PID; may be repeated [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Also count VM exits
    #[arg(long, conflicts_with = "dir")]
    exits: bool,
    /// Data to record on this host: counts (less overhead) or full
    #[arg(long, default_value = "counts", conflicts_with = "dir", hide_possible_values = true, value_parser = offered::known::<Mode>(&["counts", "full"]))]
    mode: Mode,
    /// Source of events: bpf or tracepoints [default: the best available]
    #[arg(long = "source", value_name = "SOURCE", hide_possible_values = true, value_parser = offered::known::<Rung>(&["bpf", "tracepoints"]), conflicts_with = "dir")]
    rung: Option<Rung>,
}

/// Output other than the full screen.
#[derive(Debug, clap::Args)]
struct Printed {
    /// Print one interval as text and exit; a capture counts as one interval
    #[arg(long)]
    once: bool,
    /// Print JSON (see docs/), one line for each interval; with --once one
    /// document
    #[arg(long)]
    json: bool,
    /// Width of --once in columns, 60 to 200 [default: $COLUMNS, else the terminal's, else 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=200))]
    width: Option<u16>,
}

impl Printed {
    fn form(&self) -> Form {
        match (self.json, self.once) {
            (true, once) => Form::Json { once },
            (false, true) => Form::Page(self.width.map_or_else(terminal::columns, usize::from)),
            (false, false) => Form::Screen,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let (least, text) = match &arguments.dir {
        Some(_) => (1_000_000, "1ms"),
        None => (100_000_000, "100ms"),
    };
    if arguments.interval.0 < least {
        let error = anyhow!("--interval {}: too short", arguments.interval.to_exact());
        return Err(Failure::new(Exit::Usage, error).hint(format!("{text} is the shortest")));
    }
    let interval = Duration::from_nanos(arguments.interval.0);
    let form = arguments.printed.form();
    if let Some(dir) = arguments.dir {
        let at = arguments.at.map(|at| Duration::from_nanos(at.0));
        return top::show_capture(&dir, interval, at, form, |roster| {
            let mut picked = Vec::new();
            for selector in &arguments.vms {
                picked.extend(select::vms(roster, Some(&selector.to_string()))?);
            }
            Ok((!arguments.vms.is_empty()).then_some(picked))
        });
    }
    let wanted = ToWatch {
        interval,
        each_halt_of_tracepoints: true,
        vms: arguments.vms,
        rung: arguments.rung,
        mode: arguments.mode,
        exits: arguments.exits.then(ExitOptions::default),
    };
    top::show_host(&wanted, form)
}
