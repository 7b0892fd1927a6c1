//! Any bytes as what a guest does to a virtio disk, registers and queue: refused at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_experiments::fuzz::block(bytes);
});
