//! Values as people write them, and as they mistype them.

use super::*;

#[test]
fn values_read_as_people_write_them() {
    for (text, value) in [
        ("0", 0),
        ("80000", 80_000),
        ("80us", 80_000),
        (" 80 us ", 80_000),
        ("1.5ms", 1_500_000),
        ("4294967295", u32::MAX),
        ("4294967295ns", u32::MAX),
    ] {
        assert_eq!(Parameter::HaltPollNs.value(text), Ok(value), "{text}");
        assert_eq!(Parameter::GrowStart.value(text), Ok(value), "{text}");
    }
    for (text, value) in [("0", 0), ("2", 2), ("4294967295", u32::MAX)] {
        assert_eq!(Parameter::Grow.value(text), Ok(value), "{text}");
        assert_eq!(Parameter::Shrink.value(text), Ok(value), "{text}");
    }
}

#[test]
fn what_no_parameter_takes_is_refused_with_the_reason() {
    for (parameter, text, said) in [
        (Parameter::HaltPollNs, "-1", "0 disables polling"),
        (Parameter::Shrink, "-1", "0 takes a window to 0"),
        (Parameter::HaltPollNs, "4294967296", "4294967295 at most"),
        (Parameter::HaltPollNs, "5s", "4294967295 at most"),
        (
            Parameter::Grow,
            "99999999999999999999999",
            "4294967295 at most",
        ),
        (Parameter::Grow, "2us", "a factor, a whole number"),
        (Parameter::Shrink, "1.5", "a divisor, a whole number"),
        (Parameter::Shrink, "", "a divisor"),
        (Parameter::HaltPollNs, "", "nanoseconds (80000)"),
        (Parameter::HaltPollNs, "80 days", "nanoseconds (80000)"),
        (Parameter::HaltPollNs, "off", "nanoseconds (80000)"),
        (Parameter::HaltPollNs, "+1", "nanoseconds (80000)"),
    ] {
        let error = parameter.value(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
        assert!(error.contains(parameter.name()), "{text}: {error}");
    }
}

#[test]
fn names_read_back_and_only_they_do() {
    for parameter in Parameter::ALL {
        assert_eq!(parameter.name().parse(), Ok(parameter));
        assert!(parameter.path().ends_with(parameter.name()));
        let json = serde_json::to_string(&parameter).unwrap();
        assert_eq!(json, format!("\"{parameter}\""));
    }
    for bad in ["", "grow", "HALT_POLL_NS", "halt_poll_max_steal"] {
        let error = bad.parse::<Parameter>().unwrap_err().to_string();
        assert!(error.contains("halt_poll_ns_shrink"), "{error}");
    }
}
