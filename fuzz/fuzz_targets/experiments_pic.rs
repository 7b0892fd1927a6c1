//! Any bytes as accesses to a pair of 8259s and as the lines of devices: refused at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_experiments::fuzz::pic(bytes);
});
