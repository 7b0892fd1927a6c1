//! Where costs tables lie: `host=NAME/date=DATE/TIME.parquet` below a directory.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use haltwise_core::costs::table::Host;

use crate::files::{self, Directory};
use crate::info::rfc3339;

/// How deep files may lie: a lake has two levels, a copy of several lakes one or two more.
const DEEPEST: usize = 8;

/// The two directories of a table in a lake, one below the other, and its name there.
fn place(host: &Host) -> ([String; 2], String) {
    let date = host.date.as_deref().unwrap_or("unknown");
    let directories = [
        format!("host={}", escaped(&host.name)),
        format!("date={}", escaped(date)),
    ];
    // `2026-11-25T13:00:00.000Z`: digits of the time, to the millisecond.
    let time = rfc3339(host.start_unix_ns);
    let digits = time.get(11..).unwrap_or_default().chars();
    let digits: String = digits.filter(char::is_ascii_digit).collect();
    (directories, format!("{digits}.parquet"))
}

pub fn path(lake: &Path, host: &Host) -> PathBuf {
    let ([of_host, of_date], name) = place(host);
    lake.join(of_host).join(of_date).join(name)
}

/// Writes a table into a lake. Each directory is opened below the one before, must be ours, and is never a link.
pub fn write(lake: &Path, host: &Host, table: &[u8]) -> io::Result<()> {
    let (directories, name) = place(host);
    let mut directory = Directory::make(lake)?;
    for below in &directories {
        let of_below = |error: io::Error| {
            let path = directory.path().join(below);
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        directory = directory.enter(below).map_err(of_below)?;
    }
    directory.replace(&name, table)
}

/// A text as one name of a path, as Hive writes it: what is no letter, digit, `-`, `_` or inner dot becomes `%XX`.
fn escaped(text: &str) -> String {
    let mut name = String::new();
    for (at, byte) in text.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if is_plain || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            // Text grows as it must: no error.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        name.push_str("__HIVE_DEFAULT_PARTITION__");
    }
    name
}

/// The Parquet files that paths name: files themselves, and those below directories, in order. Names that begin with
/// a dot are left out: a process is writing them. Fails where a path cannot be looked at.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| (path.clone(), error))?;
        if metadata.is_dir() {
            below(path, 0, &mut found)?;
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn below(
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), (PathBuf, io::Error)> {
    let entries = files::entries(directory).map_err(|error| (directory.to_owned(), error))?;
    for (path, is_directory) in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if is_directory {
            if depth < DEEPEST {
                below(&path, depth + 1, found)?;
            }
        } else if name.ends_with(".parquet") {
            found.push(path);
        }
    }
    Ok(())
}
