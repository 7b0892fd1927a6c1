//! haltwise: finds out what halts cost the virtual machines of a host.
//!
//! This file wires; each verb is a file under `verb/`. It is a library for the Python package, which calls [`answer`],
//! and for a fuzzer.
#![forbid(unsafe_code)]

pub mod answer;
mod calibrate;
mod collect;
mod costs;
mod diff;
mod doctor;
mod exit;
mod exits;
mod explain;
mod exporter;
mod figures;
mod fleet;
#[doc(hidden)]
pub mod fuzz;
mod html;
mod import;
mod integrity;
mod knob;
mod ledger;
mod metrics;
mod now;
mod offered;
mod pilot;
mod pilot_state;
mod plan;
mod prices;
mod profile;
mod progress;
mod proof;
mod prove;
mod reading;
mod recommend;
mod replay;
mod report;
mod service;
mod shown;
mod state;
mod status;
mod terminal;
mod time;
mod top;
mod tune;
mod verb;
mod verify;
mod webpage;
mod words;

use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, Parser};
use haltwise_document::{chart, number, page};
use haltwise_host::companion;

use crate::exit::Exit;

/// Seed of random orders and draws: the same data give the same result.
const SEED: u64 = 1;

/// Measure and tune the halt polling of KVM virtual machines
#[derive(Debug, Parser)]
#[command(
    name = "haltwise",
    version,
    help_expected = true,
    max_term_width = 80,
    long_about = verb::now::ABOUT,
    after_long_help = "EXAMPLES
  haltwise                                 what polling costs here
  haltwise --for 1m --json                 the same from a minute, as JSON
  haltwise --capture cap                   the answer from a capture that exists
  haltwise status --check                  what can be recorded on this host
  haltwise record -o cap --duration 10s    record the halts of all VMs
  haltwise report cap                      a summary of the halts
  haltwise verify cap                      check them against KVM's algorithm

EXIT CODES
  0 done   1 failed   2 usage   3 unsupported host   4 not permitted
  5 data was lost, is damaged or incomplete

DOCUMENTS
  files of docs/ are installed in share/doc/haltwise/docs below the prefix"
)]
#[command(args_conflicts_with_subcommands = true)]
#[command(disable_help_flag = true, mut_subcommands(shorten))]
#[command(
    after_help = "`haltwise --help` adds examples and exit codes; COMMAND -h lists its options."
)]
struct Cli {
    /// Print help (see a summary with '-h')
    #[arg(id = "help", short = 'h', long = "help", action = ArgAction::Help)]
    #[arg(global = true, hide_short_help = true)]
    _help: Option<bool>,
    #[command(subcommand)]
    verb: Option<verb::Verb>,
    #[command(flatten)]
    asked: verb::now::Arguments,
}

/// Options of several commands: the short help of each names them in one line.
const SHARED: [&str; 8] = [
    "grow",
    "grow_start",
    "shrink",
    "root",
    "rows",
    "sort",
    "width",
    "json",
];

fn shorten(command: Command) -> Command {
    let is_shared = |arg: &Arg| SHARED.contains(&arg.get_id().as_str());
    let shared = command.get_arguments().filter(|arg| is_shared(arg));
    let names = shared.map(|arg| format!(" --{},", arg.get_long().unwrap_or_default()));
    let names: String = names.collect();
    let more = match command.get_after_long_help() {
        Some(_) => "\n`--help` describes all options, with examples.",
        None => "",
    };
    let more = format!("More:{names} --help{more}");
    let hidden = |arg: Arg| {
        if is_shared(&arg) {
            arg.hide_short_help(true)
        } else {
            arg
        }
    };
    (command.mut_args(hidden).mut_subcommands(shorten)).after_help(more)
}

pub fn run() -> ExitCode {
    // Started by a recorder, beside itself; not a command of users.
    if let Some(served) = companion::serve(std::env::args_os().skip(1)) {
        return served.map_or(Exit::Failed, |()| Exit::Done).into();
    }
    // The clock of what is said of work that takes long.
    progress::elapsed();
    // A panic of a table decoder is returned as an error that names the file.
    haltwise_capture::contain::silence_contained_panics();
    collect::interrupt::outlive_file_size_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let outcome = match cli.verb {
        Some(verb) => verb.run(),
        None => verb::now::run(&cli.asked),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::complain(&failure);
            failure.exit.into()
        }
    }
}

/// Help and version go to stdout and are no error; the rest is a wrong command line.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // It repeats the arguments, which a shell may have taken from names of files.
        terminal::say(error.render().to_string().trim_end());
        return Exit::Usage.into();
    }
    // A reader of help that went away is no error either.
    drop(error.print());
    Exit::Done.into()
}
