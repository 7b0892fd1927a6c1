//! Rows decoded ahead are the rows.

use std::fs;
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_core::event::Halt;

use crate::common::{recorded, some_halts};

/// Rows up to the first error, and that error.
fn until_error(
    rows: impl Iterator<Item = Result<Halt, CaptureReadError>>,
) -> (Vec<Halt>, Option<String>) {
    let mut halts = Vec::new();
    for row in rows {
        match row {
            Ok(halt) => halts.push(halt),
            Err(error) => return (halts, Some(format!("{:#}", anyhow::Error::from(error)))),
        }
    }
    (halts, None)
}

fn both(directory: &Path) -> [(Vec<Halt>, Option<String>); 2] {
    let open = || Capture::open(directory).unwrap().halts();
    let plain = open().map(until_error);
    let ahead = open().map(|rows| until_error(rows.ahead()));
    [plain, ahead].map(|read| read.unwrap_or_else(|error| (Vec::new(), Some(error.to_string()))))
}

#[test]
fn rows_decoded_ahead_are_the_rows_up_to_the_same_error() {
    let dir = recorded(&some_halts(100_000));
    let [plain, ahead] = both(dir.path());
    assert_eq!(plain, ahead);
    assert_eq!((ahead.0.len(), ahead.1), (100_000, None));
    let path = dir.path().join("halts.parquet");
    let whole = fs::read(&path).unwrap();
    let mut errors = 0;
    for part in 1..40 {
        let mut bytes = whole.clone();
        let place = whole.len() * part / 40;
        bytes[place..place + 8].fill(0xff);
        fs::write(&path, &bytes).unwrap();
        let [plain, ahead] = both(dir.path());
        assert_eq!(plain, ahead, "bytes {place} and on");
        errors += usize::from(ahead.1.is_some());
    }
    assert!(errors > 20, "only {errors} of 39 damages were noticed");
}
