//! `haltwise verify DIR`: the command line; the work is in [`crate::verify`].

use std::path::PathBuf;

use haltwise_core::kvm::{Arch, Backport, Version};
use haltwise_core::units::Nanos;

use crate::exit::Outcome;
use crate::verify::{self, Told, Wanted};

/// Arguments of `haltwise verify`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Hold recorded halts against the kernel's own rule

Every halt is replayed through the rule of the kernel that was recorded, with \
the parameters that were in force: whether grow or shrink was called, from \
which window to which, and what changed in silence. Each difference is printed \
with its halt. What the recording does not tell can be told by options; an \
option counts, whatever was recorded.",
    after_help = "EXAMPLES
  haltwise verify cap
  haltwise verify cap --all               every difference, not just the first
  haltwise verify cap --json | jq .shown
  haltwise verify imported --kernel 6.1 --max 200us --shrink 0
  haltwise verify cap --backport shrink-floor

EXIT CODES
  0 all that was checked is as the rule has it
  1 something differs, or nothing could be checked
  5 as 0, but the capture was cut or damaged, or events were lost"
)]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` made, or `import`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM: its name, or the number of its VMM's process [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// The kernel whose rule is meant, as `uname -r` prints it [default: recorded]
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<Version>,
    /// KVM's port: x86, arm64, s390, powerpc, riscv, … [default: recorded]
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// A change that the kernel carries early: need-resched, shrink-floor, live-ceiling; may be
    /// given again
    #[arg(long = "backport", value_name = "NAME")]
    backports: Vec<Backport>,
    /// The parameter `halt_poll_ns` (200us, or 200000) [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    max: Option<u32>,
    /// The parameter `halt_poll_ns_grow` [default: recorded]
    #[arg(long, value_name = "N")]
    grow: Option<u32>,
    /// The parameter `halt_poll_ns_grow_start` [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    grow_start: Option<u32>,
    /// The parameter `halt_poll_ns_shrink` [default: recorded]
    #[arg(long, value_name = "N")]
    shrink: Option<u32>,
    /// The ceiling of every VM (`KVM_CAP_HALT_POLL`) [default: recorded]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    cap: Option<u32>,
    /// Show all differences, not the first 20 only
    #[arg(long)]
    all: bool,
    /// Print JSON (schema 1, see docs/verify-json.md) instead of text
    #[arg(long)]
    json: bool,
}

/// A time in KVM's own range; a bare number is nanoseconds, as in KVM's files.
fn nanoseconds(text: &str) -> Result<u32, String> {
    let ns = match text.parse::<u64>() {
        Ok(ns) => ns,
        Err(_) => text.parse::<Nanos>().map_err(|error| error.to_string())?.0,
    };
    u32::try_from(ns).map_err(|_| "KVM keeps no more than 4294967295 ns (4.29 s)".to_owned())
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
