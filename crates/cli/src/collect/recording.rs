//! Recording: attach, drain, write, and end cleanly whatever happens.

pub(crate) mod own;
pub(crate) mod piped;
pub(crate) mod ring;
mod session;
mod start;
mod summary;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context as _;
use haltwise_core::recording::{Mode, Roster, Rung, Side};
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::units::Nanos;
use haltwise_host::command::{Account, Ended, Running};
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::ExitOptions;
use haltwise_host::root::Root;

use self::ring::{Limits, Ring};
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
    /// The command's status, if the command failed by itself.
    status: Option<ExitStatus>,
}

pub(crate) fn run(wanted: &RecordingRequest) -> Outcome {
    let Some(Recorded { summary, status }) = record_if(wanted, |_| true)? else {
        return Ok(Exit::Done);
    };
    if wanted.json {
        terminal::print(&summary.json()?)?;
    } else {
        terminal::print(&summary.text())?;
    }
    if let (Some(name), Some(status)) = (wanted.command.first(), status) {
        let name = name.to_string_lossy();
        terminal::say(&format!(
            "error: `{name}` failed: {status}; the recording of it is kept"
        ));
        return Ok(exit_of(status));
    }
    Ok(Exit::of_partial(summary.is_partial()))
}

/// The exit status of a command that failed, as shells have it: 128 and the signal that ended it.
fn exit_of(status: ExitStatus) -> Exit {
    let signal = || Some(128 + status.signal()?);
    let number = status.code().or_else(signal);
    let number = number.and_then(|number| u8::try_from(number).ok());
    number.map_or(Exit::Failed, Exit::Command)
}

/// Starts the command that runs while we record, if there is one.
fn spawn(command: &[OsString], account: Option<Account>) -> Result<Option<Running>, Failure> {
    let Some(name) = command.first() else {
        return Ok(None);
    };
    let running = Running::start(command, account);
    let running = running.with_context(|| format!("start `{}`", name.to_string_lossy()))?;
    Ok(Some(running))
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
    let user = wanted.user.as_deref();
    let account = user.map(Account::find).transpose().context("--user")?;
    let interrupt = Interrupt::watch()?;
    let mut session = start::start(wanted, &root, ring)?;
    if !is_worth_it(&session.roster) {
        session.recording.discard()?;
        return Ok(None);
    }
    terminal::say(&session.greeting(wanted));
    let command = match spawn(&wanted.command, account) {
        Ok(command) => command,
        Err(failure) => return Err(session.discard(failure)),
    };
    session.confine(command.is_some());
    let ended = session.run(wanted.duration, &interrupt, command.as_ref());
    // The command is ours: it does not outlive the recording, even if that failed.
    let status = match command.map(Running::end) {
        Some(Ok(Ended::Itself(status))) => Some(status).filter(|status| !status.success()),
        // One that cannot be waited for has no status, and one that we ended did not fail.
        Some(Ok(Ended::Asked) | Err(_)) | None => None,
    };
    let summary = match ended {
        Ok(by) => session.finish(by)?,
        Err(failure) => return Err(session.abandon(failure)),
    };
    if let Some(failure) = &summary.unfinished {
        terminal::complain(failure);
    } else if wanted.side.is_host() && wanted.mode.keeps_halts() && wanted.ring.is_none() {
        rule::keep(&wanted.output, summary.id);
    }
    Ok(Some(Recorded { summary, status }))
}
