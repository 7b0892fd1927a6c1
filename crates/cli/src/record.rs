//! Recording: attach, drain, write, and end cleanly whatever happens.
//!
//! | file | holds |
//! |---|---|
//! | [`start`] | which rung, which VMs, what is known at the start |
//! | [`exits`] | exits beside the halts: what was asked for, and what of it this host can |
//! | [`profile`] | samples beside the halts: how often, of what |
//! | [`session`] | the loop from the first drain to the last |
//! | [`child`] | the command that runs meanwhile |
//! | [`interrupt`] | SIGINT, SIGTERM, SIGHUP |
//! | [`summary`] | what is said at the end |

mod child;
mod exits;
pub(crate) mod interrupt;
mod profile;
mod session;
pub(crate) mod start;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haltwise_core::recording::{Mode, Rung};
use haltwise_host::discovery::VmSelector;
use haltwise_host::root::Root;

use self::child::Child;
pub(crate) use self::exits::ExitsWanted;
use self::interrupt::Interrupt;
pub(crate) use self::profile::{ProfileWanted, Rate, event};
use self::session::Session;
use crate::exit::{Exit, Outcome};
use crate::terminal;

/// What the user asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) output: PathBuf,
    pub(crate) duration: Option<Duration>,
    pub(crate) vms: Vec<VmSelector>,
    pub(crate) rung: Option<Rung>,
    pub(crate) mode: Mode,
    pub(crate) interval: Duration,
    pub(crate) buffer_bytes: u32,
    pub(crate) exits: Option<ExitsWanted>,
    pub(crate) profile: Option<ProfileWanted>,
    pub(crate) json: bool,
    pub(crate) command: Vec<OsString>,
}

/// Records until something ends it.
pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let root = Root::host();
    start::check_output(&wanted.output)?;
    let interrupt = Interrupt::watch()?;
    let started = start::start(wanted, &root)?;
    terminal::say(&started.greeting(wanted));
    let mut session = Session::begin(started, root);
    let mut child = Child::spawn(&wanted.command)?;
    let ended = session.run(wanted.duration, &interrupt, &mut child);
    // The command is ours: it does not outlive the recording, even if that failed.
    let command = child.end();
    let summary = session.finish(ended?)?;
    if wanted.json {
        terminal::print(&summary.json()?)?;
    } else {
        terminal::print(&summary.text())?;
    }
    if let Some(failed) = command.failure() {
        terminal::say(&failed);
        return Ok(Exit::Failed);
    }
    Ok(if summary.is_partial() {
        Exit::Partial
    } else {
        Exit::Done
    })
}
