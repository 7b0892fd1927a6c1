//! haltwise: finds out what halts cost the virtual machines of a host.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haltwise::run()
}
