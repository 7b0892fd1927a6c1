//! Whether a VM that was seen still runs, and by which threads.

use std::collections::BTreeSet;

use haltwise_core::ids::{Tid, VmKey};

use super::is_alive;
use crate::root::Root;

/// The threads of a VM's process; `None` if that has ended, also if another has its number now.
pub fn threads_of(root: &Root, key: &VmKey) -> Option<BTreeSet<Tid>> {
    is_alive(root, *key).ok().filter(|is_alive| *is_alive)?;
    let tids = root.numbers(format!("proc/{}/task", key.pid)).ok()?;
    Some(tids.into_iter().map(Tid).collect())
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::Pid;

    use super::*;
    use crate::root::made_up;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let stat = format!("7 (qemu) S {}4000 0", "0 ".repeat(18));
        let (_dir, root) = made_up(&[
            ("proc/7/stat", &stat),
            ("proc/7/task/9/comm", "CPU 0/KVM\n"),
        ]);
        for (pid, start_ticks, found) in [(7, 4_000, true), (7, 3_999, false), (8, 4_000, false)] {
            let key = VmKey::first(Pid(pid), start_ticks);
            let threads = found.then(|| BTreeSet::from([Tid(9)]));
            assert_eq!(threads_of(&root, &key), threads);
        }
    }
}
