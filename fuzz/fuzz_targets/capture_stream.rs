//! Any bytes as the Arrow streams of every table: an error at worst, never a panic that gets out.
#![no_main]

libfuzzer_sys::fuzz_target!(
    // The decoders of others may panic inside the crate's decode boundary; nothing else may.
    init: haltwise_capture::contain::silence_contained_panics(),
    |bytes: &[u8]| {
        haltwise_capture::fuzz::stream(bytes);
    }
);
