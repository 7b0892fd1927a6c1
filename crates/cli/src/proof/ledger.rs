//! The ledger: what replay predicted and what was then measured, proof by proof, so that the tool's
//! quality has a number.

pub(crate) mod entry;
pub(crate) mod file;

use std::path::{Path, PathBuf};

use haltwise_core::pilot::memory::Errors;
use haltwise_core::prove::figure::Figure;
use haltwise_core::recording::Side;
use haltwise_host::root::Root;

use self::entry::{Entry, Kept};
use super::Proof;
use crate::collect::attach::this_host;
use crate::state;
use crate::terminal;

const FILE: &str = "ledger.jsonl";

/// Where the ledger of a host lies. `None` where there is no home.
pub(crate) fn place(root: &Root) -> Option<PathBuf> {
    state::place(root, FILE)
}

/// Adds a proof, and says in its result where. A ledger that cannot be written does not spoil what was
/// measured: that is said, and the result stands.
pub(crate) fn keep(path: &Path, proof: &mut Proof) {
    let Some(entry) = Entry::of(proof) else {
        return;
    };
    match file::append(path, &entry) {
        Ok(()) => proof.ledger = Some(path.display().to_string()),
        Err(error) => terminal::say(&format!(
            "warning: the ledger was not written: {error:#}\nhint: name another with --ledger FILE"
        )),
    }
}

/// How far predictions were off in proofs on this host; none where there is no ledger, or it cannot be read.
pub(crate) fn errors(root: &Root) -> Errors {
    let Some(path) = place(root) else {
        return Errors::default();
    };
    match file::read(&path) {
        Ok(lines) => {
            let hostname = this_host(root).hostname.unwrap_or_default();
            errors_of(&lines.entries, &hostname)
        }
        Err(failure) => {
            let error = failure.error;
            terminal::say(&format!(
                "warning: what proofs measured is not known: {error:#}"
            ));
            Errors::default()
        }
    }
}

/// Errors of predictions in conclusive proofs of this host's settings: of B as replayed from A, as in a trial.
fn errors_of(entries: &[Entry], hostname: &str) -> Errors {
    let mut errors = Errors::default();
    let here = entries.iter().filter(|entry| {
        entry.side == Side::Host && entry.hostname == hostname && entry.is_judged()
    });
    let kept = here.flat_map(|entry| &entry.predictions);
    let costs = kept.filter(|kept| kept.of == "b" && kept.prediction.figure == Figure::Cost);
    errors.extend(costs.filter_map(share));
    errors
}

/// The error as a share of what a halt cost under the setting before.
fn share(kept: &Kept) -> Option<f64> {
    let of = &kept.prediction;
    let before = of.measured - of.measured_effect.estimate;
    (before > 0.0).then(|| of.error.estimate / before)
}

#[cfg(test)]
mod test {
    use haltwise_core::prove::compare::Verdict;

    use super::file::test::entry;
    use super::*;

    #[test]
    fn errors_are_shares_of_the_cost_before_of_proofs_that_decided_here() {
        // A cost 100: predicted 103 and measured 95.
        let of = |change: fn(&mut Entry)| {
            let mut entry = entry(103.0, 95.0, false);
            change(&mut entry);
            entry
        };
        let one = errors_of(&[of(|_| {})], "golden-1");
        assert_eq!(one.count(), 1);
        assert!((one.percentile(1.0).unwrap() - 0.08).abs() < 1e-9);
        let others = [
            of(|entry| entry.hostname = "golden-2".to_owned()),
            of(|entry| entry.side = Side::Guest),
            of(|entry| entry.verdict = Verdict::TooNoisy { noise: 9.0 }),
            of(|entry| entry.predictions[0].of = "a".to_owned()),
            of(|entry| entry.predictions[0].prediction.figure = Figure::PollCpu),
            of(|entry| entry.predictions[0].prediction.measured_effect.estimate = 95.0),
        ];
        assert_eq!(errors_of(&others, "golden-1").count(), 0);
    }

    #[test]
    fn the_ledger_is_found_below_the_root_and_a_damaged_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        assert_eq!(errors(&root).count(), 0);
        let hostname = this_host(&root).hostname.unwrap();
        let path = place(&root).unwrap();
        assert!(path.starts_with(directory.path()));
        for _ in 0..3 {
            let entry = Entry {
                hostname: hostname.clone(),
                ..entry(103.0, 95.0, false)
            };
            file::append(&path, &entry).unwrap();
        }
        assert_eq!(errors(&root).count(), 3);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(errors(&root).count(), 0);
    }
}
