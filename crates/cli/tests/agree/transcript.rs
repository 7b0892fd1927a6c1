//! Transcripts: lines of a shell and all that they print. Above its lines a file says in a sentence what they hold.
//!
//! `$ LINE` is run by `sh`, for which `haltwise` is this program; lines below it that begin with `> ` belong to it. With
//! `UPDATE_GOLDEN` what is printed takes the place of what was.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Where lines run: the directory, and shell that comes before each line.
pub(crate) struct Shell<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) before: &'a str,
    /// Makes what the words of `make …` name.
    pub(crate) make: fn(&Path, &[&str]),
    /// Text of a line's stdout as it is kept; panics if no line may print it.
    pub(crate) kept: fn(&str, String) -> String,
}

impl Shell<'_> {
    /// All that a line prints, with its exit code if it runs haltwise.
    fn said(&self, line: &str) -> String {
        if let Some(words) = line.strip_prefix("make ") {
            (self.make)(self.dir, &words.split(' ').collect::<Vec<_>>());
            return String::new();
        }
        let program = Path::new(env!("CARGO_BIN_EXE_haltwise")).parent().unwrap();
        let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &format!("{}{line}", self.before)])
            .current_dir(self.dir)
            .env("PATH", path)
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!err.contains(steers), "{line}: {err:?}");
        let mut said = (self.kept)(line, out) + &err;
        let code = output.status.code();
        if line.contains("haltwise") || code != Some(0) {
            let code = code.map_or("killed".to_owned(), |code| code.to_string());
            writeln!(said, "(exit code {code})\n").unwrap();
        }
        said
    }

    /// Errors in what the lines of a transcript print.
    pub(crate) fn run(&self, file: &Path) -> Result<(), String> {
        let expected = fs::read_to_string(file).unwrap();
        let (mut all, mut above) = (String::new(), String::new());
        let mut lines = expected.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("# ") {
                writeln!(above, "{line}").unwrap();
            } else if let Some(command) = line.strip_prefix("$ ") {
                let mut command = command.to_owned();
                writeln!(all, "{above}{line}").unwrap();
                while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
                    write!(command, "\n{}", &more[2..]).unwrap();
                    writeln!(all, "{more}").unwrap();
                }
                all += &self.said(&command);
                above.clear();
            } else {
                above.clear();
            }
        }
        assert!(!all.is_empty(), "{} has no lines", file.display());
        same(file, &all)
    }
}

/// The first difference between a committed text and what is printed, which takes its place if that is wanted.
pub(crate) fn same(file: &Path, got: &str) -> Result<(), String> {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        return fs::write(file, got).map_err(|error| error.to_string());
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    if expected == got {
        return Ok(());
    }
    let mut lines = expected.lines().zip(got.lines()).enumerate();
    let differs = lines.find(|(_, (expected, got))| expected != got);
    let (name, count) = (file.display(), |text: &str| text.lines().count());
    Err(differs.map_or_else(
        || {
            format!(
                "{name}: {} lines expected, {} got\n",
                count(&expected),
                count(got)
            )
        },
        |(n, (expected, got))| {
            let line = n + 1;
            format!("{name}, line {line}:\n  expected {expected}\n  got      {got}\n")
        },
    ))
}
