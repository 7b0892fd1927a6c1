//! One line on stderr that says how the work goes on: on a terminal only, after two seconds.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::terminal;

/// Nothing is shown of work shorter than this.
const QUIET: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(500);

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// How long the command has taken: one clock for all that it does. The first call starts it.
pub(crate) fn elapsed() -> Duration {
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// A line that is written over again and again.
#[derive(Debug)]
pub(crate) struct Progress {
    total: Option<Duration>,
    shown_at: Option<Duration>,
    on_terminal: bool,
}

impl Progress {
    /// Work that takes `total`, if that is known.
    pub(crate) fn start(total: Option<Duration>) -> Self {
        Self {
            total,
            shown_at: None,
            on_terminal: io::stderr().is_terminal() && !terminal::is_kept(),
        }
    }

    pub(crate) fn show(&mut self, elapsed: Duration, what: impl FnOnce() -> String) {
        let due = self.shown_at.map_or(QUIET, |last| last + STEP);
        if !self.on_terminal || elapsed < due {
            return;
        }
        self.shown_at = Some(elapsed);
        let of = self
            .total
            .map_or(String::new(), |total| format!(" of {} s", total.as_secs()));
        let mut stderr = io::stderr().lock();
        drop(write!(
            stderr,
            "\r\x1b[K{} s{of}, {}",
            elapsed.as_secs(),
            what()
        ));
        drop(stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown_at.is_some() {
            drop(write!(io::stderr().lock(), "\r\x1b[K"));
        }
    }
}
