//! A second under each of several ceilings, round by round, in a drawn order.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use haltwise_core::prove::rank::Interval;
use haltwise_core::workload::SplitMix64;

use super::super::run::Programs;
use super::parts::Parts;

/// What the halts of one VM consisted of, under each ceiling once in a round.
pub(super) struct Drawn {
    pub(super) ceilings_ns: Vec<u64>,
    pub(super) rounds: Vec<Vec<Parts>>,
}

impl Drawn {
    /// The ceilings are those of the VMs `set`; the halts are those of the VM `of`.
    pub(super) fn new(
        programs: &Programs,
        folder: &Path,
        rounds: u32,
        ceilings_ns: Vec<u64>,
        set: &[&str],
        of: &str,
    ) -> Result<Self> {
        let names = [of.to_owned()];
        let mut draw = SplitMix64(u64::from(rounds));
        let mut all = Vec::new();
        for _ in 0..rounds {
            let mut order: Vec<usize> = (0..ceilings_ns.len()).collect();
            let mut round = vec![Parts::default(); order.len()];
            while !order.is_empty() {
                let at = usize::try_from(draw.below(order.len() as u64))?;
                let at = order.swap_remove(at);
                for vm in set {
                    apply(programs, vm, ceilings_ns[at])?;
                }
                // Until the window has found its length.
                std::thread::sleep(Duration::from_millis(100));
                let capture = tempfile::tempdir_in(folder)?;
                let parts = Parts::record(programs, 1, &capture.path().join("cap"), &names)?;
                round[at] = parts.first().copied().unwrap_or_default();
            }
            all.push(round);
        }
        Ok(Self {
            ceilings_ns,
            rounds: all,
        })
    }

    pub(super) fn at(&self, ceiling_ns: u64) -> Option<usize> {
        self.ceilings_ns.iter().position(|ns| *ns == ceiling_ns)
    }

    /// A figure of each round, under a ceiling.
    pub(super) fn figures(&self, at: usize, figure: &dyn Fn(&Parts) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|round| figure(&round[at])).collect()
    }
}

/// Sets the ceiling of a VM, as people do.
fn apply(programs: &Programs, vm: &str, ceiling_ns: u64) -> Result<()> {
    let output = Command::new(&programs.haltwise)
        .args(["apply", "--yes", "--vm", vm, "--ceiling"])
        .arg(ceiling_ns.to_string())
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("apply: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// By how much one is more than the other, round by round, in % of the other's median.
pub(super) fn against(one: &[f64], other: &[f64]) -> String {
    let pairs = one.iter().zip(other);
    let differ: Vec<f64> = pairs.map(|(one, other)| one - other).collect();
    let of = median(other.to_vec()) / 100.0;
    Interval::of(&differ).map_or_else(
        || "too few rounds".to_owned(),
        |it| {
            format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                it.estimate / of,
                it.low / of,
                it.high / of
            )
        },
    )
}
