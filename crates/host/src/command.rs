//! A command that runs beside us: in a process group of its own, as another user if asked, and gone when
//! we are.
//!
//! Its group is signalled as a whole. Should this process be killed, the command gets SIGKILL from the
//! kernel (`PR_SET_PDEATHSIG`) and its group from a watcher, a shell that waits for the end of a pipe that
//! only we hold open. A process that leaves the group by `setsid` is on its own.
#![allow(
    unsafe_code,
    reason = "between fork and exec only pre_exec can set user and death signal"
)]

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, test_kill_process_group, waitid,
};

pub use self::account::{Account, AccountError};

mod account;

/// How long a group may take to end after SIGTERM, in steps of [`STEP`].
const PATIENCE: u32 = 200;
const STEP: Duration = Duration::from_millis(10);

/// Kills the process group that the first line of its stdin names when that ends without another line.
const WATCHER: &str = "read -r group && { read -r line || kill -s KILL -- \"-$group\"; }";

/// A command under way. Dropping it ends the command.
#[derive(Debug)]
pub struct Running {
    leader: Child,
    group: Pid,
    watcher: Option<Child>,
    reaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Itself(ExitStatus),
    Asked,
}

impl Running {
    pub fn start(words: &[OsString], account: Option<Account>) -> io::Result<Self> {
        Self::start_with(
            words,
            account,
            [own_stdin(), Stdio::inherit(), Stdio::inherit()],
        )
    }

    pub fn start_with(
        words: &[OsString],
        account: Option<Account>,
        [stdin, stdout, stderr]: [Stdio; 3],
    ) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        if let Some(account) = &account {
            command.envs(account.environment());
        }
        let watcher = watcher()?;
        let pipe = watcher.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let pipe = pipe.as_fd().try_clone_to_owned()?;
        let parent = getpid();
        let before_exec = move || {
            if let Some(account) = &account {
                account.assume()?;
            }
            // A change of user forgets it: last.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                return Err(Errno::SRCH.into());
            }
            // Before exec: nothing of the command runs that the watcher does not know.
            name_group(&pipe)
        };
        // SAFETY: between fork and exec only system calls are made, by rustix without libc and without
        // memory allocated: what they need was made before, and a number is written into an array.
        unsafe { command.pre_exec(before_exec) };
        let leader = match command.spawn() {
            Ok(leader) => leader,
            Err(error) => {
                dismiss(watcher);
                return Err(error);
            }
        };
        let group = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
        Ok(Self {
            group: group.ok_or(io::ErrorKind::InvalidData)?,
            leader,
            watcher: Some(watcher),
            reaped: false,
        })
    }

    pub fn group(&self) -> Pid {
        self.group
    }

    /// Whether the command has ended by itself. It stays a zombie, so that no group gets its group's number.
    pub fn has_ended(&self) -> bool {
        let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.group), looked), Ok(None))
    }

    /// Ends it and all of its group: SIGTERM, and after two seconds SIGKILL.
    pub fn end(mut self) -> io::Result<Ended> {
        let asked = !self.has_ended();
        let status = self.wind_up()?;
        Ok(if asked {
            Ended::Asked
        } else {
            Ended::Itself(status)
        })
    }

    fn wind_up(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        let mut status = None;
        for _ in 0..PATIENCE {
            if status.is_none() {
                status = self.leader.try_wait()?;
            }
            // As long as a process is in the group, its number is the group's.
            if status.is_some() && test_kill_process_group(self.group).is_err() {
                break;
            }
            std::thread::sleep(STEP);
        }
        if status.is_none() || test_kill_process_group(self.group).is_ok() {
            self.signal(Signal::KILL);
        }
        let status = status.map_or_else(|| self.leader.wait(), Ok)?;
        self.reaped = true;
        self.watcher.take().into_iter().for_each(dismiss);
        Ok(status)
    }

    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let _gone_already = kill_process_group(self.group, signal);
    }
}

/// A watcher, in a group of its own too, which no Ctrl-C reaches.
fn watcher() -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", WATCHER])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Tells a watcher that the group to kill is that of this process.
fn name_group(pipe: &OwnedFd) -> io::Result<()> {
    let mut line = [0; 16];
    let mut rest = &mut line[..];
    writeln!(rest, "{}", getpid().as_raw_nonzero())?;
    let length = 16 - rest.len();
    rustix::io::write(pipe, &line[..length])?;
    Ok(())
}

fn dismiss(mut watcher: Child) {
    let dismissed = watcher.stdin.take().map(|mut pipe| pipe.write_all(b"\n"));
    drop(dismissed);
    drop(watcher.wait());
}

/// Our stdin for a command, if it is no terminal: there the command would be stopped, being in the background.
pub fn own_stdin() -> Stdio {
    if io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            drop(self.wind_up());
        }
    }
}

#[cfg(test)]
mod test;
