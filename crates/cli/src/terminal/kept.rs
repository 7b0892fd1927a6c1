//! Output and messages of a verb, kept for a caller in the same process instead. Only for the thread that asks.

use std::cell::RefCell;

#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// The result, as it would have gone to stdout.
    pub(crate) result: Vec<u8>,
    /// Messages about the work, as they would have gone to stderr.
    pub(crate) said: Vec<String>,
}

thread_local! {
    static KEPT: RefCell<Option<Printed>> = const { RefCell::new(None) };
}

pub(crate) fn keep<T>(work: impl FnOnce() -> T) -> (T, Printed) {
    /// Also where the work panics.
    struct Restore(Option<Printed>);
    impl Drop for Restore {
        fn drop(&mut self) {
            KEPT.set(self.0.take());
        }
    }
    let restore = Restore(KEPT.replace(Some(Printed::default())));
    let done = work();
    let printed = KEPT.take().unwrap_or_default();
    drop(restore);
    (done, printed)
}

pub(crate) fn is_on() -> bool {
    KEPT.with_borrow(Option::is_some)
}

pub(super) fn print(bytes: &[u8]) -> bool {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.result.extend_from_slice(bytes);
            true
        }
        None => false,
    })
}

pub(super) fn say(text: &str) -> bool {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.said.push(text.to_owned());
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_printed_is_kept_until_the_work_ends() {
        let (inner, outer) = keep(|| {
            super::super::say("note: a\u{1b}");
            let ((), inner) = keep(|| drop(super::super::print("inner")));
            drop(super::super::print_json(&1));
            inner
        });
        assert_eq!(inner.result, b"inner");
        assert_eq!(
            (&outer.result[..], &outer.said[..]),
            (&b"1\n"[..], &["note: a?".to_owned()][..])
        );
        assert!(!is_on());
    }

    #[test]
    fn a_panic_ends_it() {
        let panicked = std::panic::catch_unwind(|| keep(|| panic!("odd")));
        assert!(panicked.is_err() && !is_on());
    }
}
