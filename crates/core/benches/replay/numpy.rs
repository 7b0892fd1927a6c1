//! The `NumPy` peer: `stock_rule.py`, in a process of its own that times itself.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use haltwise_core::policy::Start;
use haltwise_core::replay::Sample;
use haltwise_core::replay::grid::Choice;
use haltwise_core::replay::latency::{CLASSES, Table, class_end};

use super::plain::{Sums, latency};

/// A Python that has `NumPy`.
#[derive(Debug)]
pub(crate) struct NumPy {
    python: String,
    pub(crate) version: String,
}

impl NumPy {
    /// `HALTWISE_PYTHON`, else `python3`; or why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        let python = std::env::var("HALTWISE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let asked = Command::new(&python)
            .args(["-c", "import numpy; print(numpy.__version__)"])
            .output()
            .map_err(|error| format!("start {python}: {error}"))?;
        if !asked.status.success() {
            return Err(format!(
                "{python} has no numpy (HALTWISE_PYTHON names another Python)"
            ));
        }
        let version = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        Ok(Self { python, version })
    }

    /// Plays halts as [`super::plain::play`] does; seconds, and the sums.
    pub(crate) fn play(
        &self,
        choices: &[Choice],
        samples: &[Sample],
        table: &Table,
    ) -> (f64, Sums) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/stock_rule.py");
        let mut child = Command::new(&self.python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a Python that was there before");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin
            .write_all(&input(choices, samples, table))
            .expect("a reader");
        drop(stdin);
        let output = child.wait_with_output().expect("an answer");
        assert!(output.status.success(), "stock_rule.py failed");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace();
        let seconds = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("seconds");
        let mut whole = || {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a sum")
        };
        let sums = Sums {
            blocks: whole(),
            poll_ns: whole(),
            latency_ns: whole(),
        };
        (seconds, sums)
    }
}

/// Words of 64 bits: how many settings, halts and classes; the settings, column by column; the ends of
/// classes; the gaps; the latencies of each halt, class by class.
fn input(choices: &[Choice], samples: &[Sample], table: &Table) -> Vec<u8> {
    let mut words = vec![choices.len() as u64, samples.len() as u64, CLASSES as u64];
    let mut column = |of: &dyn Fn(&Choice) -> u32| {
        words.extend(choices.iter().map(|choice| u64::from(of(choice))));
    };
    column(&|choice| choice.ceiling_ns);
    column(&|choice| choice.knobs.grow);
    column(&|choice| choice.knobs.grow_start);
    column(&|choice| choice.knobs.shrink);
    column(&|choice| u32::from(choice.start == Start::Ceiling));
    let ends: Vec<u64> = (0..CLASSES).map(class_end).collect();
    words.extend(
        ends.iter()
            .map(|end_ns| (*end_ns).min(i64::MAX.unsigned_abs())),
    );
    words.extend(samples.iter().map(|sample| sample.gap_ns));
    for (turn, sample) in (0..).zip(samples) {
        words.extend(
            ends.iter()
                .map(|&end_ns| latency(sample, end_ns, table, turn)),
        );
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}
