//! Any bytes as a guest's stores to the page of an exitless timer: it harms nobody but itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    haltwise_experiments::fuzz::exitless_timer(bytes);
});
