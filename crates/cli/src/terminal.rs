//! The only place that prints. Results go to stdout, everything said about them to stderr.
//!
//! Text that a VM's owner, a capture's maker or a text for import has put into a name or an error never steers the
//! terminal: nothing leaves here with a control character that is no end of line or tabulator.
//!
//! A reader that goes away (`haltwise report … | head`) is not an error. Nothing depends on colour: headings
//! and notes have one on a terminal, unless `NO_COLOR` is set; clap colours help by the same rule.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, BufWriter, IsTerminal, Write};

use haltwise_document::Document;
use haltwise_document::text::{self, Style};
use serde::Serialize;

use crate::exit::Failure;
use crate::page::is_visible;

const COLUMNS: usize = 80;

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
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Width {
    /// Width of the text in columns, 60 to 200
    ///
    /// [default: $COLUMNS, else the terminal's, else 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=200))]
    width: Option<u16>,
}

impl Width {
    /// As asked for, else as wide as the screen.
    pub(crate) fn columns(self) -> usize {
        self.width.map_or_else(columns, usize::from)
    }
}

/// Whether stdin is a terminal, where no data come from.
pub(crate) fn reads_a_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Stdout for data; refused where it is a terminal.
pub(crate) fn data() -> Option<io::StdoutLock<'static>> {
    let stdout = io::stdout();
    (!stdout.is_terminal()).then(|| stdout.lock())
}

fn steers(c: char) -> bool {
    !is_visible(c) && !matches!(c, '\n' | '\t')
}

/// Text with `instead` for whatever would steer a terminal.
fn escaped(text: &str, instead: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            clean.push_str(&instead(c));
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// JSON on its way out: control characters can only stand within its strings, where their numbers mean the same.
struct Json<W>(W);

impl<W: Write> Write for Json<W> {
    /// Takes all or nothing: what serializes hands whole characters over.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        let escape = |unit: &u16| format!("\\u{unit:04x}");
        let harmless = escaped(text, |c| {
            c.encode_utf16(&mut [0; 2]).iter().map(escape).collect()
        });
        self.0.write_all(harmless.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn write_json(result: &impl Serialize, to: impl Write) -> io::Result<()> {
    let mut json = Json(to);
    serde_json::to_writer_pretty(&mut json, result)?;
    json.write_all(b"\n")?;
    json.flush()
}

/// A result as JSON: indented, with a last end of line.
pub(crate) fn json(result: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    write_json(result, &mut bytes).map_err(serde_json::Error::io)?;
    String::from_utf8(bytes).map_err(|error| serde_json::Error::io(io::Error::other(error)))
}

/// Prints a result as JSON. It goes out piece by piece: that of many VMs is far larger than what it is made of.
pub(crate) fn print_json(result: &impl Serialize) -> Result<(), Failure> {
    if is_kept() {
        let mut bytes = Vec::new();
        let outcome = write_json(result, &mut bytes);
        keeps_result(&bytes);
        return written(outcome);
    }
    written(write_json(result, BufWriter::new(io::stdout().lock())))
}

pub(crate) fn show<T: Serialize>(
    as_json: bool,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    if as_json {
        print_json(result)
    } else {
        print(&text(result))
    }
}

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(escaped(text, |_| "?".to_owned()).as_bytes())
}

fn style(width: usize) -> Style {
    let asked = std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|it| it == "dumb");
    let colour = io::stdout().is_terminal() && asked && !dumb;
    Style { width, colour }
}

pub(crate) fn document(document: &Document, width: usize) -> Result<(), Failure> {
    page(width, |style| text::render(document, style))
}

/// Prints the text of a page. A page with colours makes harmless what strangers wrote, and they go out as they are.
pub(crate) fn page(width: usize, text: impl FnOnce(Style) -> String) -> Result<(), Failure> {
    let style = style(width);
    let text = text(style);
    if style.colour {
        return print_bytes(text.as_bytes());
    }
    print(&text)
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    if keeps_result(bytes) {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// A reader that went away is no failure.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::from(
            anyhow::Error::new(error).context("write the result"),
        )),
        Ok(()) => Ok(()),
    }
}

/// Says something about the work, on stderr. Errors are ignored: they cannot be reported.
pub(crate) fn say(text: &str) {
    let text = escaped(text, |_| "?".to_owned());
    if keeps_said(&text) {
        return;
    }
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Characters of an error that are printed: one may quote a field of any length.
const LONGEST_ERROR: usize = 4_000;

/// The failure as one text whose further lines begin with blanks.
pub(crate) fn error_text(failure: &Failure) -> String {
    let mut error = format!("{:#}", failure.error).replace('\n', "\n  ");
    if let Some((end, _)) = error.char_indices().nth(LONGEST_ERROR) {
        error.truncate(end);
        error.push('…');
    }
    harmless(&error)
}

/// A text without anything that steers a terminal.
pub(crate) fn harmless(text: &str) -> String {
    escaped(text, |_| "?".to_owned()).into_owned()
}

/// Prints an error and what to do about it. A line of the error's own begins with blanks, so that it can
/// pose as nothing else.
pub(crate) fn complain(failure: &Failure) {
    let error = error_text(failure);
    say(&format!("error: {error}"));
    if let Some(hint) = &failure.hint {
        say(&format!("hint: {hint}"));
    }
}

/// Output and messages of a verb, kept for a caller in the same process: [`keep`].
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

/// Keeps what the work would print, for the thread that asks.
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

pub(crate) fn is_kept() -> bool {
    KEPT.with_borrow(Option::is_some)
}

fn keeps_result(bytes: &[u8]) -> bool {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.result.extend_from_slice(bytes);
            true
        }
        None => false,
    })
}

fn keeps_said(text: &str) -> bool {
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
    fn nothing_that_steers_a_terminal_leaves() {
        let said = escaped("a\u{1b}[2Jb\u{9b}31mc\rd\u{202e}e\n\tf", |_| "?".to_owned());
        assert_eq!(said, "a?[2Jb?31mc?d?e\n\tf");
        // One rule with the names of VMs: what these may not contain is not printed.
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, '\n' | '\t')) {
            let name = haltwise_host::discovery::printable(&format!("a{c}a"));
            assert_eq!(
                steers(c),
                name.as_deref() == Some("a?a") && c != '?',
                "{c:?}"
            );
        }
        assert!(matches!(
            escaped("数据库 \n", |_| "?".to_owned()),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn an_error_is_as_long_as_is_read() {
        let failure = Failure::from(anyhow::anyhow!("ä".repeat(100_000)));
        assert_eq!(error_text(&failure).chars().count(), LONGEST_ERROR + 1);
    }

    #[test]
    fn json_keeps_what_it_escapes() {
        let name = "\u{1b}[2J\u{9b}\u{202e}\u{7f}\u{feff}\u{e0001}";
        let text = json(&name).unwrap();
        assert!(!text.contains(steers), "{text:?}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }

    #[test]
    fn what_is_printed_is_kept_until_the_work_ends() {
        let (inner, outer) = keep(|| {
            say("note: a\u{1b}");
            let ((), inner) = keep(|| drop(print("inner")));
            drop(print_json(&1));
            inner
        });
        assert_eq!(inner.result, b"inner");
        assert_eq!(
            (&outer.result[..], &outer.said[..]),
            (&b"1\n"[..], &["note: a?".to_owned()][..])
        );
        assert!(!is_kept());
    }

    #[test]
    fn a_panic_ends_it() {
        let panicked = std::panic::catch_unwind(|| keep(|| panic!("odd")));
        assert!(panicked.is_err() && !is_kept());
    }
}
