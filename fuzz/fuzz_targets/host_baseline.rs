//! Any bytes as the baseline of settings, or as the journal of an earlier version: read, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::baseline(bytes);
});
