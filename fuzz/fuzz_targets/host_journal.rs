//! Any bytes as the journal of settings: read, or refused with the place of the damage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::journal(bytes);
});
