//! Any bytes as accesses to the VGA window and as dirty logs: refused at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_experiments::fuzz::framebuffer(bytes);
});
