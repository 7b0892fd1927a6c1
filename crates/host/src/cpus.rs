//! Which CPUs this machine has, as the kernel lists them under `/sys/devices/system/cpu`.

use std::io;
use std::time::Duration;

use haltwise_core::topology::Cpu;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::collector::CollectError;
use crate::host_sample;
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

/// The CPUs with their cores and caches, and how long each had been busy then.
#[derive(Debug)]
pub struct Cpus(Vec<Cpu>);

impl Cpus {
    pub fn new(root: &Root) -> Self {
        let online = listed(root, ONLINE).unwrap_or_default();
        let busy = host_sample::busy_of_each(root);
        let first = |file: String| listed(root, &file).ok()?.into_iter().min();
        let cpu = |id: u32| {
            let folder = format!("sys/devices/system/cpu/cpu{id}");
            // Numbers of caches rise with their distance from the core.
            let cache = |index| first(format!("{folder}/cache/index{index}/shared_cpu_list"));
            Some(Cpu {
                id,
                core: first(format!("{folder}/topology/thread_siblings_list"))?,
                cache: (0..8).map_while(cache).last(),
                busy_ns: busy.get(&id).copied(),
            })
        };
        Self(online.into_iter().filter_map(cpu).collect())
    }

    /// While it is not known how busy they will have been.
    pub fn now(&self) -> Vec<Cpu> {
        let busy_ns = None;
        self.0.iter().map(|cpu| Cpu { busy_ns, ..*cpu }).collect()
    }

    pub fn used(&self, root: &Root) -> Vec<Cpu> {
        let after = host_sample::busy_of_each(root);
        let used = |cpu: &Cpu| after.get(&cpu.id)?.checked_sub(cpu.busy_ns?);
        let cpu = |cpu: &Cpu| Cpu {
            busy_ns: used(cpu),
            ..*cpu
        };
        self.0.iter().map(cpu).collect()
    }
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
    fn cores_caches_and_time_are_read_of_each_cpu() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(ONLINE, "0-2\n");
        for (cpu, core) in [(0, "0-1"), (1, "0-1"), (2, "2")] {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            write(&format!("{folder}/topology/thread_siblings_list"), core);
            write(&format!("{folder}/cache/index0/shared_cpu_list"), core);
            write(&format!("{folder}/cache/index1/shared_cpu_list"), "0-2");
        }
        let root = Root::at(dir.path());
        write("proc/stat", "cpu  9 0 0 9\ncpu0 5 0 2 50\ncpu1 5 1 3 50\n");
        let cpus = Cpus::new(&root);
        write("proc/stat", "cpu  9 0 0 9\ncpu0 9 0 2 50\n");
        let of = |cpu: &Cpu| (cpu.id, cpu.core, cpu.cache, cpu.busy_ns);
        let tick = crate::clock::ticks_long(1);
        let used: Vec<_> = cpus.used(&root).iter().map(of).collect();
        let expected = [
            (0, 0, Some(0), Some(4 * tick)),
            (1, 0, Some(0), None),
            (2, 2, Some(0), None),
        ];
        assert_eq!(used, expected);
        assert!(cpus.now().iter().all(|cpu| cpu.busy_ns.is_none()));
    }

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
