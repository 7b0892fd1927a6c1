//! A proof inside the Linux guest: a plan that polls against no polling, with a load of fixed size. Counts are judged:
//! where polls succeed, the guest enters HLT less often. Then the plan applied, and undone.

use std::path::Path;

use anyhow::{Context, Result};

use crate::kernels::check::Found;
use crate::kernels::reported::{Block, Proof, read, text};

/// Rounds of the proof; `inside.sh` asks for as many.
const ROUNDS: usize = 2;

/// The plan's values in the order in which a shell lists their files: `plan.json`.
const APPLIED: &str = "Y 4 1000000 5000000 0";

impl Block {
    pub(super) fn count(&self, figure: &str) -> Option<f64> {
        Some(self.figures.get(figure)? * self.halts as f64)
    }

    /// The same as the replay has it for the other setting: a load of fixed size has as many halts.
    pub(super) fn predicted(&self, figure: &str) -> Option<f64> {
        Some(self.predicted.get(figure)? * self.halts as f64)
    }
}

pub(super) fn judge(dir: &Path) -> Result<Found> {
    let mut found = Found::default();
    if dir.join("without-governor").exists() {
        found.say("this kernel has no governor haltpoll");
        return Ok(found);
    }
    let proof: Proof = read(&dir.join("proof.json"))?;
    proof.judge("prove", "guest", ROUNDS, &mut found);
    let mut texts = Vec::new();
    for round in 1..=ROUNDS {
        let of = |name: &str, figure: &str| {
            let mut blocks = proof.blocks.iter();
            let block = blocks.find(|block| block.round == round && block.under == name);
            block.and_then(|block| block.count(figure))
        };
        let exits = |name| of(name, "hlt-exits").with_context(|| format!("no block {name}"));
        let (a, b, control) = (exits("a")?, exits("b")?, exits("control")?);
        texts.push(format!("{a:.0} -> {b:.0}"));
        found.require(
            b < a && b < control,
            format!(
                "round {round}: {b:.0} HLT exits with polling, {a:.0} and {control:.0} without"
            ),
        );
        for figure in ["ipis", "ipis-spared", "context-switches"] {
            of("b", figure).with_context(|| format!("no {figure}"))?;
        }
    }
    let applied = text(&dir.join("applied"))?;
    let applied = applied.trim();
    found.require(
        applied == APPLIED,
        format!("apply set {applied}, not {APPLIED}"),
    );
    found.summary = format!(
        "HLT exits of the same work without polling and with it {}; plan applied and undone",
        texts.join(", ")
    );
    Ok(found)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_proof_without_fewer_exits_is_told_and_so_is_a_plan_that_was_not_applied() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |of_b: f64, partial: bool, applied: &str| {
            let blocks = (1..=ROUNDS).flat_map(|round| {
                [("b", of_b), ("a", 1.0), ("control", 0.98)].map(|(name, exits)| {
                    let figures = serde_json::json!({"hlt-exits": exits, "ipis": 0.5, "ipis-spared": 0.1,
                        "context-switches": 2.0});
                    serde_json::json!({"round": round, "block": name, "halts": 100, "figures": figures})
                })
            });
            let proof = serde_json::json!({"side": "guest", "means": "guest-parameters",
                "partial": partial, "blocks": blocks.collect::<Vec<_>>()});
            std::fs::write(dir.path().join("proof.json"), proof.to_string()).unwrap();
            std::fs::write(dir.path().join("applied"), applied).unwrap();
            judge(dir.path()).unwrap().disagreements.len()
        };
        assert_eq!(judged(0.2, false, "Y 4 1000000 5000000 0\n"), 0);
        assert_eq!(judged(1.0, false, "Y 4 1000000 5000000 0\n"), 2);
        assert_eq!(judged(0.2, false, "Y 2 50000 200000 2\n"), 1);
        assert_eq!(judged(0.2, true, "Y 4 1000000 5000000 0\n"), 1);
    }
}
