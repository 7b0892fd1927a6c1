//! What latency is worth, by name or by number.

/// The weights that have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Named {
    /// Only CPU time counts.
    Density,
    /// 1 ns of latency counts as 1 ns of CPU time.
    Balanced,
    /// 1 ns of latency counts as 10 ns of CPU time.
    Latency,
}

impl Named {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Density, Self::Balanced, Self::Latency];

    /// What latency is worth, in thousandths of CPU.
    pub(crate) fn weight_milli(self) -> u64 {
        match self {
            Self::Density => 0,
            Self::Balanced => 1_000,
            Self::Latency => 10_000,
        }
    }

    /// Name and weight.
    pub(crate) fn named(self) -> (String, u64) {
        (self.as_str().to_owned(), self.weight_milli())
    }

    /// The name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Density => "density",
            Self::Balanced => "balanced",
            Self::Latency => "latency",
        }
    }
}

/// What latency is worth, as the command line says it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Weight {
    /// How much latency counts against CPU time
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    goal: Named,
    /// The weight of latency as a number: ns of CPU time per ns of latency
    #[arg(long, value_name = "X", conflicts_with = "goal", value_parser = weight)]
    lambda: Option<u64>,
}

impl Weight {
    /// Its name, `lambda` for a number of the user's own, and the weight in thousandths of CPU.
    pub(crate) fn named(&self) -> (String, u64) {
        match self.lambda {
            Some(milli) => ("lambda".to_owned(), milli),
            None => self.goal.named(),
        }
    }

    /// The weight.
    pub(crate) fn lambda(&self) -> f64 {
        self.named().1 as f64 / 1e3
    }
}

/// Reads a weight: nanoseconds of CPU for one of latency; gives thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in 0..=1e9"
)]
fn weight(text: &str) -> Result<u64, String> {
    let weight = text.parse::<f64>().ok();
    let weight = weight.filter(|weight| (0.0..=1e6).contains(weight));
    let milli = weight.map(|weight| (weight * 1e3).round() as u64);
    milli.ok_or_else(|| "expected a number from 0 to 1000000".to_owned())
}

/// Reads a share of one CPU: `2%`, `2`, `0.5%`; gives percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=1e6).contains(percent));
    percent.ok_or_else(|| "expected a share of one CPU, for example 2%".to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn weights_and_shares_read_as_people_write_them() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1_000),
            ("2.5", 2_500),
            ("1000000", 1_000_000_000),
        ] {
            assert_eq!(weight(text), Ok(milli), "{text}");
        }
        for (text, wanted) in [
            ("2%", 2.0),
            ("2", 2.0),
            ("0.5 %", 0.5),
            ("0%", 0.0),
            ("150%", 150.0),
        ] {
            let read = percent(text).unwrap();
            assert!((read - wanted).abs() < 1e-9, "{text}");
        }
        for bad in ["", "-1", "NaN", "inf", "1e7", "x", "%", "2%%"] {
            assert!(percent(bad).is_err() && weight(bad).is_err(), "{bad}");
        }
    }
}
