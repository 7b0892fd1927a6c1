//! Any bytes as the command line, names and stat of a process: a printable name or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::cmdline(bytes);
});
