//! Which vCPU threads belong to one VM, where nothing names VMs: from processes, names and numbers of
//! threads. Pure. Imported text and recording through tracepoints ask it.
//!
//! Threads of one process are one VM. If two of them run a vCPU of the same number, the process has
//! several, and no event says which thread belongs to which: threads of one name belong together
//! (`vm0-vcpu0` and `vm0-vcpu1`), and a number that comes again in the order of threads begins the next
//! VM. The same holds where processes are not named at all, of threads whose numbers lie close to each
//! other, since a VMM makes its vCPUs' threads one after the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Pid, Tid, VcpuId};

/// Without processes, threads further apart are of different VMs.
const NEAR: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub tid: Tid,
    /// Its process; `None` where nothing names processes.
    pub process: Option<Pid>,
    /// Its name without the number of its vCPU, and that number.
    pub name: (String, Option<u32>),
    /// The vCPU that its events named.
    pub told: Option<VcpuId>,
    /// They named several.
    pub moves: bool,
}

impl Known {
    fn is_numbered(&self) -> bool {
        self.told.is_some() || self.name.1.is_some()
    }
}

/// Threads of one VM, as places in the list that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub threads: Vec<usize>,
    /// The vCPU of each, in the same order; `None` where its events tell, each for itself.
    pub vcpus: Vec<Option<VcpuId>>,
    /// The VM's place among those of its process.
    pub ordinal: u32,
    /// Other VMs of the same process were told apart from it by names and order alone.
    pub split: bool,
    /// Numbers of vCPUs were taken from names or from the order.
    pub numbered: bool,
}

/// A thread's name without the number of its vCPU, and that number: `CPU 3/KVM`, `fc_vcpu 3`,
/// `crosvm_vcpu3`, `vm0-vcpu3`.
pub fn name_of(comm: &str) -> (String, Option<u32>) {
    let lower = comm.to_ascii_lowercase();
    let begins = match lower.find("vcpu") {
        Some(at) => Some(at + "vcpu".len()),
        None => lower.starts_with("cpu ").then_some("cpu ".len()),
    };
    let Some(begins) = begins else {
        return (comm.to_owned(), None);
    };
    let rest = comm[begins..].trim_start_matches([' ', '_', '-']);
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, tail) = rest.split_at(end.unwrap_or(rest.len()));
    (format!("{}{tail}", &comm[..begins]), digits.parse().ok())
}

/// Puts threads together, VMs in the order of their first thread in the list.
pub fn groups(threads: &[Known]) -> Vec<Group> {
    let mut classes = BTreeMap::<(Option<Pid>, &str), Vec<usize>>::new();
    for (at, thread) in threads.iter().enumerate() {
        let name = match thread.process {
            Some(_) => "",
            None => thread.name.0.as_str(),
        };
        classes.entry((thread.process, name)).or_default().push(at);
    }
    let mut groups = Vec::new();
    for ((process, _), mut class) in classes {
        class.sort_by_key(|&at| threads[at].tid);
        let parts = match process {
            None => near_each_other(threads, &class),
            Some(_) if is_one(threads, &class) => vec![class],
            Some(_) => {
                let mut names = BTreeMap::<&str, Vec<usize>>::new();
                for at in class {
                    names.entry(&threads[at].name.0).or_default().push(at);
                }
                let mut parts: Vec<_> = names
                    .values()
                    .flat_map(|class| in_a_row(threads, class))
                    .collect();
                parts.sort();
                parts
            }
        };
        let split = process.is_some() && parts.len() > 1;
        for (ordinal, part) in (0..).zip(parts) {
            let ordinal = if split { ordinal } else { 0 };
            groups.push(group(threads, part, ordinal, split));
        }
    }
    groups.sort_by_key(|group| group.threads.iter().min().copied());
    groups
}

/// Numbers of vCPUs that were met: what events told and what names say may differ, since VMMs name
/// threads by index and KVM tells identifiers, which may have holes.
#[derive(Debug, Default)]
struct Numbers {
    told: BTreeSet<VcpuId>,
    named: BTreeSet<u32>,
}

impl Numbers {
    fn has(&self, thread: &Known) -> bool {
        let told = thread.told.is_some_and(|vcpu| self.told.contains(&vcpu));
        let named = thread.name.1;
        told || named.is_some_and(|number| self.named.contains(&number))
    }

    fn meet(&mut self, thread: &Known) -> bool {
        let told = thread.told.is_some_and(|vcpu| !self.told.insert(vcpu));
        let named = thread
            .name
            .1
            .is_some_and(|number| !self.named.insert(number));
        told || named
    }
}

/// Whether threads of a process may all be of one VM: no number comes twice, or vCPUs change threads.
fn is_one(threads: &[Known], class: &[usize]) -> bool {
    let mut numbers = Numbers::default();
    let moves = class.iter().any(|&at| threads[at].moves);
    moves || !class.iter().any(|&at| numbers.meet(&threads[at]))
}

/// Threads in order of their own numbers, cut where a vCPU's number comes again.
fn in_a_row(threads: &[Known], class: &[usize]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut numbers = Numbers::default();
    for &at in class {
        if numbers.meet(&threads[at]) || parts.is_empty() {
            numbers = Numbers::default();
            numbers.meet(&threads[at]);
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(at);
        }
    }
    parts
}

/// VMs that start at the same time mix the numbers of their threads. So a thread joins a VM near it that lacks
/// its vCPU: the one whose last thread precedes it directly, else the oldest. A thread whose vCPU has no number
/// joins none.
fn near_each_other(threads: &[Known], class: &[usize]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    // Parts that threads may still join, with the numbers that they have and their last thread.
    let mut open: Vec<(usize, Numbers, Tid)> = Vec::new();
    for &at in class {
        let thread = &threads[at];
        let distance = |last: Tid| thread.tid.0.saturating_sub(last.0);
        open.retain(|(_, _, last)| distance(*last) <= NEAR);
        let lacking = |near: u32| {
            let mut open = open.iter();
            open.position(|(_, numbers, last)| distance(*last) <= near && !numbers.has(thread))
        };
        let found = lacking(1).or_else(|| lacking(NEAR));
        let found = found.and_then(|at| open.get_mut(at));
        if let Some((part, numbers, last)) = found.filter(|_| thread.is_numbered()) {
            numbers.meet(thread);
            *last = thread.tid;
            parts[*part].push(at);
            continue;
        }
        if thread.is_numbered() {
            let mut numbers = Numbers::default();
            numbers.meet(thread);
            open.push((parts.len(), numbers, thread.tid));
        }
        parts.push(vec![at]);
    }
    parts
}

/// Numbers the vCPUs of a VM: by what their events told; else by their names, unless those disagree with
/// the events of others; else by the lowest number that is left.
fn group(threads: &[Known], part: Vec<usize>, ordinal: u32, split: bool) -> Group {
    let moves = part.iter().any(|&at| threads[at].moves);
    let mut taken: BTreeSet<u32> = part
        .iter()
        .filter_map(|&at| threads[at].told.map(|vcpu| vcpu.0))
        .collect();
    let agrees = |thread: &Known| {
        let told = thread.told.map(|vcpu| vcpu.0);
        told.zip(thread.name.1)
            .is_none_or(|(told, named)| told == named)
    };
    let names_count = part.iter().all(|&at| agrees(&threads[at]));
    let mut numbered = false;
    let mut vcpus = Vec::with_capacity(part.len());
    for &at in &part {
        let thread = &threads[at];
        vcpus.push(match thread.told {
            _ if moves => None,
            Some(told) => Some(told),
            None => {
                numbered = true;
                let named = thread
                    .name
                    .1
                    .filter(|it| names_count && !taken.contains(it));
                let free = (0..=u32::MAX).find(|number| !taken.contains(number));
                let number = named.or(free).unwrap_or(u32::MAX);
                taken.insert(number);
                Some(VcpuId(number))
            }
        });
    }
    Group {
        threads: part,
        vcpus,
        ordinal,
        split,
        numbered,
    }
}

#[cfg(test)]
mod test;
