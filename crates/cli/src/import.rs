//! Importing: open, read with progress, say what came of it.

mod source;

use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::import::{self, GivenSettings, ImportError, Imported};
use haltwise_capture::info::Tool;
use haltwise_core::units::Nanos;
use haltwise_host::clock;
use serde::Serialize;

use self::source::Source;
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::number::counted;
use crate::progress::Progress;
use crate::reading::rule;
use crate::terminal;

const BUFFER: usize = 1 << 20;

#[derive(Serialize)]
struct Summary {
    schema: u32,
    #[serde(flatten)]
    imported: Imported,
}

/// Imports a text, wholly or not at all.
pub(crate) fn run(
    file: &Path,
    output: &Path,
    (told, command): (GivenSettings, Vec<String>),
    json: bool,
) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let source = Source::open(file, &interrupt);
    let source = source.map_err(|error| opening(error, file))?;
    let size = source.size();
    let mut progress = Progress::start(None);
    let start_ns = clock::monotonic_ns();
    let tool = Tool {
        name: "haltwise".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let imported = import::import(
        BufReader::with_capacity(BUFFER, source),
        output,
        told,
        (tool, command),
        |now| {
            let elapsed = Duration::from_nanos(clock::monotonic_ns().saturating_sub(start_ns));
            progress.show(elapsed, || so_far(now, size));
            match interrupt.came() {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        },
    );
    drop(progress);
    let imported = imported.map_err(|error| importing(error, file, interrupt.came()))?;
    rule::keep(output, imported.id);
    for line in skipped(&imported) {
        terminal::say(&line);
    }
    let is_partial = imported.skipped.values().any(|count| *count > 0);
    if json {
        terminal::print(&terminal::json(&Summary {
            schema: 1,
            imported,
        })?)?;
    } else {
        terminal::print(&text(&imported))?;
    }
    Ok(Exit::of_partial(is_partial))
}

fn opening(error: io::Error, file: &Path) -> Failure {
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

fn importing(error: ImportError, file: &Path, signal: Option<&str>) -> Failure {
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

fn skipped(imported: &Imported) -> Vec<String> {
    let skipped = imported.skipped.iter();
    let mut skipped: Vec<_> = skipped.map(|(why, count)| (why.as_str(), count)).collect();
    skipped.sort_unstable();
    let line = |(why, count)| format!("Skipped: {count} ({why})");
    skipped.into_iter().map(line).collect()
}

fn text(imported: &Imported) -> String {
    let exits = match imported.exits {
        0 => String::new(),
        exits => format!(" and {}", counted(exits, "exit")),
    };
    let spinning = imported.spinning.iter().map(ToString::to_string);
    let spinning: String = spinning.map(|line| line + "\n").collect();
    let kernel = imported
        .missing
        .iter()
        .find(|it| it.field == "host.kernel_release");
    let kernel = kernel.map_or_else(String::new, |it| format!("note: {}\n", it.reason));
    let section = if imported.halts > 0 { "" } else { "--exits " };
    format!(
        "Read {}, {} of them events\n\
             Imported {}{exits} of {} over {} to {} ({:.1} MB)\n\
             {}{kernel}Next: haltwise report {section}{}\n",
        counted(imported.lines, "line"),
        imported.events,
        counted(imported.halts, "halt"),
        who(imported),
        Nanos(imported.span_ns),
        imported.directory.display(),
        imported.bytes_written as f64 / 1e6,
        spinning,
        imported.directory.display(),
    )
}

fn who(imported: &Imported) -> String {
    let vms = counted(imported.vms as u64, "VM");
    match imported.vcpus {
        0 => vms,
        vcpus => format!("{vms} and {}", counted(vcpus as u64, "vCPU")),
    }
}

fn so_far(now: import::Progress, size: Option<u64>) -> String {
    let of = size.map_or(String::new(), |size| {
        format!(" of {:.0}", size as f64 / 1e6)
    });
    format!("{:.0}{of} MB, {} halts", now.bytes as f64 / 1e6, now.halts)
}
