//! How figures are shown.

/// The crate for documents has its own formatter of times, since it knows nothing of ours.
#[test]
fn a_time_has_one_form() {
    use haltwise_core::units::Nanos;
    for exponent in 0..40_u32 {
        let ns = 3_u64.pow(exponent);
        assert_eq!(crate::number::nanos(ns), Nanos(ns).to_string());
    }
}
