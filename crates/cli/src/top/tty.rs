//! The terminal: taken over for the full screen, and given back on every way out.
//!
//! The only file beside `terminal` that writes to stdout. The panic hook gives the terminal back
//! before the message is printed; dropping gives it back too.

use std::io::{self, BufWriter, IsTerminal, Stdout};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, style, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGWINCH;

use super::input::{Key, Parser};
use crate::exit::{Exit, Failure};

/// How long after an escape the rest of a key may come.
const ESCAPE: Duration = Duration::from_millis(40);

pub(crate) struct Tty {
    pub(crate) screen: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    before: Arc<Before>,
    parser: Parser,
    resized: Arc<AtomicBool>,
}

struct Before {
    termios: Termios,
    taken: AtomicBool,
}

/// Keys come from stdin; where that is something else, from the terminal that stdout is.
fn keyboard() -> BorrowedFd<'static> {
    if io::stdin().is_terminal() {
        rustix::stdio::stdin()
    } else {
        rustix::stdio::stdout()
    }
}

/// Whether there is a terminal that a full screen can be drawn on.
pub(crate) fn check() -> Result<(), Failure> {
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let why = match (io::stdout().is_terminal(), dumb) {
        (true, false) => return Ok(()),
        (true, true) => "the terminal cannot place its cursor (TERM=dumb)",
        (false, _) => "stdout is no terminal",
    };
    let error = anyhow!("show the full screen: {why}");
    Err(Failure::new(Exit::Usage, error)
        .hint("--once prints one interval as text, --json one document for each interval"))
}

impl Tty {
    pub(crate) fn take() -> Result<Self, Failure> {
        let termios = tcgetattr(keyboard()).context("read the terminal's settings")?;
        let before = Arc::new(Before {
            termios,
            taken: AtomicBool::new(false),
        });
        let resized = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGWINCH, Arc::clone(&resized))
            .context("watch for SIGWINCH")?;
        give_back_on_panic(&before);
        before.take().context("take over the terminal")?;
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        let screen = Terminal::new(backend).context("ask for the size of the terminal")?;
        Ok(Self {
            screen,
            before,
            parser: Parser::default(),
            resized,
        })
    }

    /// Whether the terminal changed its size since the last call.
    pub(crate) fn was_resized(&self) -> bool {
        self.resized.swap(false, Ordering::Relaxed)
    }

    /// Waits for keys, so long at most; a signal ends the wait.
    pub(crate) fn keys(&mut self, wait: Duration) -> Result<Vec<Key>, Failure> {
        let wait = if self.parser.is_waiting() {
            wait.min(ESCAPE)
        } else {
            wait
        };
        if !is_readable(wait)? {
            return Ok(self.parser.give_up().into_iter().collect());
        }
        let mut bytes = [0; 256];
        match rustix::io::read(keyboard(), &mut bytes) {
            Ok(0) => Err(lost(anyhow!("read keys: end of file"))),
            Ok(count) => Ok(self.parser.feed(&bytes[..count])),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(lost(anyhow!(error).context("read keys"))),
        }
    }

    /// Gives the terminal to the shell until we are called back.
    pub(crate) fn suspend(&mut self) -> Result<(), Failure> {
        self.before.give_back();
        kill_process(getpid(), Signal::TSTP).context("stop")?;
        self.before.take().context("take over the terminal")?;
        self.redraw()
    }

    pub(crate) fn redraw(&mut self) -> Result<(), Failure> {
        self.screen
            .clear()
            .context("clear the terminal")
            .map_err(lost)
    }
}

pub(crate) fn lost(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Failed, error.context("the terminal went away"))
}

fn is_readable(wait: Duration) -> Result<bool, Failure> {
    let fd = keyboard();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let wait = Timespec::try_from(wait).ok();
    match poll(&mut fds, wait.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(lost(anyhow!(error).context("wait for keys"))),
    }
}

impl Before {
    fn take(&self) -> io::Result<()> {
        let mut raw = self.termios.clone();
        raw.make_raw();
        tcsetattr(keyboard(), OptionalActions::Now, &raw)?;
        self.taken.store(true, Ordering::SeqCst);
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
    }

    /// Once is enough; an error cannot be reported.
    fn give_back(&self) {
        if self.taken.swap(false, Ordering::SeqCst) {
            drop(execute!(
                io::stdout(),
                style::ResetColor,
                // Some terminals, resized meanwhile, would show pieces of it afterwards.
                terminal::Clear(terminal::ClearType::All),
                terminal::LeaveAlternateScreen,
                cursor::Show
            ));
            let _gone = tcsetattr(keyboard(), OptionalActions::Now, &self.termios);
        }
    }
}

fn give_back_on_panic(before: &Arc<Before>) {
    let before = Arc::clone(before);
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before.give_back();
        previous(panic);
    }));
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.before.give_back();
    }
}
