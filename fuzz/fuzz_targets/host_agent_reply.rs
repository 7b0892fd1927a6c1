//! Any bytes as what a guest's agent answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_host::fuzz::agent_reply(bytes);
});
