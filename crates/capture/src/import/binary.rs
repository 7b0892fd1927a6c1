//! Files that are recordings and yet no text: known by their first bytes.

pub(super) const TELLING: usize = 16;

pub(super) fn known(start: &[u8]) -> Option<(&'static str, &'static str)> {
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
