//! Refusals of the kernel, in the words of [`CollectError`].

use std::io;

use rustix::io::Errno;

use crate::collector::CollectError;
use crate::support::rights;

pub(crate) fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NODEV)
}

/// Requirement that a refused request for events does not meet: the right to trace, or, with it, locked memory.
fn lacking(may_trace: bool) -> &'static str {
    if may_trace {
        "more locked memory: CAP_IPC_LOCK, or a larger kernel.perf_event_mlock_kb"
    } else {
        "CAP_PERFMON"
    }
}

pub(super) fn explain(cpu: u32) -> impl FnOnce(io::Error) -> CollectError {
    let what = format!("open tracepoints on CPU {cpu}");
    move |error| match Errno::from_io_error(&error) {
        // A filter or tracepoint that this kernel does not have.
        Some(Errno::INVAL) => CollectError::Unsupported {
            what,
            source: Some(error),
        },
        _ => refused(what, error),
    }
}

pub(crate) fn refused(what: String, source: io::Error) -> CollectError {
    refused_to(what, source, rights::may_trace_now())
}

fn refused_to(what: String, source: io::Error, may_trace: bool) -> CollectError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => CollectError::Denied {
            what,
            need: lacking(may_trace),
        },
        Some(Errno::NOENT | Errno::NODEV | Errno::NOSYS | Errno::OPNOTSUPP) => {
            CollectError::Unsupported {
                what,
                source: Some(source),
            }
        }
        _ => CollectError::Failed { what, source },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn told(errno: Errno, may_trace: bool) -> String {
        refused_to("x".into(), errno.into(), may_trace).to_string()
    }

    #[test]
    fn each_refusal_says_what_it_takes() {
        let unknown = explain(3)(Errno::INVAL.into());
        assert_eq!(
            unknown.to_string(),
            "open tracepoints on CPU 3: not offered by this kernel"
        );
        assert_eq!(
            told(Errno::ACCESS, false),
            "x: not permitted (needs CAP_PERFMON)"
        );
        // The right is there: its ring may not lock as much memory.
        assert_eq!(
            told(Errno::PERM, true),
            "x: not permitted (needs more locked memory: CAP_IPC_LOCK, or a larger \
             kernel.perf_event_mlock_kb)"
        );
        assert_eq!(
            told(Errno::OPNOTSUPP, false),
            "x: not offered by this kernel"
        );
        assert_eq!(told(Errno::MFILE, false), "x");
        assert!(is_gone(&Errno::NODEV.into()));
    }
}
