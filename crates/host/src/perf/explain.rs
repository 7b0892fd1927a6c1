//! What the kernel refused, in the words of [`CollectError`].

use std::io;

use rustix::io::Errno;

use crate::collector::CollectError;
use crate::root::RootError;
use crate::support::rights;
use crate::tracefs::TracefsError;

/// A failed look-up in tracefs as a collector's error.
pub(super) fn explain_tracefs(error: TracefsError) -> CollectError {
    let what = error.to_string();
    match error {
        TracefsError::Unsupported | TracefsError::NoEvent { .. } => CollectError::Unsupported {
            what: what
                .trim_end_matches(": not offered by this kernel")
                .to_owned(),
            source: None,
        },
        TracefsError::Denied { what, need, .. } => CollectError::Denied {
            what: format!("{what} tracefs"),
            need,
        },
        TracefsError::Mount { source, .. } => CollectError::Failed { what, source },
        TracefsError::Format { source, .. } => CollectError::Unsupported {
            what: format!("{what}: {source}"),
            source: None,
        },
        TracefsError::Read(error) => CollectError::Failed {
            what,
            source: std::io::Error::other(error),
        },
    }
}

pub(crate) fn is_gone(error: &io::Error) -> bool {
    is_errno(error, Errno::NODEV)
}

fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// What a request for events lacks that is not permitted: the right to trace, or, with it, locked memory.
pub(crate) fn lacking(may_trace: bool) -> &'static str {
    if may_trace {
        "more locked memory: CAP_IPC_LOCK, or a larger kernel.perf_event_mlock_kb"
    } else {
        "CAP_PERFMON"
    }
}

pub(super) fn explain(cpu: u32, source: io::Error) -> CollectError {
    explain_to(cpu, source, rights::may_trace_now())
}

fn explain_to(cpu: u32, source: io::Error, may_trace: bool) -> CollectError {
    let what = format!("open tracepoints on CPU {cpu}");
    if is_errno(&source, Errno::PERM) || is_errno(&source, Errno::ACCESS) {
        CollectError::Denied {
            what,
            need: lacking(may_trace),
        }
    } else if [Errno::NOENT, Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL]
        .into_iter()
        .any(|errno| is_errno(&source, errno))
        || source.kind() == io::ErrorKind::Unsupported
    {
        CollectError::Unsupported {
            what,
            source: Some(source),
        }
    } else {
        CollectError::Failed { what, source }
    }
}

/// A file that could not be read.
pub(super) fn explain_read(error: RootError) -> CollectError {
    let path = error.path().to_owned();
    CollectError::Read {
        path,
        source: io::Error::other(error),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn told(errno: Errno) -> String {
        explain_to(3, errno.into(), false).to_string()
    }

    #[test]
    fn each_refusal_says_what_it_takes() {
        assert_eq!(
            told(Errno::ACCESS),
            "open tracepoints on CPU 3: not permitted (needs CAP_PERFMON)"
        );
        // The right is there: its ring may not lock as much memory.
        assert_eq!(
            explain_to(3, Errno::PERM.into(), true).to_string(),
            "open tracepoints on CPU 3: not permitted (needs more locked memory: CAP_IPC_LOCK, or a larger \
             kernel.perf_event_mlock_kb)"
        );
        assert_eq!(
            told(Errno::OPNOTSUPP),
            "open tracepoints on CPU 3: not offered by this kernel"
        );
        assert_eq!(told(Errno::MFILE), "open tracepoints on CPU 3");
        assert!(is_gone(&Errno::NODEV.into()));
    }
}
