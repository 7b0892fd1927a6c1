//! Any bytes as the baseline of settings: read, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::baseline(bytes);
});
