//! Where a test ends the writer, in its own thread.

use std::cell::Cell;
use std::io;

/// Before this effect, counted from 1, and at every later one, it fails as if there were no more program.
pub(super) type Fault = u64;

thread_local! {
    static NOW: Cell<(u64, Option<Fault>)> = const { Cell::new((0, None)) };
}

pub(super) fn with<T>(fault: Option<Fault>, act: impl FnOnce() -> T) -> T {
    NOW.set((0, fault));
    let done = act();
    NOW.set((0, None));
    done
}

pub(in crate::knob) fn effect() -> io::Result<()> {
    let (done, fault) = NOW.get();
    NOW.set((done + 1, fault));
    match fault {
        Some(before) if done + 1 >= before => Err(io::Error::other("ended here, as a test wanted")),
        _ => Ok(()),
    }
}
