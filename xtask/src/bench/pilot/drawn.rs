//! A second under each of several settings, round by round, in a drawn order.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use haltwise_core::prove::rank::Interval;
use haltwise_core::workload::SplitMix64;

use super::super::run::Programs;
use super::parts::Parts;

/// Ceilings of VMs, in nanoseconds, that are in force together.
pub(super) type Setting = Vec<(String, u64)>;

/// What the halts of some VMs consisted of, under each setting once in a round.
pub(super) struct Drawn {
    /// Round by round, setting by setting, VM by VM.
    pub(super) rounds: Vec<Vec<Vec<Parts>>>,
}

impl Drawn {
    /// The halts are those of the VMs `of`.
    pub(super) fn new(
        programs: &Programs,
        folder: &Path,
        rounds: u32,
        settings: &[Setting],
        of: &[String],
    ) -> Result<Self> {
        let mut draw = SplitMix64(u64::from(rounds));
        let (mut all, mut in_force) = (Vec::new(), Setting::new());
        for _ in 0..rounds {
            let mut order: Vec<usize> = (0..settings.len()).collect();
            let mut round = vec![Vec::new(); order.len()];
            while !order.is_empty() {
                let at = usize::try_from(draw.below(order.len() as u64))?;
                let at = order.swap_remove(at);
                turn(programs, &in_force, &settings[at])?;
                in_force.clone_from(&settings[at]);
                // Until the window has found its length.
                std::thread::sleep(Duration::from_millis(100));
                let capture = tempfile::tempdir_in(folder)?;
                round[at] = Parts::record(programs, 1, &capture.path().join("cap"), of)?;
            }
            all.push(round);
        }
        Ok(Self { rounds: all })
    }

    /// The same VMs under each of these ceilings.
    pub(super) fn under(ceilings_ns: &[u64], vms: &[&str]) -> Vec<Setting> {
        let set = |ns: &u64| vms.iter().map(|vm| ((*vm).to_owned(), *ns)).collect();
        ceilings_ns.iter().map(set).collect()
    }

    /// A figure of the first VM in each round, under a setting.
    pub(super) fn figures(&self, at: usize, figure: &dyn Fn(&Parts) -> f64) -> Vec<f64> {
        let first = |round: &Vec<Vec<Parts>>| round[at].first().map_or(f64::NAN, figure);
        self.rounds.iter().map(first).collect()
    }
}

/// Sets what is different, as people do: VMs of one ceiling at once.
fn turn(programs: &Programs, from: &Setting, to: &Setting) -> Result<()> {
    let mut by_ceiling: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for set in to.iter().filter(|set| !from.contains(set)) {
        by_ceiling.entry(set.1).or_default().push(&set.0);
    }
    for (ceiling_ns, vms) in by_ceiling {
        let output = Command::new(&programs.haltwise)
            .args(["apply", "--yes", "--ceiling", &ceiling_ns.to_string()])
            .args(vms.iter().flat_map(|vm| ["--vm", vm]))
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            bail!("apply: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}

pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// By how much one is more than the other, round by round, in %.
pub(super) fn against(one: &[f64], other: &[f64]) -> String {
    let pairs = one.iter().zip(other);
    let percent: Vec<f64> = pairs
        .map(|(one, other)| 100.0 * (one / other - 1.0))
        .collect();
    Interval::of(&percent).map_or_else(
        || "too few rounds".to_owned(),
        |it| format!("{:+.1} % ({:+.1} to {:+.1})", it.estimate, it.low, it.high),
    )
}
