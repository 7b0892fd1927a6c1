//! The decode boundary: a panic of a decoder becomes an error.
//!
//! The Arrow and Parquet decoders are written for files of honest writers. On hostile bytes they
//! mostly return errors, but they hold assertions too. `contain` wraps exactly the calls into
//! them. A failed allocation cannot be contained; the sizes that a stream claims are therefore
//! checked before (`frames`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether this thread is inside a decoder.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder; `Err` holds the message of its panic. What it worked on must not be used after.
pub(crate) fn contain<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    INSIDE.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    INSIDE.set(false);
    outcome.map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("no message").to_owned()
    })
}

/// Keeps the panic hook silent about panics that become errors here. Others pass as before.
///
/// For programs, once, at their start. Without it a damaged capture gives the same error, after a
/// line of the default hook on stderr.
pub fn silence_contained_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !INSIDE.get() {
            before(panic);
        }
    }));
}
