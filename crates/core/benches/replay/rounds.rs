//! Rounds of figures, their medians, and how much is measured.

use std::time::Instant;

use haltwise_core::stats::median_estimate;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) rounds: usize,
    /// Halts that the grid plays in a round.
    pub(crate) grid: usize,
    pub(crate) peers: usize,
    pub(crate) drawn: usize,
}

impl Scale {
    pub(crate) const FULL: Self = Self {
        rounds: 7,
        grid: 50_000,
        peers: 2_000,
        drawn: 1_000_000,
    };

    pub(crate) const SMOKE: Self = Self {
        rounds: 1,
        grid: 300,
        peers: 300,
        drawn: 1_000,
    };
}

/// How often the drawn halts are played, one behind the other.
pub(crate) const TIMES: u64 = 10;

#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rows: Vec<(String, String, usize, f64)>,
}

impl Rounds {
    pub(crate) fn add(&mut self, load: &str, what: &str, round: usize, value: f64) {
        self.rows
            .push((load.to_owned(), what.to_owned(), round, value));
    }

    /// The median of a figure. `None` if it has no round.
    pub(crate) fn median(&self, load: &str, what: &str) -> Option<f64> {
        Some(median_estimate(&self.values(load, what))?.median)
    }

    fn values(&self, load: &str, what: &str) -> Vec<f64> {
        let rows = self.rows.iter();
        let same = rows.filter(|(of, name, _, _)| of == load && name == what);
        same.map(|(_, _, _, value)| *value).collect()
    }

    /// The median with its interval, as a column.
    pub(crate) fn cell(&self, load: &str, what: &str) -> String {
        match median_estimate(&self.values(load, what)) {
            Some(of) => format!(
                "{} ({}..{})",
                short(of.median),
                short(of.low),
                short(of.high)
            ),
            None => "-".to_owned(),
        }
    }

    pub(crate) fn csv(&self) -> String {
        let row = |(load, what, round, value): &(String, String, usize, f64)| {
            format!("{load},{what},{round},{value}\n")
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!("load,what,round,value\n{rows}")
    }
}

fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// How long something takes, in seconds, and what comes of it.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = Instant::now();
    let result = std::hint::black_box(work());
    (begin.elapsed().as_secs_f64(), result)
}
