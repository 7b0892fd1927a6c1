//! Any sequence of tracepoints: halts that do not contradict themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::decode(bytes);
});
