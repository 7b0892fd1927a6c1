//! Names of functions, found by a process that nothing is lost with.
//!
//! The files that hold the functions of a VMM belong to the user who started it. They are read by a child, this
//! program started anew (`serve`), with few rights, little memory and time, and a list of system calls
//! that has no writing in it. Its requests and answers are a few bytes (`protocol`). A child that dies or is
//! late costs the names of the file that it was asked for, and is replaced a few times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use haltwise_core::recording::Missing;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::{Answer, Ask, Files, NAME_MOST, Refusal};
use crate::discovery::printable;
use crate::root::Root;
use crate::taken::is_ready;
use crate::{companion, sandbox};

/// One answer is waited for so long while the child sleeps: a file is read by then, on any disk, unless its owner
/// holds it back. What the child works, or waits for a CPU, is not the owner's doing.
const PATIENCE: Duration = Duration::from_secs(5);

/// One answer is waited for so long whatever the child does.
const WAIT_MOST: Duration = Duration::from_secs(20);

/// Between two looks at what the child does.
const LOOK: Duration = Duration::from_millis(50);

/// For all answers together the child may sleep so long, and [`SHARE`] of the time since the beginning.
const ALLOWED: Duration = Duration::from_secs(9);
const SHARE: u32 = 20;

const CHILDREN: u32 = 8;

const NAMED: usize = 8;

/// Files that a child was lost with, and how.
type Bad = BTreeMap<((u32, u32), u64), Refusal>;

#[derive(Debug)]
pub(super) struct Namer {
    root: Root,
    child: Option<Running>,
    started: u32,
    since: Instant,
    waited: Duration,
    patience: Duration,
    bad: Bad,
    /// Why files gave no names, with the first that did not and how many there were.
    refused: BTreeMap<Refusal, (BTreeSet<String>, u64)>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    asks: ChildStdin,
    answers: ChildStdout,
}

impl Namer {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            child: None,
            started: 0,
            since: Instant::now(),
            waited: Duration::ZERO,
            patience: PATIENCE,
            bad: Bad::new(),
            refused: BTreeMap::new(),
        }
    }

    /// The function at an address, if it has a name.
    pub(super) fn name(&mut self, ask: &Ask) -> Option<String> {
        let file = (ask.mapping.device, ask.mapping.inode);
        if let Some(refusal) = self.bad.get(&file) {
            self.refuse(ask, *refusal);
            return None;
        }
        if self.waited > ALLOWED + self.since.elapsed() / SHARE {
            self.refuse(ask, Refusal::OverTime);
            return None;
        }
        match self.ask(ask) {
            Ok(Answer::Name(name)) => Some(name),
            Ok(Answer::Nameless) => None,
            Ok(Answer::Refused(refusal)) => {
                self.refuse(ask, refusal);
                None
            }
            Err(refusal) => {
                self.bad.insert(file, refusal);
                self.end_child();
                self.refuse(ask, refusal);
                None
            }
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, Refusal> {
        let patience = self.patience;
        let child = match &mut self.child {
            Some(child) => child,
            None if self.started == CHILDREN => {
                return Err(Refusal::Exhausted);
            }
            none => {
                self.started += 1;
                let started = Running::start(&self.root);
                none.insert(started.map_err(|_| Refusal::NoReader)?)
            }
        };
        let mut wait = Wait::begin(&self.root, child.process.id());
        let asked = asked(ask).and_then(|line| child.asks.write_all(&line));
        let answer = asked.and_then(|()| child.answer(&mut wait, patience));
        self.waited += wait.slept();
        answer.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Refusal::Late,
            io::ErrorKind::InvalidData => Refusal::Nonsense,
            _ => Refusal::Died,
        })
    }

    fn end_child(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.process.kill());
            // Not waited for: it may hang where no signal reaches it, in a file system of another user.
            drop(child.process.try_wait());
        }
    }

    fn refuse(&mut self, ask: &Ask, refusal: Refusal) {
        let (files, count) = self.refused.entry(refusal).or_default();
        let path = printable(&ask.mapping.path).unwrap_or_default();
        if files.len() < NAMED {
            files.insert(path);
        }
        *count += 1;
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        let missing = |(refusal, (files, count)): (&Refusal, &(BTreeSet<String>, u64))| {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let files = files.join(", ");
            let reason = format!(
                "{count} addresses in VMMs have no function names. Of their file, {refusal}: {files}"
            );
            Missing::new("sample_frames.symbol", reason)
        };
        self.refused.iter().map(missing).collect()
    }
}

impl Drop for Namer {
    fn drop(&mut self) {
        if let Some(Running {
            mut process,
            asks,
            answers,
        }) = self.child.take()
        {
            // It ends when its pipes are closed.
            drop((asks, answers));
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Running {
    fn start(root: &Root) -> io::Result<Self> {
        let mut process = companion::command(root, companion::NAMER)
            .stdout(Stdio::piped())
            .spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(asks), Some(answers)) => Ok(Self {
                process,
                asks,
                answers,
            }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn answer(&mut self, wait: &mut Wait<'_>, patience: Duration) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        let mut piece = [0; ANSWER_MOST];
        loop {
            while !is_ready(&self.answers, Instant::now() + LOOK)? {
                wait.look();
                if wait.slept() > patience || wait.lasted > WAIT_MOST {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            let read = self.answers.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&piece[..read]);
            if let Some(answer) = answer(&bytes)? {
                wait.look();
                return Ok(answer);
            }
        }
    }
}

/// How long a child has been waited for, and how much of that it slept: neither ran nor waited for a CPU.
struct Wait<'a> {
    root: &'a Root,
    child: u32,
    lasted: Duration,
    looked: Instant,
    /// Time that the child had run and waited for a CPU, at the beginning and at the last look.
    awake: [Duration; 2],
}

impl<'a> Wait<'a> {
    fn begin(root: &'a Root, child: u32) -> Self {
        let awake = awake(root, child);
        Self {
            root,
            child,
            lasted: Duration::ZERO,
            looked: Instant::now(),
            awake: [awake; 2],
        }
    }

    fn look(&mut self) {
        let now = Instant::now();
        // Where much more has passed, we too were given no CPU.
        self.lasted += now.duration_since(self.looked).min(2 * LOOK);
        self.looked = now;
        self.awake[1] = awake(self.root, self.child);
    }

    fn slept(&self) -> Duration {
        let [before, now] = self.awake;
        self.lasted.saturating_sub(now.saturating_sub(before))
    }
}

/// Time that a process has run and waited for a CPU; zero where the kernel does not tell, so that all of the time
/// passes for sleep.
fn awake(root: &Root, process: u32) -> Duration {
    let text = root.text(format!("proc/{process}/schedstat"));
    let text = text.unwrap_or_default();
    let times = text.split_whitespace().take(2);
    let times = times.filter_map(|word| word.parse().ok());
    times.map(Duration::from_nanos).sum()
}

/// A path in an ask is cut at so many bytes: `/proc/PID/maps` prints paths of any length.
const PATH_MOST: usize = 4 << 10;

/// No ask is longer: each byte of its path takes six at most.
pub(super) const ASK_MOST: usize = 32 << 10;

/// No answer is longer: one with a name as long as any.
pub(super) const ANSWER_MOST: usize = 4 << 10;

/// An ask as a line. A path that is longer than any is cut.
pub(super) fn asked(ask: &Ask) -> io::Result<Vec<u8>> {
    let mut ask = ask.clone();
    let path = &mut ask.mapping.path;
    path.truncate(path.floor_char_boundary(PATH_MOST));
    line(&ask)
}

/// Decodes an answer of the child; no name is longer than ours.
pub(super) fn answer(bytes: &[u8]) -> io::Result<Option<Answer>> {
    match said(bytes, ANSWER_MOST)? {
        Some(Answer::Name(name)) if name.len() > NAME_MOST => {
            Err(io::ErrorKind::InvalidData.into())
        }
        answer => Ok(answer),
    }
}

pub(super) fn line(said: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(said)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Decodes a line; `None` if the line has not ended.
pub(super) fn said<T: DeserializeOwned>(bytes: &[u8], most: usize) -> io::Result<Option<T>> {
    match bytes {
        _ if bytes.len() > most => Err(io::ErrorKind::InvalidData.into()),
        [line @ .., b'\n'] => match serde_json::from_slice(line) {
            Ok(said) => Ok(Some(said)),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        },
        _ => Ok(None),
    }
}

/// Answers what stdin asks on stdout, until it ends.
pub(crate) fn serve(root: &Root) -> io::Result<()> {
    let mut files = Files::new(root);
    sandbox::reader()?;
    let (mut asks, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(ask) = said(&bytes, ASK_MOST)? {
            bytes.clear();
            answers.write_all(&line(&files.answer(&ask))?)?;
            answers.flush()?;
        }
        match asks.read(&mut piece)? {
            0 if bytes.is_empty() => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod test;
