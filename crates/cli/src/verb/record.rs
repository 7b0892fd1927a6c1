//! `haltwise record`: the command line; the work is in [`crate::record`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use haltwise_core::exit::SubKey;
use haltwise_core::profile::Event;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;

use crate::exit::{Exit, Failure, Outcome};
use crate::record::{self, ExitsWanted, ProfileWanted, Rate, Wanted, event};

/// What to record, and where to.
#[derive(Debug, Args)]
#[command(
    long_about = "Record the halts of the virtual machines on this host

Every halt of every VM becomes a row: how long, polled how long, asleep, woken \
by what and how late, under which window and ceiling. Nothing on the host is \
changed. Recording ends after --duration, with COMMAND, or with Ctrl-C.",
    after_help = "EXAMPLES
  haltwise record -o cap --duration 10s         all VMs, ten seconds
  haltwise record -o cap --vm web-1             one VM, until Ctrl-C
  haltwise record -o cap -- ./load-test.sh      as long as the command runs
  haltwise record -o cap --mode counts          histograms only: cheaper
  haltwise record -o cap --mode stats           KVM's own: no cost on a halt
  haltwise record -o cap --exits=msr,pio        exits too, by MSR and port
  haltwise record -o cap --exits --profile 997hz    where the CPU time goes"
)]
pub(crate) struct Arguments {
    /// Directory to write; must not exist yet, or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// How long, for example 10s or 5m [default: until Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,
    /// Only this VM, by process number or name; may be given again [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Source of the facts: bpf or tracepoints [default: the best that works]
    #[arg(long)]
    rung: Option<Rung>,
    /// What to keep: full (a row for each halt), counts (histograms), or stats
    /// (what KVM itself counts, so that nothing runs when a vCPU halts)
    #[arg(long, default_value = "full")]
    mode: Mode,
    /// Length of a row in counts and stats mode
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Buffer between kernel and recorder in MiB, a power of two
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = buffer_mib)]
    buffer: u32,
    /// Count exits too: `--exits`, or with what they were about, for example
    /// `--exits=msr,pio` (msr, pio, mmio, gpa, hypercall, vector, cpuid)
    #[arg(
        long,
        value_name = "KEYS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = ""
    )]
    exits: Option<Vec<String>>,
    /// Only exits of this vCPU, by number; may be given again [default: all]
    #[arg(long = "exits-vcpu", value_name = "N", requires = "exits")]
    exit_vcpus: Vec<u32>,
    /// Only exits of this reason, by the kernel's name or number; may be given
    /// again [default: all]
    #[arg(long = "exits-reason", value_name = "NAME", requires = "exits")]
    exit_reasons: Vec<String>,
    /// Sample the threads of VMMs too, so often each second: `--profile`, or
    /// `--profile 99hz`. Sampling the CPU clock wakes idle CPUs: wake-up
    /// latencies of such a recording are not those without it [default: 997hz]
    #[arg(
        long,
        value_name = "RATE",
        num_args = 0..=1,
        default_missing_value = "997hz"
    )]
    profile: Option<Rate>,
    /// What to sample: cpu-clock, cycles, instructions, cache-misses,
    /// dtlb-misses, page-faults; may be given again [default: cycles and the
    /// three after it where the host counts them, else cpu-clock]
    #[arg(long = "profile-event", value_name = "EVENT", requires = "profile", value_parser = event)]
    profile_events: Vec<Event>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Command to run while recording
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn buffer_mib(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(mib) if mib.is_power_of_two() && mib <= 1024 => Ok(mib),
        _ => Err("a power of two from 1 to 1024 is needed".to_owned()),
    }
}

/// What is asked for of exits. Reasons stay texts until the host's own names are known.
fn wanted_exits(
    keys: Option<&[String]>,
    vcpus: Vec<u32>,
    reasons: Vec<String>,
) -> Result<Option<ExitsWanted>, Failure> {
    let Some(keys) = keys else { return Ok(None) };
    let keys = keys.iter().filter(|key| !key.is_empty());
    let sub_keys = keys
        .map(|key| key.parse::<SubKey>())
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new(Exit::Usage, anyhow::anyhow!("--exits: {error}")))?;
    Ok(Some(ExitsWanted {
        sub_keys,
        vcpus: vcpus.into_iter().collect(),
        reasons,
    }))
}

/// Records.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    record::run(&Wanted {
        output: arguments.output,
        duration: arguments
            .duration
            .map(|duration| Duration::from_nanos(duration.0)),
        vms: arguments.vms,
        rung: arguments.rung,
        mode: arguments.mode,
        interval: Duration::from_nanos(arguments.interval.0),
        buffer_bytes: arguments.buffer << 20,
        exits: wanted_exits(
            arguments.exits.as_deref(),
            arguments.exit_vcpus,
            arguments.exit_reasons,
        )?,
        profile: arguments.profile.map(|rate| ProfileWanted {
            rate,
            events: arguments.profile_events,
        }),
        json: arguments.json,
        command: arguments.command,
    })
}
