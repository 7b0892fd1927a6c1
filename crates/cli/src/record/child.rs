//! The command that runs while we record: started by us, and ended with us.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::exit::{Exit, Failure};

/// How long the command may take to end after SIGTERM, in steps of [`STEP`].
const PATIENCE: u32 = 200;
const STEP: Duration = Duration::from_millis(10);

/// A command, or none.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    running: Option<std::process::Child>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts the command, if there is one.
    pub(crate) fn spawn(command: &[OsString]) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Self {
                name: String::new(),
                running: None,
                status: None,
            });
        };
        let name = program.to_string_lossy().into_owned();
        let running = Command::new(program)
            .args(arguments)
            .spawn()
            .with_context(|| format!("start `{name}`"))
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        Ok(Self {
            name,
            running: Some(running),
            status: None,
        })
    }

    /// Whether there was a command and it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        match running.try_wait() {
            Ok(Some(status)) => {
                self.status = Some(status);
                self.running = None;
                true
            }
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Ends the command: SIGTERM, and after two seconds SIGKILL.
    pub(crate) fn end(mut self) -> Ended {
        let asked = self.running.is_some() && !self.has_ended();
        if asked && let Some(mut running) = self.running.take() {
            if let Some(pid) = i32::try_from(running.id()).ok().and_then(Pid::from_raw) {
                let _gone_already = kill_process(pid, Signal::TERM);
            }
            for _ in 0..PATIENCE {
                if matches!(running.try_wait(), Ok(Some(_))) {
                    return Ended {
                        name: self.name,
                        status: None,
                    };
                }
                std::thread::sleep(STEP);
            }
            drop(running.kill());
            drop(running.wait());
        }
        Ended {
            name: self.name,
            status: self.status,
        }
    }
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    name: String,
    /// `None` where there was none, or where we ended it ourselves.
    status: Option<ExitStatus>,
}

impl Ended {
    /// What to say if the command failed by itself.
    pub(crate) fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        Some(format!(
            "error: `{}` failed: {status}; the recording of it is kept",
            self.name
        ))
    }
}
