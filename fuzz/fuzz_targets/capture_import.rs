//! Any text as a recording of another tool: lines passed over at worst, halts that are sound.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_capture::fuzz::import_text(bytes);
});
