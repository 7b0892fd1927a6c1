//! The kernel asked to time BPF programs, now and then.
//!
//! It takes `CAP_SYS_ADMIN`, which is everything. So a recorder has a child for it that can do nothing else, and
//! drops the right itself.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin};

use super::program::start_timing;
use crate::root::Root;
use crate::{companion, sandbox};

const BEGIN: u8 = 1;
const END: u8 = 0;

#[derive(Debug, Default)]
pub(super) enum Timer {
    #[default]
    Own,
    Helper {
        process: Child,
        asks: ChildStdin,
    },
}

/// The kernel times programs as long as this is there.
#[derive(Debug)]
pub(super) enum Timing {
    Own { _held: OwnedFd },
    Helper,
}

impl Timer {
    pub(super) fn hand_over(&mut self, root: &Root) -> io::Result<()> {
        let mut process = companion::command(root, companion::TIMER).spawn()?;
        let asks = process.stdin.take();
        let asks = asks.ok_or(io::ErrorKind::BrokenPipe)?;
        *self = Self::Helper { process, asks };
        Ok(())
    }

    pub(super) fn begin(&mut self) -> Option<Timing> {
        match self {
            Self::Own => Some(Timing::Own {
                _held: start_timing()?,
            }),
            Self::Helper { asks, .. } => {
                asks.write_all(&[BEGIN]).ok()?;
                Some(Timing::Helper)
            }
        }
    }

    pub(super) fn end(&mut self, timing: Timing) {
        match (timing, self) {
            (Timing::Helper, Self::Helper { asks, .. }) => drop(asks.write_all(&[END])),
            (own, _) => drop(own),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Self::Helper { process, .. } = self {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// The child: times programs between the bytes that stdin says so, until it ends.
pub(crate) fn serve_timing() -> io::Result<()> {
    sandbox::timer()?;
    let mut asks = io::stdin().lock();
    let mut byte = [END];
    let mut timing = None;
    while asks.read(&mut byte)? > 0 {
        let wanted = byte[0] == BEGIN;
        if wanted != timing.is_some() {
            timing = if wanted { start_timing() } else { None };
        }
    }
    Ok(())
}
