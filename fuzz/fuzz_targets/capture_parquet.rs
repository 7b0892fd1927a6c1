//! Any bytes as the table `halts` in Parquet: an error at worst, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_capture::fuzz::parquet(bytes);
});
