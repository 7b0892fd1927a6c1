//! `record -o -`: the capture as a tar archive on stdout, for `haltwise report -` at the other end of a pipe.
//!
//! A recorder gives up the right to remove its own directory, so a process of its own records into a
//! temporary one; this one waits for it, writes the archive and removes what was made. The recorder does not outlive
//! this process, nor for long the reader of the pipe.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;
use haltwise_capture::archive;
use haltwise_host::command::{Ended, Running, own_stdin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::exit_of;
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::reading::place::Place;
use crate::terminal;

const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

pub(crate) fn run() -> Outcome {
    let Some(out) = terminal::data() else {
        let error = anyhow::anyhow!("write a capture to stdout: it is a terminal");
        let hint = "`haltwise record -o - | haltwise report -`; or name a directory";
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    };
    let interrupt = Interrupt::watch()?;
    let place = Place::temporary();
    let program = std::env::current_exe().context("find this program")?;
    let words = std::env::args_os().skip(1).collect::<Vec<_>>();
    let words = [vec![program.into()], into(&words, place.path())].concat();
    let streams = [own_stdin(), Stdio::null(), Stdio::inherit()];
    let recorder = Running::start_with(&words, None, streams).context("start the recorder")?;
    wait(&recorder, &interrupt, &out);
    let Ended::Itself(status) = recorder.end().context("wait for the recorder")? else {
        return Ok(Exit::Failed);
    };
    if !place.path().join("capture.json").exists() {
        return Ok(exit_of(status));
    }
    match archive::pack(place.path(), out) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Partial),
        written => {
            written.context("write the capture to stdout")?;
            Ok(exit_of(status))
        }
    }
}

/// Waits until it has ended, which it is asked to on a signal, and when the pipe has no reader any more.
fn wait(recorder: &Running, interrupt: &Interrupt, out: impl AsFd) {
    let mut is_asked = false;
    while !recorder.has_ended() {
        let mut read = [PollFd::new(&out, PollFlags::empty())];
        // A signal ends it early: that is looked at next.
        let _interrupted = poll(&mut read, Some(&PAUSE));
        let is_read = !read[0].revents().contains(PollFlags::ERR);
        if !is_read {
            // That comes back at once.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if !is_asked && (!is_read || interrupt.came().is_some()) {
            is_asked = true;
            recorder.ask_to_end();
        }
    }
}

/// The same command line, with a directory as the output that counts: the last.
fn into(words: &[OsString], directory: &Path) -> Vec<OsString> {
    let mut made = words.to_vec();
    let end = words.iter().position(|word| word == "--");
    let end = end.unwrap_or(words.len());
    made.splice(end..end, ["-o".into(), directory.into()]);
    made
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_directory_is_the_output_that_counts_and_the_command_stays_as_it_is() {
        let made = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let made = into(&words, Path::new("/tmp/x"));
            made.join(&OsString::from(" ")).into_string().unwrap()
        };
        let line = "record -o - -o /tmp/x -- cat -o -";
        assert_eq!(made("record -o - -- cat -o -"), line);
        assert_eq!(
            made("record -o- --profile"),
            "record -o- --profile -o /tmp/x"
        );
    }
}
