//! `haltwise top`: the command line; the work is in [`crate::top`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;

use super::report;
use crate::exit::{Exit, Failure, Outcome};
use crate::record::ExitsWanted;
use crate::terminal;
use crate::top::{self, Form, FromCapture, live};

/// Arguments of `haltwise top`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Watch what halts cost the virtual machines of this host, or of a capture

A full screen: for every VM its halts, the CPU that it polls away, its wake-up \
latency, the ceiling in force, and with --exits its exits. Enter opens a VM and \
then a vCPU, `?` shows the keys. In a capture, and while paused, the arrows \
left and right go through time.",
    after_help = "EXAMPLES
  haltwise top                        this host, every second
  haltwise top --exits                with exits and their reasons
  haltwise top cap                    a capture, step by step
  haltwise top cap --at 90s           from the 90th second on
  haltwise top --once                 one interval as text, for scripts
  haltwise top --json | jq -c '.total.halts_per_s'
                                      one JSON document each second

The first interval of this host must pass before anything is shown. With --once
and --json, exits with 5 if events were lost or the capture is not whole."
)]
pub(crate) struct Arguments {
    /// A capture: a directory that `haltwise record` made [default: this host]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Length of an interval; a long capture may be shown in longer ones
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Print one interval as text and end; of a capture, all of it is one
    #[arg(long)]
    once: bool,
    /// Print JSON (schema 1, see docs/top-json.md), a line for each interval;
    /// with --once one document
    #[arg(long)]
    json: bool,
    /// Begin at this moment of the capture, for example 90s
    #[arg(long, value_name = "TIME", requires = "dir")]
    at: Option<Nanos>,
    /// Only this VM, by process number or name; may be given again [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Count exits too
    #[arg(long, conflicts_with = "dir")]
    exits: bool,
    /// What to keep of this host's halts: counts (the cheapest) or full
    #[arg(long, default_value = "counts", conflicts_with = "dir")]
    mode: Mode,
    /// Source of the facts: bpf or tracepoints [default: the best that works]
    #[arg(long, conflicts_with = "dir")]
    rung: Option<Rung>,
    /// Columns of --once, 60 to 200 [default: $COLUMNS, else the terminal's, else 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=200))]
    width: Option<u16>,
}

/// The shortest interval: of a capture, and of this host.
const SHORTEST: [(bool, u64, &str); 2] = [(true, 1_000_000, "1ms"), (false, 100_000_000, "100ms")];

/// Shows it.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let captured = arguments.dir.is_some();
    for (of_captures, least, text) in SHORTEST {
        if captured == of_captures && arguments.interval.0 < least {
            let error = anyhow!("--interval {}: too short", arguments.interval.to_exact());
            return Err(Failure::new(Exit::Usage, error).hint(format!("{text} is the shortest")));
        }
    }
    let interval = Duration::from_nanos(arguments.interval.0);
    let form = match (arguments.json, arguments.once) {
        (true, once) => Form::Json { once },
        (false, true) => {
            let width = arguments.width;
            Form::Page(width.map_or_else(terminal::columns, usize::from))
        }
        (false, false) => Form::Screen,
    };
    if let Some(dir) = arguments.dir {
        let at = arguments.at.map(|at| Duration::from_nanos(at.0));
        let wanted = FromCapture { dir, interval, at };
        return top::show_capture(&wanted, form, |roster| {
            let mut picked = Vec::new();
            for selector in &arguments.vms {
                picked.extend(report::wanted(roster, Some(&selector.to_string()))?);
            }
            Ok((!arguments.vms.is_empty()).then_some(picked))
        });
    }
    let wanted = live::Wanted {
        interval,
        vms: arguments.vms,
        rung: arguments.rung,
        mode: arguments.mode,
        exits: arguments.exits.then(ExitsWanted::default),
    };
    top::show_host(&wanted, form)
}
