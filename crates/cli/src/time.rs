//! Times on the command line, and as whole nanoseconds.

use std::time::Duration;

use haltwise_core::units::{DurationParseError, Nanos};

/// The length of a measurement; a number without a unit is seconds.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let time = seconds(text).map_err(|error| error.to_string())?;
    let is_enough = time >= Nanos(1_000_000);
    is_enough
        .then_some(time)
        .ok_or_else(|| "1ms is the least".to_owned())
}

/// A time in a capture, or a part of a measurement; a number without a unit is seconds.
pub(crate) fn seconds(text: &str) -> Result<Nanos, DurationParseError> {
    Nanos::of_seconds(text)
}

/// A cost or a latency; a number without a unit is nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> Result<Nanos, DurationParseError> {
    Nanos::of_parameter(text)
}

/// A time as KVM stores it, in 32 bits; a number without a unit is nanoseconds.
pub(crate) fn parameter(text: &str) -> Result<u32, String> {
    let Nanos(ns) = nanoseconds(text).map_err(|error| error.to_string())?;
    u32::try_from(ns).map_err(|_| "KVM stores at most 4294967295 ns (4.29 s)".to_owned())
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_without_a_unit_are_seconds_of_a_measurement_and_nanoseconds_of_a_parameter() {
        assert_eq!(duration("10"), Ok(Nanos(10_000_000_000)));
        assert_eq!(duration("200ms"), Ok(Nanos(200_000_000)));
        assert_eq!(nanoseconds("1500"), Ok(Nanos(1_500)));
        assert_eq!(parameter("200000"), Ok(200_000));
        assert_eq!(parameter("200us"), Ok(200_000));
        assert_eq!(parameter("4294967295"), Ok(u32::MAX));
        assert!(parameter("4294967296").is_err());
        assert!(parameter("200").is_ok());
        assert!(duration("10 fortnights").is_err());
        assert!(duration("0").is_err() && duration("999us").is_err());
        assert_eq!(duration("1ms"), Ok(Nanos(1_000_000)));
        assert_eq!(seconds("0"), Ok(Nanos(0)));
    }
}
