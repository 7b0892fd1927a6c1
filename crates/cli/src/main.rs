//! haltwise: finds out what halts cost the virtual machines of a host.
//!
//! This file wires; each verb is a file under `verb/`.
#![forbid(unsafe_code)]

mod apply;
mod chart;
mod diff;
mod doctor;
mod exit;
mod exits;
mod explain;
mod html;
mod import;
mod ledger;
mod number;
mod open;
mod page;
mod plan;
mod profile;
mod progress;
mod prove;
mod record;
mod replay;
mod report;
mod status;
mod terminal;
mod top;
mod tune;
mod undo;
mod verb;
mod verify;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

/// Finds out where the halted time of this host's KVM virtual machines goes
#[derive(Debug, Parser)]
#[command(
    name = "haltwise",
    version,
    help_expected = true,
    disable_help_subcommand = true,
    max_term_width = 80,
    after_help = "EXAMPLES
  haltwise doctor                          what can be seen on this host
  haltwise record -o cap --duration 10s    record the halts of all VMs
  haltwise report cap                      where their halted time goes
  haltwise verify cap                      whether KVM did as its rule says

EXIT CODES
  0 done   1 failed   2 usage   3 unsupported host   4 not permitted
  5 done, but data was lost or is partial"
)]
struct Cli {
    /// What to do
    #[command(subcommand)]
    verb: verb::Verb,
}

fn main() -> ExitCode {
    // What a table decoder panics over comes back as an error that names the file.
    haltwise_capture::contain::silence_contained_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.verb.run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::complain(&failure);
            failure.exit.into()
        }
    }
}

/// Help and version go to stdout and are no error; the rest is a wrong command line.
fn usage(error: &clap::Error) -> ExitCode {
    let exit = if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    };
    // A reader of help that went away is no error either.
    drop(error.print());
    exit.into()
}
