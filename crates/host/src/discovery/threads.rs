//! Whether a VM that was seen still runs, and by which threads.

use std::collections::BTreeSet;

use haltwise_core::ids::{Tid, VmKey};

use super::key_of;
use crate::root::Root;

/// The threads of a VM's process; `None` if that has ended, also if another has its number now.
pub fn threads_of(root: &Root, key: &VmKey) -> Option<BTreeSet<Tid>> {
    let now = key_of(root, key.pid).ok()?;
    if now.start_ticks != key.start_ticks {
        return None;
    }
    let tids = root.numbers(format!("proc/{}/task", key.pid)).ok()?;
    Some(tids.into_iter().map(Tid).collect())
}
