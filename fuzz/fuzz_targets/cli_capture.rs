//! The files of a capture, whatever is in them: every verb says something of it or an error, and never panics.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

/// TMPDIR is best in memory.
static DIRECTORY: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("haltwise-fuzz-{}", std::process::id())));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _not_there_yet = std::fs::remove_dir_all(&*DIRECTORY);
    std::fs::create_dir_all(&*DIRECTORY).unwrap();
    haltwise::fuzz::every_verb(bytes, &DIRECTORY);
});
