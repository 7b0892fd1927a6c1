//! Where a test ends the writer, in its own thread.

use std::cell::Cell;
use std::io;

/// Before this effect, counted from 1, and at every later one, it fails as if there were no more program. A line that is
/// being appended is cut after so many bytes.
pub(super) type Fault = (u64, usize);

thread_local! {
    static NOW: Cell<(u64, Option<Fault>)> = const { Cell::new((0, None)) };
}

pub(super) fn with<T>(fault: Option<Fault>, act: impl FnOnce() -> T) -> T {
    NOW.set((0, fault));
    let done = act();
    NOW.set((0, None));
    done
}

pub(in crate::knob) fn effect(cut: impl FnOnce(usize) -> io::Result<()>) -> io::Result<()> {
    let (done, fault) = NOW.get();
    NOW.set((done + 1, fault));
    let Some((before, torn)) = fault.filter(|(before, _)| done + 1 >= *before) else {
        return Ok(());
    };
    if done + 1 == before {
        drop(cut(torn));
    }
    Err(io::Error::other("ended here, as a test wanted"))
}
