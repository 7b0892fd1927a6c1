//! Exits beside the halts: what was asked for, and what this host calls it.

use std::collections::BTreeSet;

use anyhow::anyhow;
use haltwise_core::exit::{Recorded, SubKey};
use haltwise_core::recording::Rung;
use haltwise_host::exits::{self, ExitOptions};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};

#[derive(Debug, Default)]
pub(crate) struct ExitsWanted {
    pub(crate) sub_keys: BTreeSet<SubKey>,
}

/// The same for the collector and for the capture.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) options: ExitOptions,
    pub(crate) recorded: Recorded,
}

impl ExitsWanted {
    pub(crate) fn settle(&self, rung: Option<Rung>, root: &Root) -> Result<Settled, Failure> {
        if rung.is_some_and(|rung| rung != Rung::Bpf) {
            let error = anyhow!("record exits: not supported with --source tracepoints");
            return Err(Failure::new(Exit::Usage, error)
                .hint("exits are counted by BPF programs: omit --source, or use --source bpf"));
        }
        let recorded = Recorded {
            sub_keys: self.sub_keys.iter().copied().collect(),
            names: exits::kernel_names(root),
            ..Recorded::default()
        };
        let options = ExitOptions {
            sub_keys: self.sub_keys.clone(),
        };
        Ok(Settled { options, recorded })
    }
}
