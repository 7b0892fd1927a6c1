//! Numbers within the sentences of rules.

use crate::units::Nanos;

/// `5.71 us`.
pub(super) fn nanos(ns: u64) -> String {
    Nanos(ns).to_string()
}

/// A share in percent: `42 %`, `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// How often in a second: `1024/s`, `0.4/s`.
pub(super) fn rate(per_s: f64) -> String {
    if per_s < 9.95 {
        format!("{per_s:.1}/s")
    } else {
        format!("{per_s:.0}/s")
    }
}

/// How long something took: `took 5.71 us`.
pub(super) fn took(time_ns: u64) -> String {
    match time_ns {
        0 => "have no known time".to_owned(),
        ns => format!("took {}", nanos(ns)),
    }
}
