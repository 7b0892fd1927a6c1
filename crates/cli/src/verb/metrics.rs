//! `haltwise metrics`: the command line; the work is in [`crate::metrics`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_document::openmetrics::Format;
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;

use crate::collect::watching::ToWatch;
use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::server::Address;
use crate::exporter::serving::{MOST_SERIES, Served};
use crate::metrics::{self, Wanted};
use crate::offered::{self, Offered};
use crate::time;

#[derive(Debug, clap::Args)]
#[command(
    about = "Serve the halts of all VMs as metrics for Prometheus",
    long_about = "Serve the halts of all VMs as metrics for Prometheus

Counts the halts, polls, sleeps and wake-up latencies of each VM and serves \
them until Ctrl-C, as OpenMetrics or in Prometheus' text format, whichever the \
client accepts. Does not change any setting. docs/metrics.md describes each \
metric; contrib/ has alert rules and a dashboard.

Metrics are served without authentication and contain the names of VMs: only \
loopback addresses and unix sockets are accepted.",
    after_long_help = "EXAMPLES
  haltwise metrics                            on http://127.0.0.1:9477/metrics
  haltwise metrics --listen unix:/run/haltwise/metrics
  haltwise metrics --textfile /var/lib/node_exporter/haltwise.prom
  haltwise metrics --mode stats               KVM's own counters: no programs
                                              of haltwise run at a halt
  haltwise metrics --once                     print them after one interval"
)]
pub(crate) struct Arguments {
    /// Address to serve on: a loopback address with its port, or unix:PATH
    /// [default: 127.0.0.1:9477, with --textfile none]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// Also write them to this file every 15 s, for the textfile collector of
    /// node_exporter; its name must end in .prom
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Print them once, after one interval, and exit
    #[arg(long, conflicts_with_all = ["listen", "textfile"])]
    once: bool,
    /// Format of --once: openmetrics or prometheus
    #[arg(long, value_name = "FORMAT", default_value = "prometheus", hide_possible_values = true, value_parser = Offered { names: &["prometheus", "openmetrics"], read: format })]
    format: Format,
    /// Only this VM, by a name, UUID, VMID or PID; may be repeated [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Data to record: counts (histograms kept by BPF programs) or stats (KVM's
    /// own statistics: no wake-up latencies; runs no code when a vCPU halts)
    #[arg(long, default_value = "counts", hide_possible_values = true, value_parser = Offered { names: &["counts", "stats"], read: mode })]
    mode: Mode,
    /// Source of events: bpf or tracepoints [default: the best available]
    #[arg(long = "source", value_name = "SOURCE", hide_possible_values = true, value_parser = offered::known::<Rung>(&["bpf", "tracepoints"]))]
    rung: Option<Rung>,
    /// Also count VM exits by reason
    #[arg(long)]
    exits: bool,
    /// How often counts are read from the kernel
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time::duration)]
    interval: Nanos,
    /// The most time series of VMs; VMs beyond them are left out, and counted
    #[arg(long, value_name = "N", default_value_t = MOST_SERIES)]
    max_series: usize,
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "openmetrics" => Ok(Format::OpenMetrics),
        "prometheus" => Ok(Format::Prometheus),
        _ => Err("possible formats: openmetrics, prometheus".to_owned()),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text.parse() {
        Ok(mode @ (Mode::Counts | Mode::Stats)) => Ok(mode),
        _ => Err("possible modes: counts, stats".to_owned()),
    }
}

const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let interval = Duration::from_nanos(arguments.interval.0);
    if interval < SHORTEST {
        let error = anyhow!("--interval {}: too short", arguments.interval.to_exact());
        return Err(Failure::new(Exit::Usage, error).hint("100ms is the shortest"));
    }
    let needs_address =
        !arguments.once && arguments.listen.is_none() && arguments.textfile.is_none();
    metrics::run(&Wanted {
        once: arguments.once.then_some(arguments.format),
        served: Served {
            listen: arguments.listen.or(needs_address.then(Address::default)),
            textfile: arguments.textfile,
            max_series: arguments.max_series,
        },
        watch: ToWatch {
            vms: arguments.vms,
            mode: arguments.mode,
            each_halt_of_tracepoints: false,
            rung: arguments.rung,
            exits: arguments.exits.then(ExitOptions::default),
            interval,
        },
    })
}
