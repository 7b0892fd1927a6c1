//! Any bytes as a halt that a BPF program sent: refused at worst.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::bpf_record(bytes);
});
