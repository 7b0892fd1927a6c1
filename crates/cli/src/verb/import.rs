//! `haltwise import`: the command line; the work is in [`crate::import`].

use std::path::PathBuf;

use clap::Args;
use haltwise_capture::import::Told;
use haltwise_core::kvm::Version;
use haltwise_core::units::Nanos;

use crate::exit::Outcome;
use crate::import::{self, Wanted};

/// What to import, and where to.
#[derive(Debug, Args)]
#[command(
    long_about = "Make a capture of what ftrace, perf or trace-cmd recorded

Reads text: ftrace's trace and trace_pipe, `perf script`, `trace-cmd report`. It \
must hold kvm_vcpu_wakeup; kvm_halt_poll_ns tells windows, sched_waking and \
sched_switch tell who woke a vCPU, how late, and how long it polled. Settings \
are not in such text: tell those that you know. What is not told stays unknown.",
    after_help = "EXAMPLES
  haltwise import -o cap trace.txt               a copy of ftrace's trace
  perf script --ns -F comm,pid,tid,cpu,time,event,trace |
    haltwise import -o cap -                     from perf.data
  trace-cmd report -t | haltwise import -o cap - from trace.dat
  haltwise import -o cap --kernel 5.15 --max 200us trace.txt
                                                 with what is known of the host

RECORDING
  perf record -a -e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns \\
    -e sched:sched_waking -e sched:sched_switch -- sleep 10

Exits with 5 if lines were passed over or the tracer lost events: the capture is
made all the same, and every report of it says what is missing. More about what
is read and what becomes of it: docs/import.md."
)]
pub(crate) struct Arguments {
    /// Text to read; - is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory to write; must not exist yet, or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Ceiling of polling: the module parameter `halt_poll_ns` [default: unknown]
    #[arg(long, value_name = "TIME", value_parser = halt_poll_ns)]
    max: Option<u32>,
    /// Factor: `halt_poll_ns_grow` [default: unknown]
    #[arg(long, value_name = "N")]
    grow: Option<u32>,
    /// First window: `halt_poll_ns_grow_start` [default: unknown]
    #[arg(long, value_name = "TIME", value_parser = halt_poll_ns)]
    grow_start: Option<u32>,
    /// Divisor: `halt_poll_ns_shrink` [default: unknown]
    #[arg(long, value_name = "N")]
    shrink: Option<u32>,
    /// Each VM's own ceiling (`KVM_CAP_HALT_POLL`) [default: unknown]
    #[arg(long, value_name = "TIME", value_parser = halt_poll_ns)]
    cap: Option<u32>,
    /// Kernel, as uname -r prints it, 4.0 or later [default: the text's word, else unknown]
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    kernel: Option<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// A time as KVM keeps it: nanoseconds in 32 bits.
fn halt_poll_ns(text: &str) -> Result<u32, String> {
    let time: Nanos = text
        .parse()
        .map_err(|error: <Nanos as std::str::FromStr>::Err| error.to_string())?;
    u32::try_from(time.0).map_err(|_| "KVM's times end at 4294967295ns".to_owned())
}

fn kernel(text: &str) -> Result<String, String> {
    let version: Version = text
        .parse()
        .map_err(|error: <Version as std::str::FromStr>::Err| error.to_string())?;
    if version < Version::FIRST {
        return Err(format!(
            "KVM polls halts since {}, so this kernel has none",
            Version::FIRST
        ));
    }
    Ok(text.to_owned())
}

/// Imports.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    import::run(Wanted {
        file: arguments.file,
        output: arguments.output,
        told: Told {
            param_halt_poll_ns: arguments.max,
            grow: arguments.grow,
            grow_start: arguments.grow_start,
            shrink: arguments.shrink,
            vm_max_halt_poll_ns: arguments.cap,
            kernel_release: arguments.kernel,
        },
        json: arguments.json,
    })
}
