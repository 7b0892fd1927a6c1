//! Recording: attach, drain, write, and end cleanly whatever happens.
//!
//! | file | holds |
//! |---|---|
//! | [`start`] | the directory, and what is known at the start |
//! | [`session`] | the loop from the first drain to the last |
//! | [`own`] | captures for one question, and how many stay |
//! | [`piped`] | the capture as an archive on stdout |
//! | [`ring`] | segments, of which the oldest are dropped |
//! | [`child`] | the command that runs meanwhile |
//! | [`summary`] | what is said at the end |

mod child;
pub(crate) mod own;
pub(crate) mod piped;
pub(crate) mod ring;
mod session;
mod start;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haltwise_core::recording::{Mode, Roster, Rung, Side};
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;
use haltwise_host::root::Root;

use self::child::{Child, Ended};
use self::ring::{Limits, Ring};
use self::session::Session;
use self::summary::Summary;
use crate::collect::interrupt::Interrupt;
use crate::collect::profile::ProfileWanted;
use crate::exit::{Exit, Failure, Outcome};
use crate::reading::rule;
use crate::terminal;

#[derive(Debug)]
pub(crate) struct RecordingRequest {
    pub(crate) output: PathBuf,
    pub(crate) side: Side,
    pub(crate) duration: Option<Duration>,
    pub(crate) vms: Vec<VmSelector>,
    pub(crate) rung: Option<Rung>,
    pub(crate) mode: Mode,
    pub(crate) interval: Duration,
    pub(crate) exits: Option<ExitOptions>,
    pub(crate) profile: Option<ProfileWanted>,
    pub(crate) json: bool,
    pub(crate) command: Vec<OsString>,
    /// User that runs the command, if not ours.
    pub(crate) user: Option<String>,
    pub(crate) no_command: bool,
    /// Cost of a sleep on this host; if `None`, the cost that is kept with the host.
    pub(crate) price: Option<Box<Written>>,
    /// Record to a ring, and keep so much.
    pub(crate) ring: Option<Limits>,
}

impl RecordingRequest {
    /// A recording for one question, of ten seconds if not given, into a directory of its own.
    pub(crate) fn brief(
        vm: Option<&str>,
        duration: Option<Nanos>,
        exits: Option<ExitOptions>,
    ) -> Self {
        let Ok(vm) = vm.map(str::parse).transpose();
        let Nanos(ns) = duration.unwrap_or(Nanos(10_000_000_000));
        Self {
            output: own::next(),
            side: Side::Host,
            duration: Some(Duration::from_nanos(ns)),
            vms: Vec::from_iter(vm),
            rung: None,
            mode: Mode::Full,
            interval: Duration::from_secs(1),
            exits,
            profile: None,
            json: false,
            command: Vec::new(),
            user: None,
            no_command: false,
            price: None,
            ring: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) summary: Summary,
    command: Ended,
}

pub(crate) fn run(wanted: &RecordingRequest) -> Outcome {
    let Some(Recorded { summary, command }) = record_if(wanted, |_| true)? else {
        return Ok(Exit::Done);
    };
    if wanted.json {
        terminal::print(&summary.json()?)?;
    } else {
        terminal::print(&summary.text())?;
    }
    if let Some((failed, exit)) = command.failure() {
        terminal::say(&failed);
        return Ok(exit);
    }
    Ok(Exit::of_partial(summary.is_partial()))
}

/// Records until something ends it; not at all, and leaves nothing, where those who are there are not worth it.
pub(crate) fn record_if(
    wanted: &RecordingRequest,
    is_worth_it: impl FnOnce(&Roster) -> bool,
) -> Result<Option<Recorded>, Failure> {
    let root = Root::host();
    let ring = if let Some(limits) = wanted.ring {
        Some(Ring::open(&wanted.output, limits)?)
    } else {
        start::check_output(&wanted.output)?;
        None
    };
    let account = child::account(wanted.user.as_deref())?;
    let interrupt = Interrupt::watch()?;
    let started = start::start(wanted, &root, ring)?;
    if !is_worth_it(started.collector.roster()) {
        started.recording.discard()?;
        return Ok(None);
    }
    terminal::say(&started.greeting(wanted));
    let mut session = Session::begin(started, root);
    let child = match Child::spawn(&wanted.command, account) {
        Ok(child) => child,
        Err(failure) => return Err(session.discard(failure)),
    };
    session.confine(child.is_there());
    let ended = session.run(wanted.duration, &interrupt, &child);
    // The command is ours: it does not outlive the recording, even if that failed.
    let command = child.end();
    let summary = match ended {
        Ok(by) => session.finish(by)?,
        Err(failure) => return Err(session.abandon(failure)),
    };
    if let Some(failure) = &summary.unfinished {
        terminal::complain(failure);
    } else if wanted.side.is_host() && wanted.mode.keeps_halts() && wanted.ring.is_none() {
        rule::keep(&wanted.output, summary.id);
    }
    Ok(Some(Recorded { summary, command }))
}
