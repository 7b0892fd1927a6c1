//! The command that runs while we record: started by us, and ended with us.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::Context;
use haltwise_host::command::{self, Account, Running};

use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    running: Option<Running>,
}

/// Finds who is to run the command, before anything is attached.
pub(crate) fn account(user: Option<&str>) -> Result<Option<Account>, Failure> {
    let account = user.map(Account::find).transpose().context("--user");
    account.map_err(|error| Failure::new(Exit::Failed, error))
}

impl Child {
    pub(crate) fn spawn(command: &[OsString], account: Option<Account>) -> Result<Self, Failure> {
        let name = command.first();
        let name = name.map_or_else(String::new, |it| it.to_string_lossy().into_owned());
        let start = || Running::start(command, account);
        let running = (!command.is_empty()).then(start).transpose();
        let running = running
            .with_context(|| format!("start `{name}`"))
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        Ok(Self { name, running })
    }

    pub(crate) fn is_there(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.running.as_ref().is_some_and(Running::has_ended)
    }

    /// Ends the command and all of its process group: SIGTERM, and after two seconds SIGKILL.
    pub(crate) fn end(self) -> Ended {
        let status = match self.running.map(Running::end) {
            Some(Ok(command::Ended::Itself(status))) => Some(status),
            // A process that cannot be waited for has no status.
            Some(Ok(command::Ended::Asked) | Err(_)) | None => None,
        };
        Ended {
            name: self.name,
            status,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    name: String,
    /// `None` where there was none, or where we ended it ourselves.
    status: Option<ExitStatus>,
}

impl Ended {
    /// Message if the command failed by itself, and its exit status: as shells have it, 128 and the
    /// signal that ended it.
    pub(crate) fn failure(&self) -> Option<(String, Exit)> {
        let status = self.status.filter(|status| !status.success())?;
        let number = status.code().or_else(|| Some(128 + status.signal()?));
        let number = number.and_then(|number| u8::try_from(number).ok());
        let text = format!(
            "error: `{}` failed: {status}; the recording of it is kept",
            self.name
        );
        Some((text, number.map_or(Exit::Failed, Exit::Command)))
    }
}
