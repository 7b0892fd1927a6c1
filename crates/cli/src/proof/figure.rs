//! Figures as people read them: values, differences with a sign, and intervals in one unit.

use haltwise_core::prove::figure::{Figure, Unit};

use crate::number::three_digits;

pub(crate) fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::Cost => "cost of a halt",
        Figure::PollCpu => "polling CPU",
        Figure::LatencyMean => "latency, mean",
        Figure::LatencyP50 => "latency, p50",
        Figure::LatencyP99 => "latency, p99",
        Figure::Halts => "halts/s",
        Figure::SuccessfulPolls => "ended by poll",
        Figure::Blocks => "sleeps",
        Figure::HltExits => "HLT exits/halt",
        Figure::Ipis => "IPIs/halt",
        Figure::IpisSpared => "IPIs spared",
        Figure::ContextSwitches => "switches/halt",
        Figure::VcpuCpu => "vCPU CPU",
        Figure::Awake => "CPUs in C0",
        Figure::Cycles => "cycles/s",
        Figure::Power => "power",
        Figure::Metric => "metric",
    }
}

/// `30.1 us`, `7.20 %`, `19.2 k`, `54.1 W`.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    let (scale, suffix) = scale(unit, value.abs());
    number(value / scale) + suffix
}

/// The same with its sign: `-22.1 us`, `+0.31 %`, `0 %`.
pub(crate) fn difference(unit: Unit, value: f64) -> String {
    let (scale, suffix) = scale(unit, value.abs());
    signed(value / scale) + suffix
}

/// Two ends in one unit: `-22.9 to -21.3 us`.
pub(crate) fn span(unit: Unit, low: f64, high: f64) -> String {
    let (scale, suffix) = scale(unit, low.abs().max(high.abs()));
    format!(
        "{} to {}{suffix}",
        signed(low / scale),
        signed(high / scale)
    )
}

/// A share in %, with its sign.
pub(crate) fn percent(percent: f64) -> String {
    if (999.5..1e9).contains(&percent.abs()) {
        return format!("{percent:+.0} %");
    }
    signed(percent) + " %"
}

fn signed(value: f64) -> String {
    let text = number(value);
    if value > 0.0 && text != "0" {
        format!("+{text}")
    } else {
        text
    }
}

/// Three digits that count; what is small beside any unit is 0.
fn number(value: f64) -> String {
    if value.abs() < 0.005 {
        return "0".to_owned();
    }
    if value.abs() < 0.0995 {
        return format!("{value:.2}");
    }
    // Only a forged result has such figures.
    if value.abs() >= 1e9 {
        return format!("{value:.2e}");
    }
    three_digits(value)
}

pub(crate) fn scale(unit: Unit, size: f64) -> (f64, &'static str) {
    let steps: &[(f64, &str)] = match unit {
        Unit::Nanos => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
        Unit::Percent => return (1.0, " %"),
        Unit::Watts => return (1.0, " W"),
        Unit::PerSecond | Unit::PerHalt | Unit::Plain => {
            &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]
        }
    };
    // 999.5 would be printed as 1000 of the smaller unit.
    let fits = |(scale, _): &&(f64, &str)| size >= 0.9995 * scale;
    let smallest = steps.last().copied().unwrap_or((1.0, ""));
    steps.iter().find(fits).copied().unwrap_or(smallest)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn values_in_the_unit_that_suits_them() {
        for (unit, number, text) in [
            (Unit::Nanos, 0.0, "0 ns"),
            (Unit::Nanos, 740.0, "740 ns"),
            (Unit::Nanos, 999.6, "1.00 us"),
            (Unit::Nanos, 30_120.0, "30.1 us"),
            (Unit::Nanos, 2.5e6, "2.50 ms"),
            (Unit::Percent, 0.004, "0 %"),
            (Unit::Percent, 0.042, "0.04 %"),
            (Unit::Percent, 123.4, "123 %"),
            (Unit::PerSecond, 19_230.0, "19.2 k"),
            (Unit::Watts, 54.13, "54.1 W"),
            (Unit::Plain, -3.0, "-3.00"),
            (Unit::Nanos, 1e300, "1.00e291 s"),
        ] {
            assert_eq!(value(unit, number), text);
        }
    }

    #[test]
    fn differences_have_a_sign_and_intervals_one_unit() {
        assert_eq!(difference(Unit::Nanos, -22_100.0), "-22.1 us");
        assert_eq!(difference(Unit::Percent, 0.31), "+0.31 %");
        assert_eq!(difference(Unit::Percent, 0.0), "0 %");
        assert_eq!(span(Unit::Nanos, -22_900.0, 310.0), "-22.9 to +0.31 us");
        assert_eq!(span(Unit::PerSecond, 1.0, 2_000.0), "0 to +2.00 k");
        assert_eq!(percent(-73.4), "-73.4 %");
        assert_eq!(percent(1_234.0), "+1234 %");
    }
}
