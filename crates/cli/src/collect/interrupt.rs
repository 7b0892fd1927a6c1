//! SIGINT, SIGTERM and SIGHUP end a recording cleanly; to a daemon, SIGHUP says that its configuration has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A file that grows beyond `ulimit -f` is an error of the write (EFBIG), as a full disk is, and not the end of
/// the program. A handler, unlike a signal that is ignored, is not inherited by commands that we start.
pub(crate) fn outlive_file_size_limit() {
    // Best effort: where it fails, everything is as it was.
    drop(signal_hook::flag::register(
        SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    ));
}

#[derive(Debug)]
pub(crate) struct Interrupt {
    signal: Arc<AtomicUsize>,
    reload: Arc<AtomicBool>,
}

const WATCHED: [(i32, usize, &str); 3] = [
    (SIGINT, 2, "SIGINT"),
    (SIGTERM, 15, "SIGTERM"),
    (SIGHUP, 1, "SIGHUP"),
];

impl Interrupt {
    /// From now on these signals are remembered and no longer end the program.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        Self::of(|_| true)
    }

    /// The same for a daemon: SIGHUP does not end it, see [`Interrupt::takes_reload`].
    pub(crate) fn of_daemon() -> anyhow::Result<Self> {
        let made = Self::of(|number| number != SIGHUP)?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&made.reload))
            .context("watch for SIGHUP")?;
        Ok(made)
    }

    fn of(ends: fn(i32) -> bool) -> anyhow::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for (number, code, name) in WATCHED.into_iter().filter(|it| ends(it.0)) {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), code)
                .with_context(|| format!("watch for {name}"))?;
        }
        Ok(Self {
            signal,
            reload: Arc::default(),
        })
    }

    pub(crate) fn takes_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn came(&self) -> Option<&'static str> {
        let came = self.signal.load(Ordering::Relaxed);
        WATCHED
            .iter()
            .find(|(_, code, _)| *code == came)
            .map(|(_, _, name)| *name)
    }
}
