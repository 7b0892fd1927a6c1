//! `haltwise record`: the command line; the work is in [`crate::collect::recording`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use haltwise_core::exit::SubKey;
use haltwise_core::profile::Event;
use haltwise_core::recording::{Mode, Rung, Side};
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;

use crate::collect::profile::{EVENTS, ProfileWanted, Rate};
use crate::collect::recording::ring::{self, Limits};
use crate::collect::recording::{self, RecordingRequest, piped};
use crate::exit::{Exit, Failure, Outcome};
use crate::offered;
use crate::reading::place::PIPE;
use crate::time;

/// Limits of a ring where only the other limit is named.
const KEEP_NS: u64 = 24 * 3_600 * 1_000_000_000;
const MOST_BYTES: u64 = 2 << 30;

#[derive(Debug, Args)]
#[command(
    about = "Record the halts of the virtual machines on this host",
    long_about = "Record the halts of the virtual machines on this host

Writes one row for each halt of each VM: its duration, the time polled and \
slept, the wake source, the wake-up latency, the window and the ceiling. Does \
not change any setting. Stops after --duration, when COMMAND exits, or on \
Ctrl-C.

In a Linux guest, --guest records the guest's own idle CPUs: what cpuidle polls \
before it executes HLT, which the host does not see.

Only its owner can read a capture: the user who ran sudo, or else the user who \
recorded it.",
    after_long_help = "EXAMPLES
  haltwise record -o cap --duration 10s         all VMs, ten seconds
  haltwise record -o cap --vm web-1             one VM, until Ctrl-C
  haltwise record -o cap -- ./load-test.sh      while the command runs
  haltwise record -o cap --mode counts          histograms only: less overhead
  haltwise record -o cap --mode stats           KVM's own counters only
  haltwise record -o cap --exits=msr,pio        also exits, by MSR and port
  haltwise record -o cap --exits --profile 997hz    also samples of CPU time
  haltwise record -o cap --guest                in a guest: its own idle CPUs
  haltwise record -o cap --guest --mode stats   ... as cpuidle counts them
  haltwise record -o ring --keep 24h --max-size 2G  the last day, always
  ssh host haltwise record -o - --duration 10s | haltwise report -"
)]
pub(crate) struct Arguments {
    /// Output directory; must be empty or not exist
    ///
    /// `-` writes the capture as a tar archive to stdout.
    #[arg(short, long, value_name = "DIR", overrides_with = "output")]
    output: PathBuf,
    /// How long to record: 10, 10s or 5m [default: until Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true)]
    duration: Option<Nanos>,
    /// Record continuously; delete segments older than this
    ///
    /// DIR and each segment in it are read like a capture [default with --max-size: 24h].
    #[arg(long, value_name = "TIME", value_parser = time::duration, conflicts_with = "profile")]
    keep: Option<Nanos>,
    /// Record continuously; keep segments of at most this size, for example 500M
    ///
    /// The oldest are also deleted if the file system is nearly full [default with --keep: 2G].
    #[arg(long, value_name = "SIZE", value_parser = ring::bytes, conflicts_with = "profile")]
    max_size: Option<u64>,
    /// Record the idle CPUs of this machine instead of VMs
    ///
    /// The machine is a Linux guest or bare metal.
    #[arg(long, conflicts_with_all = ["vms", "exits", "profile"])]
    guest: bool,
    /// Only this VM, by a name, UUID, VMID or PID; may be repeated [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Source of events: bpf or tracepoints; with --guest also cpuidle
    ///
    /// [default: the best available]
    #[arg(long = "source", value_name = "SOURCE", hide_possible_values = true, value_parser = offered::known::<Rung>(&["bpf", "tracepoints", "cpuidle"]))]
    rung: Option<Rung>,
    /// Data to record: full, counts or stats
    ///
    /// full: a row for each halt; counts: histograms for each interval; stats: KVM's own
    /// statistics, or with --guest cpuidle's, which runs no code when a vCPU halts.
    #[arg(long, default_value = "full", hide_possible_values = true, value_parser = offered::known::<Mode>(&["full", "counts", "stats"]))]
    mode: Mode,
    /// Interval of the rows in counts and stats mode
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time::duration)]
    interval: Nanos,
    /// Also count VM exits, with KEYS also by MSR, port and so on
    ///
    /// KEYS: msr, pio, mmio, gpa, hypercall, vector, cpuid; for example `--exits=msr,pio`.
    #[arg(
        long,
        value_name = "KEYS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = ""
    )]
    exits: Option<Vec<String>>,
    /// Also sample the threads of VMMs at this frequency [default: 997hz]
    ///
    /// Sampling the CPU clock wakes idle CPUs, which changes the recorded wake-up latencies.
    #[arg(
        long,
        value_name = "RATE",
        num_args = 0..=1,
        default_missing_value = "997hz"
    )]
    profile: Option<Rate>,
    /// Event to sample; may be repeated
    ///
    /// cpu-clock, cycles, instructions, cache-misses, dtlb-misses or page-faults [default: cycles,
    /// instructions, cache-misses and dtlb-misses if the host has them, else cpu-clock].
    #[arg(long = "profile-event", value_name = "EVENT", requires = "profile", hide_possible_values = true, value_parser = EVENTS)]
    profile_events: Vec<Event>,
    /// Do not store the command line in the capture: it may contain a secret
    #[arg(long)]
    no_command: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Run COMMAND as this user, by name or number, without privileges
    ///
    /// It has the user's groups [default: as the user who records].
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// Command to run while recording
    ///
    /// Recording ends with the command, and haltwise with its exit status if that is not 0. The
    /// command's process group is killed when recording ends.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn wanted_exits(keys: Option<&[String]>) -> Result<Option<ExitOptions>, Failure> {
    let Some(keys) = keys else { return Ok(None) };
    let keys = keys.iter().filter(|key| !key.is_empty());
    let sub_keys = keys
        .map(|key| key.parse::<SubKey>())
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new(Exit::Usage, anyhow::anyhow!("--exits: {error}")))?;
    Ok(Some(ExitOptions { sub_keys }))
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    if arguments.output == Path::new(PIPE) {
        if arguments.keep.is_some() || arguments.max_size.is_some() {
            let error = anyhow::anyhow!("a ring has no end to write to stdout: name a directory");
            return Err(Failure::new(Exit::Usage, error));
        }
        return piped::run();
    }
    recording::run(&RecordingRequest {
        output: arguments.output,
        side: if arguments.guest {
            Side::Guest
        } else {
            Side::Host
        },
        duration: arguments.duration.map(|Nanos(ns)| Duration::from_nanos(ns)),
        vms: arguments.vms,
        rung: arguments.rung,
        mode: arguments.mode,
        interval: Duration::from_nanos(arguments.interval.0),
        exits: wanted_exits(arguments.exits.as_deref())?,
        profile: arguments.profile.map(|rate| ProfileWanted {
            rate,
            events: arguments.profile_events,
        }),
        no_command: arguments.no_command,
        json: arguments.json,
        command: arguments.command,
        user: arguments.user,
        price: None,
        ring: (arguments.keep.is_some() || arguments.max_size.is_some()).then(|| Limits {
            keep: Duration::from_nanos(arguments.keep.map_or(KEEP_NS, |Nanos(ns)| ns)),
            most_bytes: arguments.max_size.unwrap_or(MOST_BYTES),
        }),
    })
}
