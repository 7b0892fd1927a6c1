//! Any text as a duration, a gap process, a trace: an error at worst; what is printed reads back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_core::fuzz::text(bytes);
});
