//! Results of a verb in the process of a program that links this library: the Python package. The verbs are those
//! of the command line, with its options, checks and words; nothing is printed.
//!
//! Only verbs that read captures and costs tables: none of them changes the machine.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use clap::Parser as _;
use haltwise_capture::arrow::{self, RecordBatches};
use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;

use crate::Cli;
use crate::exit::{Exit, Failure, Outcome};
use crate::reading::opened::explain;
use crate::recommend::threads::at_most;
use crate::terminal;
use crate::verb::Verb;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The result as JSON, as the verb prints it.
    pub json: String,
    /// The exit code, as documented in `haltwise --help`.
    pub exit: u8,
    /// Messages of the run, as they would go to stderr.
    pub said: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The exit code, as documented in `haltwise --help`.
    pub exit: u8,
    /// The operation that failed, its place and its cause.
    pub error: String,
    pub hint: Option<String>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            exit: failure.exit.code(),
            error: terminal::error_text(&failure),
            hint: failure.hint.as_deref().map(terminal::harmless),
        }
    }
}

static QUIET: Once = Once::new();

/// Has a verb answer in JSON: `["report", "DIR"]`. Blocks, and prints nothing. Its searches have so many threads at
/// most; 0 for one for each CPU.
///
/// # Errors
/// Where the command line is wrong, the verb reads no capture, or it fails. A panic is an error, too.
pub fn answer(
    words: impl IntoIterator<Item = OsString>,
    threads: usize,
) -> Result<Answer, Refusal> {
    let program = std::iter::once("haltwise".into());
    let mut line: Vec<OsString> = program.chain(words).collect();
    let paths = line.iter().position(|word| word == "--");
    line.insert(paths.unwrap_or(line.len()), "--json".into());
    let cli = Cli::try_parse_from(line).map_err(|error| Refusal {
        exit: Exit::Usage.code(),
        error: terminal::harmless(error.render().to_string().trim_end()),
        hint: None,
    })?;
    let Some(verb) = cli.verb.filter(is_reader) else {
        let error = anyhow::anyhow!("only verbs that read captures answer here");
        return Err(Failure::new(Exit::Usage, error).into());
    };
    contained(|| {
        let (outcome, printed) = terminal::keep(|| at_most(threads, || verb.run()));
        answered(outcome, printed)
    })
}

/// Opens a capture; the errors are those of every verb.
///
/// # Errors
/// Where there is no capture, or it cannot be read at all.
pub fn open(directory: &Path) -> Result<Capture, Refusal> {
    contained(|| Ok(Capture::open(directory).map_err(explain)?))
}

/// Why a table of a capture cannot be read, in the words of every verb.
pub fn refusal(error: CaptureReadError) -> Refusal {
    explain(error).into()
}

/// The rows of a costs table, as `haltwise fleet add` wrote it.
///
/// # Errors
/// Where it cannot be opened, or is of a later schema.
pub fn costs_table(path: &Path) -> Result<RecordBatches, Refusal> {
    contained(|| Ok(arrow::costs_table(path).map_err(Failure::from)?))
}

/// Contents of `capture.json`, as JSON.
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn info(capture: &Capture) -> Result<String, Refusal> {
    terminal::json(capture.info()).map_err(|error| Failure::from(error).into())
}

/// Notes on a capture, as text that steers no terminal.
pub fn notes(capture: &Capture) -> Vec<String> {
    let notes = capture.notes().into_iter();
    notes
        .map(|note| terminal::harmless(&note.to_string()))
        .collect()
}

/// Whether a verb reads captures or costs tables, and writes at most the files that its options name.
fn is_reader(verb: &Verb) -> bool {
    match verb {
        Verb::Check(check) => check.only_reads(),
        Verb::Report(report) => report.reads_capture(),
        Verb::Diff(_) | Verb::Verify(_) | Verb::Tune(_) | Verb::Fleet(_) => true,
        _ => false,
    }
}

fn answered(outcome: Outcome, printed: terminal::Printed) -> Result<Answer, Refusal> {
    let exit = outcome?.code();
    let json = String::from_utf8_lossy(&printed.result).into_owned();
    let said = printed.said;
    Ok(Answer { json, exit, said })
}

/// Work whose panic is an error.
fn contained<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    QUIET.call_once(haltwise_capture::contain::silence_contained_panics);
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no message");
        let error = anyhow::anyhow!("haltwise failed in an unexpected way: {text}");
        Err(Failure::new(Exit::Failed, error)
            .hint("this is a fault of haltwise; please report it")
            .into())
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn refusal(words: &[&str]) -> Refusal {
        answer(words.iter().map(OsString::from), 0).expect_err("it is refused")
    }

    #[test]
    fn a_refusal_has_the_words_of_the_command_line() {
        let missing = refusal(&["report", "no-such-capture"]);
        assert_eq!(missing.exit, 1);
        assert!(missing.error.contains("no-such-capture"), "{missing:?}");
        assert_eq!(
            missing.hint.as_deref(),
            Some("is the directory's name right?")
        );
        let usage = refusal(&["tune", "cap", "--goal", "fast"]);
        assert!(
            usage.exit == 2 && usage.error.contains("--goal"),
            "{usage:?}"
        );
    }

    #[test]
    fn verbs_that_do_not_read_captures_are_refused() {
        for words in [
            &["status"][..],
            &["undo"],
            &["top", "cap"],
            &["check", "cap", "--finish"],
            &["check", "cap", "--repair", "new"],
            &["report", "--exits"],
        ] {
            let refusal = refusal(words);
            assert!(
                refusal.exit == 2 && refusal.error.contains("only verbs"),
                "{words:?}: {refusal:?}"
            );
        }
    }

    #[test]
    fn a_panic_is_a_refusal() {
        let refused = contained::<()>(|| panic!("odd"));
        assert!(refused.expect_err("it panics").error.contains("odd"));
    }
}
