//! Any bytes as a sample's record, as the mappings of a process, and as the kernel's functions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::sample(bytes);
});
