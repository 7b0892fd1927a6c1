//! Any text as an event's format file, and any bytes as that event.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::format(bytes);
});
