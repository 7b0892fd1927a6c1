//! The only place that prints. Results go to stdout, everything said about them to stderr.
//!
//! A reader that goes away (`haltwise report … | head`) is not an error. Nothing here depends on
//! colour, and nothing is coloured; help is coloured by clap, which heeds `NO_COLOR`.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Columns where nobody says otherwise.
const COLUMNS: usize = 80;

/// The narrowest screen that tables are made for.
pub(crate) const NARROWEST: usize = 60;

/// The widest screen that charts make use of.
pub(crate) const WIDEST: usize = 200;

/// Columns of the screen: `COLUMNS`, else the terminal's, else 80.
pub(crate) fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let columns = told.or_else(terminal_columns).unwrap_or(COLUMNS);
    columns.clamp(NARROWEST, WIDEST)
}

fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// How wide text is: an option that verbs share.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Width {
    /// Columns of the text, 60 to 200 [default: $COLUMNS, else the terminal's, else 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=200))]
    width: Option<u16>,
}

impl Width {
    /// As asked for, else as wide as the screen.
    pub(crate) fn columns(self) -> usize {
        self.width.map_or_else(columns, usize::from)
    }
}

/// A result as JSON: indented, with a last end of line.
pub(crate) fn json(result: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result).map(|text| text + "\n")
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints a result that need not be text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::from(
            anyhow::Error::new(error).context("write the result"),
        )),
        Ok(()) => Ok(()),
    }
}

/// Says something about the work, on stderr. Errors are ignored: there is nobody to tell.
pub(crate) fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    drop(writeln!(stderr, "{text}"));
}

/// Prints an error and what to do about it.
pub(crate) fn complain(failure: &Failure) {
    say(&format!("error: {:#}", failure.error));
    if let Some(hint) = &failure.hint {
        say(&format!("hint: {hint}"));
    }
}
