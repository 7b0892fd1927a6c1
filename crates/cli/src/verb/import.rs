//! `haltwise import`: the command line; the work is in [`crate::import`].

use std::path::PathBuf;

use clap::Args;
use haltwise_capture::import::GivenSettings;
use haltwise_core::kvm::Version;

use crate::exit::Outcome;
use crate::import;
use crate::reading::given::GivenParameters;

/// Source and destination of an import.
#[derive(Debug, Args)]
#[command(
    about = "Convert ftrace, perf or trace-cmd output to a capture",
    long_about = "Convert ftrace, perf or trace-cmd output to a capture

Reads text: ftrace's trace and trace_pipe, `perf script`, `trace-cmd report`. It \
must contain kvm_vcpu_wakeup, or kvm_exit and kvm_entry. kvm_halt_poll_ns gives the windows; sched_waking \
and sched_switch give the wake source, the wake-up latency and the time polled. \
Such text does not contain KVM's parameters: specify those that you know. All \
others stay unknown.",
    after_long_help = "EXAMPLES
  haltwise import -o cap trace.txt               a copy of ftrace's trace
  perf script --ns -F comm,pid,tid,cpu,time,event,trace |
    haltwise import -o cap -                     from perf.data
  trace-cmd report -t | haltwise import -o cap - from trace.dat
  haltwise import -o cap --kernel 5.15 --max 200us trace.txt

RECORDING
  perf record -a -e kvm:kvm_vcpu_wakeup -e kvm:kvm_halt_poll_ns \\
    -e sched:sched_waking -e sched:sched_switch -- sleep 10

Exits with 5 if lines were skipped or the tracer lost events: the capture is
still written, and every report of it says what is missing. docs/import.md
describes what is read and how it is converted."
)]
pub(crate) struct Arguments {
    /// Text to read; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output directory; must be empty or not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    given: GivenParameters,
    /// Kernel release as `uname -r` prints it, 4.0 or later [default: as the text
    /// says, else unknown]
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    kernel: Option<String>,
    /// Do not store this command line in the capture
    #[arg(long)]
    no_command: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
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

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let given = arguments.given;
    let told = GivenSettings {
        parameters: given.values(),
        vm_max_halt_poll_ns: given.cap,
        kernel_release: arguments.kernel,
    };
    let command = if arguments.no_command {
        Vec::new()
    } else {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        words.collect()
    };
    let (file, output) = (&arguments.file, &arguments.output);
    import::run(file, output, (told, command), arguments.json)
}
