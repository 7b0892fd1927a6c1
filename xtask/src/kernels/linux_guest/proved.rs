//! A proof inside the Linux guest: a plan that polls against no polling, with a load of fixed size. Counts are judged:
//! where polls succeed, the guest enters HLT less often. Then the plan applied, and undone.

use std::path::Path;

use anyhow::{Context, Result};

use crate::kernels::reported::{Block, Proof, read, text};
use crate::kernels::witness::Found;

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
    found.disagreements.extend(proof.wrong("guest", ROUNDS));
    let mut texts = Vec::new();
    for round in 1..=ROUNDS {
        let of = |name: &str, figure: &str| {
            let mut blocks = proof.blocks.iter();
            let block = blocks.find(|block| block.round == round && block.under == name);
            block.and_then(|block| block.count(figure))
        };
        let exits = |name| of(name, "hlt-exits").with_context(|| format!("no block {name}"));
        let (a, b) = (exits("a")?, exits("b")?);
        texts.push(format!("{a:.0} -> {b:.0}"));
        if b >= a || exits("control")? <= b {
            found.disagree(format!(
                "round {round}: {b:.0} HLT exits with polling, {a:.0} and {:.0} without",
                exits("control")?
            ));
        }
        for figure in ["ipis", "ipis-spared", "context-switches"] {
            of("b", figure).with_context(|| format!("no {figure}"))?;
        }
    }
    let applied = text(&dir.join("applied"))?;
    if applied.trim() != APPLIED {
        found.disagree(format!("apply set {}, not {APPLIED}", applied.trim()));
    }
    found.summary = format!(
        "HLT exits of the same work without polling and with it {}; plan applied and undone",
        texts.join(", ")
    );
    Ok(found)
}

#[cfg(test)]
mod test {
    use super::*;

    fn proof(of_b: f64) -> serde_json::Value {
        let block = |round: usize, name: &str, exits: f64| {
            serde_json::json!({
                "round": round, "block": name, "halts": 100, "lost": 0, "predicted": {},
                "figures": {"hlt-exits": exits, "ipis": 0.5, "ipis-spared": 0.1, "context-switches": 2.0},
            })
        };
        let blocks: Vec<_> = (1..=ROUNDS)
            .flat_map(|round| {
                [("b", of_b), ("a", 1.0), ("control", 0.98)].map(|(n, e)| block(round, n, e))
            })
            .collect();
        serde_json::json!({
            "side": "guest", "means": "guest-parameters", "partial": false, "blocks": blocks,
        })
    }

    #[test]
    fn a_proof_without_fewer_exits_is_told_and_so_is_a_plan_that_was_not_applied() {
        let dir = tempfile::tempdir().unwrap();
        for (of_b, applied, wrong) in [
            (0.2, "Y 4 1000000 5000000 0\n", 0),
            (1.0, "Y 4 1000000 5000000 0\n", 2),
            (0.2, "Y 2 50000 200000 2\n", 1),
        ] {
            std::fs::write(dir.path().join("proof.json"), proof(of_b).to_string()).unwrap();
            std::fs::write(dir.path().join("applied"), applied).unwrap();
            let found = judge(dir.path()).unwrap();
            assert_eq!(found.disagreements.len(), wrong, "{found:?}");
        }
        let mut cut = proof(0.2);
        cut["partial"] = true.into();
        std::fs::write(dir.path().join("proof.json"), cut.to_string()).unwrap();
        assert!(!judge(dir.path()).unwrap().disagreements.is_empty());
    }
}
