//! Any bytes as records of perf rings: refused one by one at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::perf_record(bytes);
});
