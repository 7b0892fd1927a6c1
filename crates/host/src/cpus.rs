//! Which CPUs this machine has, as the kernel lists them under `/sys/devices/system/cpu`.

use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::collector::CollectError;
use crate::root::{Root, RootError};

const ONLINE: &str = "sys/devices/system/cpu/online";
const POSSIBLE: &str = "sys/devices/system/cpu/possible";

pub(crate) fn online(root: &Root) -> Result<Vec<u32>, CollectError> {
    let online = listed(root, ONLINE).map_err(io::Error::other);
    online.map_err(CollectError::failed("find the CPUs"))
}

/// Sleeps for so long on each CPU in turn, so that a CPU without other work enters its deepest idle state. One that this
/// thread may not use (cpusets) is left out.
pub fn idle_on_each(root: &Root, stay: Duration) -> io::Result<()> {
    let cpus = listed(root, ONLINE).map_err(io::Error::other)?;
    let before = sched_getaffinity(None)?;
    for cpu in cpus {
        if pin(cpu).is_ok() {
            std::thread::sleep(stay);
        }
    }
    Ok(sched_setaffinity(None, &before)?)
}

pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    let index = usize::try_from(cpu).unwrap_or(usize::MAX);
    if index >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(index);
    Ok(sched_setaffinity(None, &set)?)
}

/// Numbers of CPUs are below this, those of CPUs that may come online as well.
pub(crate) fn end(root: &Root, online: &[u32]) -> u32 {
    let possible = listed(root, POSSIBLE).unwrap_or_default();
    let last = possible.iter().chain(online).max();
    last.map_or(1, |last| last.saturating_add(1))
}

fn listed(root: &Root, file: &str) -> Result<Vec<u32>, RootError> {
    let text = root.value(file)?;
    list(&text).ok_or_else(|| root.malformed(file, &text, "a list of CPUs"))
}

fn list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_as_the_kernel_writes_it() {
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list("0-1"), Some(vec![0, 1]));
        assert_eq!(list("0,2-3,9"), Some(vec![0, 2, 3, 9]));
        for bad in ["", "x", "3-1", "0-4294967295", "1,"] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }
}
