//! Exits beside the halts: what was asked for, and what this host calls it.

use std::collections::BTreeSet;

use anyhow::anyhow;
use haltwise_core::exit::{Isa, Recorded, SubKey};
use haltwise_core::recording::Rung;
use haltwise_host::exits::{self, ExitOptions};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};
use crate::page::harmless;

/// What the user asked for.
#[derive(Debug, Default)]
pub(crate) struct ExitsWanted {
    pub(crate) sub_keys: BTreeSet<SubKey>,
    pub(crate) vcpus: BTreeSet<u32>,
    /// Names or numbers.
    pub(crate) reasons: Vec<String>,
}

/// The same for the collector and for the capture.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) options: ExitOptions,
    pub(crate) recorded: Recorded,
}

impl ExitsWanted {
    /// Finds the numbers of the reasons, by the running kernel's names before ours.
    pub(crate) fn settle(&self, rung: Option<Rung>, root: &Root) -> Result<Settled, Failure> {
        if rung.is_some_and(|rung| rung != Rung::Bpf) {
            let error = anyhow!("record exits: not supported with --source tracepoints");
            return Err(Failure::new(Exit::Usage, error)
                .hint("exits are counted by BPF programs: omit --source, or use --source bpf"));
        }
        let recorded = Recorded {
            sub_keys: self.sub_keys.iter().copied().collect(),
            vcpus: self.vcpus.iter().copied().collect(),
            reasons: self.reasons.clone(),
            names: exits::kernel_names(root),
        };
        let options = ExitOptions {
            sub_keys: self.sub_keys.clone(),
            vcpus: self.vcpus.clone(),
            reasons: numbers(&self.reasons, &recorded, exits::isa(root))?,
        };
        Ok(Settled { options, recorded })
    }
}

fn numbers(reasons: &[String], recorded: &Recorded, isa: Isa) -> Result<BTreeSet<u32>, Failure> {
    let names = recorded.names();
    // Where it is not known whose exits come, a name of anybody's will do.
    let sets: Vec<Isa> = match isa {
        Isa::None => Isa::ALL.to_vec(),
        one => vec![one],
    };
    let mut numbers = BTreeSet::new();
    for text in reasons {
        let found: Vec<u32> = sets.iter().flat_map(|isa| names.find(*isa, text)).collect();
        if found.is_empty() {
            let text = harmless(text);
            let error = anyhow!("--exits-reason: `{text}` is no reason of {isa}");
            return Err(Failure::new(Exit::Usage, error)
                .hint("`haltwise exits` on a recording without this filter shows the names"));
        }
        numbers.extend(found);
    }
    Ok(numbers)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reasons_are_found_by_name_or_number_and_nonsense_is_refused() {
        let recorded = Recorded::default();
        let find = |isa, text: &str| numbers(&[text.to_owned()], &recorded, isa);
        assert_eq!(find(Isa::Svm, "hlt").unwrap(), BTreeSet::from([0x78]));
        assert_eq!(find(Isa::Vmx, "0x30").unwrap(), BTreeSet::from([48]));
        assert_eq!(find(Isa::None, "hlt").unwrap(), BTreeSet::from([12, 0x78]));
        let refused = find(Isa::Svm, "EPT_VIOLATION").unwrap_err();
        assert!(refused.error.to_string().contains("no reason of svm"));
    }
}
