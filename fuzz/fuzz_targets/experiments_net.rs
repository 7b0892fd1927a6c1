//! Any bytes as what a guest does to a virtio network device, and what comes from its link: refused at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_experiments::fuzz::net(bytes);
});
