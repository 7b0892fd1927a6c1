//! `haltwise verify DIR`: the command line; the work is in [`crate::verify`].

use std::path::PathBuf;

use haltwise_core::kvm::{Arch, Backport, Version};

use super::time;
use crate::exit::Outcome;
use crate::reading::rule::Told;
use crate::verify::{self, Wanted};

/// Arguments of `haltwise verify`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Check recorded halts against KVM's halt polling algorithm

Replays every halt with the algorithm of the recorded kernel and the parameters \
in force at that time, and compares whether grow or shrink was called, the \
window before and after, and changes without a trace event. Prints each \
difference with its halt. Options specify what the recording does not contain, \
and override what it does.",
    after_help = "EXAMPLES
  haltwise verify cap
  haltwise verify cap --all               all differences, not only the first 20
  haltwise verify cap --json | jq .shown
  haltwise verify imported --kernel 6.1 --max 200us --shrink 0
  haltwise verify cap --backport shrink-floor

EXIT CODES
  0 all halts that could be checked match
  1 some halts differ, or none could be checked
  5 as 0, but the capture is truncated or damaged, or events were lost"
)]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Kernel release as `uname -r` prints it [default: recorded]
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<Version>,
    /// Architecture: x86, arm64, s390, powerpc, riscv, … [default: recorded]
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// Backport in this kernel: need-resched, shrink-floor, live-ceiling; may be repeated
    /// [default: detected from the recording]
    #[arg(long = "backport", value_name = "NAME")]
    backports: Vec<Backport>,
    /// Module parameter `halt_poll_ns`: 200us or 200000 [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    max: Option<u32>,
    /// Module parameter `halt_poll_ns_grow` [default: recorded]
    #[arg(long, value_name = "N")]
    grow: Option<u32>,
    /// Module parameter `halt_poll_ns_grow_start` [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    grow_start: Option<u32>,
    /// Module parameter `halt_poll_ns_shrink` [default: recorded]
    #[arg(long, value_name = "N")]
    shrink: Option<u32>,
    /// Ceiling of every VM (`KVM_CAP_HALT_POLL`) [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    cap: Option<u32>,
    /// Print all differences [default: the first 20]
    #[arg(long)]
    all: bool,
    /// Print JSON (schema 1, see docs/verify-json.md)
    #[arg(long)]
    json: bool,
}

/// Verifies and prints.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    verify::run(&Wanted {
        dir: arguments.dir,
        vm: arguments.vm,
        told: Told {
            kernel: arguments.kernel,
            arch: arguments.arch,
            backports: arguments.backports,
            parameters: [
                arguments.max,
                arguments.grow,
                arguments.grow_start,
                arguments.shrink,
            ],
            cap: arguments.cap,
        },
        all: arguments.all,
        json: arguments.json,
    })
}
