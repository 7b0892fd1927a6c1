//! Any bytes as KVM's binary statistics: an error at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_lab::fuzz::stats_fd(bytes);
});
