//! Exits beside the halts.

use anyhow::anyhow;
use haltwise_core::exit::Recorded;
use haltwise_core::recording::Rung;
use haltwise_host::exits::{self, ExitOptions};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};

/// Description of the requested exits for a capture, if any; refuses a source that does not count them.
pub(crate) fn recorded(
    wanted: Option<&ExitOptions>,
    rung: Option<Rung>,
    root: &Root,
) -> Result<Option<Recorded>, Failure> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    if rung.is_some_and(|rung| rung != Rung::Bpf) {
        let error = anyhow!("record exits: not supported with --source tracepoints");
        return Err(Failure::new(Exit::Usage, error)
            .hint("exits are counted by BPF programs: omit --source, or use --source bpf"));
    }
    Ok(Some(Recorded {
        sub_keys: wanted.sub_keys.iter().copied().collect(),
        names: exits::kernel_names(root),
        ..Recorded::default()
    }))
}
