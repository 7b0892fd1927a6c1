//! The terminal of the full screen, by ratatui and crossterm: taken over, read, and given back on every way out.
//!
//! ratatui's panic hook gives the terminal back before the message is printed; dropping gives it back too.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::top::draw;
use crate::top::live::Live;
use crate::top::model::Model;
use crate::top::model::{Action, presses};

pub(crate) struct Tty {
    /// Never dropped: ratatui prints to stderr that it could not show the cursor, and panics if that went away too.
    pub(crate) screen: ManuallyDrop<DefaultTerminal>,
    events: Receiver<io::Result<Event>>,
}

pub(crate) fn check() -> Result<(), Failure> {
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let why = match (io::stdout().is_terminal(), dumb) {
        (true, false) => {
            // crossterm makes a pair of sockets when it is first asked, which a confined recorder cannot.
            event::poll(Duration::ZERO).context("read the terminal")?;
            return Ok(());
        }
        (true, true) => "the terminal cannot place its cursor (TERM=dumb)",
        (false, _) => "stdout is no terminal",
    };
    let error = anyhow!("show the full screen: {why}");
    Err(Failure::new(Exit::Usage, error)
        .hint("--once prints one interval as text, --json one document for each interval"))
}

impl Tty {
    pub(crate) fn take() -> Result<Self, Failure> {
        // crossterm reads a terminal that went away for ever, so it reads in a thread of its own.
        let (send, events) = mpsc::channel();
        let read = move || while send.send(event::read()).is_ok() {};
        thread::Builder::new()
            .spawn(read)
            .context("start a thread that reads keys")?;
        Ok(Self {
            screen: take_over()?,
            events,
        })
    }

    pub(crate) fn next(&self, wait: Duration) -> Result<Option<Event>, Failure> {
        let event = match self.events.recv_timeout(wait) {
            Ok(event) => Some(event.context("read keys").map_err(lost)?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(lost(anyhow!("read keys"))),
        };
        if event.is_none() && is_hung_up() {
            return Err(lost(anyhow!("read keys: end of file")));
        }
        Ok(event)
    }

    /// Gives the terminal to the shell until the shell continues this process.
    pub(crate) fn suspend(&mut self) -> Result<(), Failure> {
        self.give_back();
        kill_process(getpid(), Signal::TSTP).context("stop")?;
        self.screen = take_over()?;
        Ok(())
    }

    fn give_back(&mut self) {
        // An error cannot be reported where the terminal went away.
        drop(self.screen.show_cursor());
        drop(ratatui::try_restore());
    }

    /// Clears the terminal, so that the next drawing draws all of it.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        // `Terminal::clear` asks the terminal for the cursor's position, and the thread would take the answer.
        let size = self.screen.size().context("ask for the size");
        let size = size.map_err(lost)?;
        let cleared = self.screen.resize(size.into());
        cleared.context("clear the terminal").map_err(lost)
    }
}

fn take_over() -> Result<ManuallyDrop<DefaultTerminal>, Failure> {
    let taken = ratatui::try_init().context("take over the terminal");
    let taken = taken.inspect_err(|_| ratatui::restore())?;
    Ok(ManuallyDrop::new(taken))
}

pub(crate) fn lost(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Failed, error.context("the terminal went away"))
}

fn is_hung_up() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec::default();
    poll(&mut fds, Some(&at_once)).is_ok_and(|gone| gone > 0)
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The longest wait: signals and a hang-up are seen after it.
const LOOK: Duration = Duration::from_millis(200);

/// Runs until `q` or a signal. The terminal is as it was before when this returns.
pub(crate) fn run(mut model: Model, mut live: Option<Live>, interrupt: &Interrupt) -> Outcome {
    let colourless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let mut tty = Tty::take()?;
    let mut stale = true;
    while interrupt.came().is_none() {
        if let Some(live) = &mut live
            && let Some(step) = live.turn()?
        {
            model.timeline.push(step);
            stale = true;
        }
        if stale {
            let drawn = tty.screen.draw(|frame| {
                draw::draw(&model, frame);
                if colourless {
                    draw::without_colours(frame.buffer_mut());
                }
            });
            drawn.context("draw").map_err(lost)?;
        }
        let mut event = tty.next(live.as_ref().map_or(LOOK, |live| live.rest().min(LOOK)))?;
        stale = event.is_some();
        while let Some(now) = event {
            let page = draw::page(tty.screen.get_frame().area().height);
            for key in now.as_key_press_event().into_iter().flat_map(presses) {
                match model.press(key, page) {
                    Some(Action::Redraw) => tty.clear()?,
                    Some(Action::Suspend) => tty.suspend()?,
                    Some(Action::Quit) => return Ok(Exit::Done),
                    _ => {}
                }
            }
            event = tty.next(Duration::ZERO)?;
        }
    }
    Ok(Exit::Done)
}
