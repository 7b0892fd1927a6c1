//! Lines of any input, one at a time: memory does not grow with the input, nor with a line of it.

use std::io::{self, BufRead, Read};

/// The longest line taken, in bytes. The kernel prints no event longer than 8 KiB (`TRACE_SEQ_SIZE`).
const LONGEST: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    pub(super) bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Without its end.
    Text(&'a [u8]),
    /// One that is longer than any event; it was passed over.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(LONGEST);
        let read = bounded.read_until(b'\n', &mut self.line)? as u64;
        self.bytes += read;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == LONGEST {
            self.bytes += self.input.skip_until(b'\n')? as u64;
            return Ok(Some(Line::TooLong));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(Some(Line::Text(&self.line)))
    }
}

pub(super) const TELLING: usize = 16;

/// The kind of a recording that is no text, by its first bytes, and the command that makes text of it.
pub(super) fn binary(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let kinds: [(&[u8], &str, &str); 9] = [
        (b"PERFILE2", "perf.data", "perf script -i FILE"),
        (
            b"2ELIFREP",
            "perf.data of another byte order",
            "perf script -i FILE",
        ),
        // `tracing` after three bytes that no text begins with.
        (
            b"\x17\x08\x44tracing",
            "trace.dat",
            "trace-cmd report -i FILE",
        ),
        (b"\x1f\x8b", "packed with gzip", "zcat FILE"),
        (b"\xfd7zXZ\0", "packed with xz", "xzcat FILE"),
        (b"\x28\xb5\x2f\xfd", "packed with zstd", "zstdcat FILE"),
        (b"BZh", "packed with bzip2", "bzcat FILE"),
        (b"PAR1", "a Parquet table", ""),
        (b"\x7fELF", "a program", ""),
    ];
    let kind = kinds.iter().find(|(magic, ..)| start.starts_with(magic))?;
    Some((kind.1, kind.2))
}

#[cfg(test)]
mod test {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_end_as_any_system_ends_them() {
        let mut lines = Lines::new(&b"a\nb\r\n\n\r\nlast"[..]);
        for expected in ["a", "b", "", "", "last"] {
            assert_eq!(lines.next().unwrap(), Some(Line::Text(expected.as_bytes())));
        }
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.bytes, 12);
    }

    #[test]
    fn a_line_without_end_costs_no_memory() {
        // A line of 1 GB, then one that counts.
        let endless = io::repeat(b'x').take(1 << 30);
        let mut lines = Lines::new(BufReader::with_capacity(
            1 << 20,
            endless.chain(&b"\nb"[..]),
        ));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), Some(Line::Text(b"b")));
        assert!(lines.line.capacity() <= 1 << 18);
        assert_eq!(lines.bytes, (1 << 30) + 2);
    }
}
