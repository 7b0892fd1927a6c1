//! Any bytes as the Arrow streams of every table: an error at worst, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_capture::fuzz::stream(bytes);
});
