//! Numbers as people read them: a unit, and three digits that count.

/// A figure that is not negative, rounded to a whole number; what no number is, is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; the cast saturates"
)]
pub fn whole(of: f64) -> u64 {
    of.round() as u64
}

/// `1 halt`, `12 halts`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `740 ns`, `5.71 us`, `30.6 us`, `1.20 ms`, `45.0 s`.
pub fn nanos(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (ns as f64 / 1e3, "us"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// `5.71 us`, or a dash where it is not known.
pub fn maybe_nanos(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), nanos)
}

/// A time that was computed, in whole nanoseconds; a negative one is printed as 0.
pub fn nanos_f64(ns: f64) -> String {
    nanos(whole(ns))
}

/// `41.2 k`, `740`, `1.20 M`: three digits that count, in steps of a thousand.
pub fn scaled(value: f64) -> String {
    let (value, unit) = match value {
        v if v < 999.5 => (v, ""),
        v if v < 999_500.0 => (v / 1e3, " k"),
        v if v < 999_500_000.0 => (v / 1e6, " M"),
        v => (v / 1e9, " G"),
    };
    format!("{}{unit}", three_digits(value))
}

/// A count: exact below ten thousand, else scaled.
pub fn count(n: u64) -> String {
    if n < 10_000 {
        n.to_string()
    } else {
        scaled(n as f64)
    }
}

/// Three digits that count of a number below a thousand: `0.42`, `5.71`, `30.6`, `740`.
pub fn three_digits(value: f64) -> String {
    if value.abs() < 0.0005 {
        return "0".to_owned();
    }
    let decimals = match value.abs() {
        v if v < 0.0995 => 3,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A part of a whole in percent: `11.8 %`, `0 %`, `< 0.01 %`.
pub fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "-".to_owned();
    }
    share(part / whole)
}

/// A share of 1 in percent.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.005 {
        return "< 0.01 %".to_owned();
    }
    if percent < 0.0995 && percent > 0.0 {
        return format!("{percent:.2} %");
    }
    format!("{} %", three_digits(percent))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.42, "0.42"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (740.0, "740"),
            (999.6, "1.00 k"),
            (41_234.0, "41.2 k"),
            (1_200_000.0, "1.20 M"),
        ] {
            assert_eq!(scaled(value), text);
        }
        assert_eq!(
            (count(9_999), count(10_000)),
            ("9999".into(), "10.0 k".into())
        );
    }

    #[test]
    fn percentages_tell_little_from_nothing() {
        for (part, text) in [
            (0.0, "0 %"),
            (0.000_01, "< 0.01 %"),
            (0.05, "0.05 %"),
            (0.5, "0.50 %"),
            (11.84, "11.8 %"),
            (100.0, "100 %"),
        ] {
            assert_eq!(percent(part, 100.0), text);
        }
        assert_eq!(percent(1.0, 0.0), "-");
    }
}
