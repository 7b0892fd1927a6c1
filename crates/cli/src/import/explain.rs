//! Errors of an import, with what to do about them.

use std::io;
use std::path::Path;

use anyhow::anyhow;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::import::ImportError;

use crate::exit::{Exit, Failure};

pub(super) fn opening(error: io::Error, file: &Path) -> Failure {
    let (exit, hint) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Denied, Some("recordings are often root's")),
        io::ErrorKind::IsADirectory => (
            Exit::Failed,
            Some("import reads a text; a directory that is a capture needs no import"),
        ),
        _ => (Exit::Failed, None),
    };
    Failure {
        exit,
        error: anyhow!(error).context(format!("read {}", file.display())),
        hint: hint.map(str::to_owned),
    }
}

pub(super) fn importing(error: ImportError, file: &Path, signal: Option<&str>) -> Failure {
    let name = if file == Path::new("-") {
        "stdin".to_owned()
    } else {
        file.display().to_string()
    };
    if let Some(signal) = signal {
        return anyhow!("import {name}: {signal} came; nothing was written").into();
    }
    Failure {
        hint: hint(&error, &name),
        ..anyhow!(error).context(format!("import {name}")).into()
    }
}

fn hint(error: &ImportError, name: &str) -> Option<String> {
    const EVENTS: &str = "record kvm:kvm_vcpu_wakeup and kvm:kvm_halt_poll_ns, with \
                          sched:sched_waking and sched:sched_switch if there is room";
    Some(match error {
        ImportError::Binary { remedy: "", .. } => {
            "import reads text of ftrace, perf script and trace-cmd report".to_owned()
        }
        ImportError::Binary { remedy, .. } => format!(
            "make text of it first: {} | haltwise import -o DIR -",
            remedy.replace("FILE", name)
        ),
        ImportError::NoHalts { damaged, .. } if !damaged.is_empty() => {
            "import reads text as perf script, trace-cmd report and ftrace print it, unchanged"
                .to_owned()
        }
        ImportError::Empty | ImportError::NoHalts { .. } => EVENTS.to_owned(),
        ImportError::Counters { .. } => format!(
            "counters do not tell what another setting would do: run haltwise on the host, or {EVENTS}; for the time \
             between two snapshots put both into one file"
        ),
        ImportError::Threadless { .. } => {
            "print them with threads: `perf script --ns -F comm,pid,tid,cpu,time,event,trace`"
                .to_owned()
        }
        ImportError::NoTrace { .. } => "import reads what ftrace's trace and trace_pipe hold and \
                                        what perf script and trace-cmd report print"
            .to_owned(),
        ImportError::Ticks { .. } => "record with a clock of nanoseconds: `mono` in ftrace's \
                                      trace_clock, `trace-cmd record -C mono`"
            .to_owned(),
        ImportError::Write(CaptureWriteError::NotEmpty { .. }) => {
            "captures are never overwritten: name another directory".to_owned()
        }
        _ => return None,
    })
}
