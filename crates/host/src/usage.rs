//! Usage of CPUs and threads so far: idle time, energy, CPU time of a thread.
//!
//! All are counters that only grow; what matters is the difference of two readings. A host that does
//! not keep one of them gives [`RootError`], never zero.

use std::collections::BTreeMap;

use haltwise_core::event::{Facts, HostSample, IdleState};
use haltwise_core::ids::Tid;
use haltwise_core::recording::Missing;

use crate::collector::CollectError;
use crate::cycles::{Counted, Cycles};
use crate::discovery::printable;
use crate::root::{Root, RootError};

/// CPU time that a thread has used, in nanoseconds.
///
/// The first number of `/proc/TID/schedstat`: `sum_exec_runtime`, `proc_pid_schedstat` in `fs/proc/base.c`.
pub fn thread_cpu_ns(root: &Root, tid: Tid) -> Result<u64, RootError> {
    let file = format!("proc/{tid}/schedstat");
    let text = root.text(&file)?;
    let first = text.split_ascii_whitespace().next();
    let ns = first.and_then(|number| number.parse().ok());
    ns.ok_or_else(|| root.malformed(&file, &text, "a thread's scheduler statistics"))
}

/// Context switches of all CPUs since boot: the line `ctxt` of `/proc/stat` (`show_stat`, `fs/proc/stat.c`).
pub fn context_switches(root: &Root) -> Result<u64, RootError> {
    let file = "proc/stat";
    let text = root.text(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| root.malformed(file, &text, "a count of context switches"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    pub cpus: u32,
    pub idle_ns: u64,
}

/// Reads how long the CPUs were idle, from cpuidle: the time in all states in which a CPU stands still.
///
/// The state named `POLL` does not count: the CPU spins in it (`drivers/cpuidle/poll_state.c`). The time
/// of a state is added when it is left (`cpuidle_enter_state`), in microseconds.
pub fn idle(root: &Root) -> Result<Idle, RootError> {
    let cpus = cpus_with_cpuidle(root)?;
    Ok(Idle {
        cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        idle_ns: stood_still_ns(&idle_states(root, 0)?),
    })
}

/// Idle setup of the CPUs: driver, governor, and the states of the first CPU that are not disabled.
pub(crate) fn idle_setup(root: &Root) -> Vec<String> {
    let mut setup: Vec<String> = ["current_driver", "current_governor"]
        .iter()
        .filter_map(|file| root.value(format!("{CPUS}/cpuidle/{file}")).ok())
        .collect();
    let states = states_of(root, 0).unwrap_or_default().into_iter();
    let enabled = states.filter(|(_, folder)| {
        root.value(format!("{folder}/disable"))
            .is_ok_and(|text| text == "0")
    });
    setup.extend(enabled.filter_map(|(_, folder)| root.value(format!("{folder}/name")).ok()));
    setup
}

pub(crate) const POLL: &str = "POLL";

/// Reads every state of cpuidle, of all CPUs together. States of one number and name are one: kinds of CPUs differ.
pub fn idle_states(root: &Root, time_ns: u64) -> Result<Vec<IdleState>, RootError> {
    let mut states: BTreeMap<(u32, String), IdleState> = BTreeMap::new();
    for cpu in cpus_with_cpuidle(root)? {
        for state in states_of_cpu(root, cpu)? {
            let key = (state.state, state.name.clone());
            let sum = states.entry(key).or_insert_with(|| IdleState {
                time_ns,
                state: state.state,
                name: state.name.clone(),
                description: state.description.clone(),
                above: Some(0),
                below: Some(0),
                ..IdleState::default()
            });
            let both = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
            sum.cpus += 1;
            sum.entries = sum.entries.saturating_add(state.entries);
            sum.residency_ns = sum.residency_ns.saturating_add(state.residency_ns);
            sum.above = both(sum.above, state.above);
            sum.below = both(sum.below, state.below);
        }
    }
    Ok(states.into_values().collect())
}

pub(crate) fn states_of_cpu(root: &Root, cpu: u32) -> Result<Vec<IdleState>, RootError> {
    let states = states_of(root, cpu)?.into_iter();
    let read = |(number, folder): (u32, String)| {
        Ok(IdleState {
            time_ns: 0,
            state: number,
            name: printed(root, &format!("{folder}/name"))?,
            description: printed(root, &format!("{folder}/desc")).unwrap_or_default(),
            cpus: 1,
            entries: root.number(format!("{folder}/usage"))?,
            residency_ns: residency_ns(root, &folder)?,
            above: root.number(format!("{folder}/above")).ok(),
            below: root.number(format!("{folder}/below")).ok(),
        })
    };
    states.map(read).collect()
}

fn residency_ns(root: &Root, folder: &str) -> Result<u64, RootError> {
    let us: u64 = root.number(format!("{folder}/time"))?;
    Ok(us.saturating_mul(1_000))
}

fn printed(root: &Root, file: &str) -> Result<String, RootError> {
    let text = root.value(file)?;
    Ok(printable(&text).unwrap_or_default())
}

const CPUS: &str = "sys/devices/system/cpu";

/// CPUs of which cpuidle keeps statistics; an error where there is none.
pub(crate) fn cpus_with_cpuidle(root: &Root) -> Result<Vec<u32>, RootError> {
    let mut cpus = numbered(root, CPUS, "cpu")?;
    cpus.retain(|cpu| root.exists(format!("{CPUS}/cpu{cpu}/cpuidle/state0")));
    if cpus.is_empty() {
        let path = root.path(format!("{CPUS}/cpu0/cpuidle"));
        return Err(RootError::Absent { path });
    }
    Ok(cpus)
}

fn states_of(root: &Root, cpu: u32) -> Result<Vec<(u32, String)>, RootError> {
    let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
    let states = numbered(root, &folder, "state")?.into_iter();
    Ok(states
        .map(|state| (state, format!("{folder}/state{state}")))
        .collect())
}

/// Energy that a package has used, as RAPL counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    pub package: u32,
    /// In microjoules; begins again at 0 after [`Package::range_uj`].
    pub energy_uj: u64,
    pub range_uj: u64,
}

/// Reads the energy that each package has used so far (`Documentation/power/powercap/powercap.rst`).
pub fn packages(root: &Root) -> Result<Vec<Package>, RootError> {
    let folder = "sys/class/powercap";
    let zones = numbered(root, folder, "intel-rapl:")?;
    let read = |package: u32| {
        let zone = format!("{folder}/intel-rapl:{package}");
        Ok(Package {
            package,
            energy_uj: root.number(format!("{zone}/energy_uj"))?,
            range_uj: root.number(format!("{zone}/max_energy_range_uj"))?,
        })
    };
    let packages: Vec<Package> = zones.into_iter().map(read).collect::<Result<_, _>>()?;
    if packages.is_empty() {
        let path = root.path(format!("{folder}/intel-rapl:0"));
        return Err(RootError::Absent { path });
    }
    Ok(packages)
}

/// Microjoules used between two readings, if both are of the same packages. A counter may have begun
/// again once; at 100 W that takes an hour.
pub fn energy_uj(before: &[Package], after: &[Package]) -> Option<u64> {
    let pairs = before.iter().zip(after);
    let mut sum = 0_u64;
    for (before, after) in pairs {
        if before.package != after.package {
            return None;
        }
        let used = match after.energy_uj.checked_sub(before.energy_uj) {
            Some(used) => used,
            None => {
                (before.range_uj.checked_sub(before.energy_uj)?).saturating_add(after.energy_uj)
            }
        };
        sum = sum.saturating_add(used);
    }
    (before.len() == after.len()).then_some(sum)
}

/// Counters of each CPU and package, too many to read with every sample.
#[derive(Debug)]
pub struct Slow {
    looked_ns: Option<u64>,
    packages: Vec<Package>,
    used_uj: u64,
    cycles: Result<Cycles, CollectError>,
    counted: Option<Counted>, // at the first look
}

/// Between two looks at them: a counter of energy begins again within the hour.
const LOOK_NS: u64 = 10_000_000_000;

impl Slow {
    /// Opens what has to be opened for it, while that is permitted.
    pub fn open(root: &Root) -> Self {
        Self::with(Cycles::open(root))
    }

    fn with(cycles: Result<Cycles, CollectError>) -> Self {
        Self {
            looked_ns: None,
            packages: Vec::new(),
            used_uj: 0,
            cycles,
            counted: None,
        }
    }

    /// Adds a sample to the facts, with these counters if it is time, or this is the last one. What a host does not
    /// keep stays unknown.
    pub fn add(&mut self, root: &Root, mut sample: HostSample, is_last: bool, facts: &mut Facts) {
        let since = self
            .looked_ns
            .map(|looked_ns| sample.time_ns.saturating_sub(looked_ns));
        if is_last || since.is_none_or(|since| since >= LOOK_NS) {
            self.looked_ns = Some(sample.time_ns);
            let states = idle_states(root, sample.time_ns).ok();
            sample.idle_ns = states.as_deref().map(stood_still_ns);
            facts.idle_states.extend(states.into_iter().flatten());
            sample.package_uj = self.used_uj(root);
            let counted = self.counted();
            sample.cycles = counted.map(|counted| counted.cycles);
            sample.instructions = counted.and_then(|counted| counted.instructions);
        }
        facts.host.push(sample);
    }

    fn used_uj(&mut self, root: &Root) -> Option<u64> {
        let now = packages(root).ok()?;
        if !self.packages.is_empty() {
            let used_uj = energy_uj(&self.packages, &now)?;
            self.used_uj = self.used_uj.saturating_add(used_uj);
        }
        self.packages = now;
        Some(self.used_uj)
    }

    fn counted(&mut self) -> Option<Counted> {
        let now = self.cycles.as_mut().ok()?.read().ok()?;
        let first = *self.counted.get_or_insert(now);
        Some(Counted {
            cycles: now.cycles.saturating_sub(first.cycles),
            instructions: now
                .instructions
                .zip(first.instructions)
                .map(|(now, first)| now.saturating_sub(first)),
        })
    }

    pub fn missing(&self, root: &Root) -> Vec<Missing> {
        let one = |field: &str, error: RootError| Missing::new(field, error.to_string());
        let idle = cpus_with_cpuidle(root).err();
        let idle = idle.map(|error| one("idle_ns, idle_states", error));
        let energy = packages(root).err().map(|error| one("package_uj", error));
        let cycles = Cycles::missing(&self.cycles);
        idle.into_iter().chain(energy).chain(cycles).collect()
    }
}

fn stood_still_ns(states: &[IdleState]) -> u64 {
    let still = states.iter().filter(|state| state.name != POLL);
    still.fold(0, |sum, state| sum.saturating_add(state.residency_ns))
}

fn numbered(root: &Root, folder: &str, word: &str) -> Result<Vec<u32>, RootError> {
    let mut numbers: Vec<u32> = root
        .list(folder)?
        .iter()
        .filter_map(|name| name.to_str()?.strip_prefix(word)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::root::made_up;

    #[test]
    fn packages_count_and_their_parts_do_not() {
        let zone = "sys/class/powercap";
        let (_dir, root) = made_up(&[
            (&format!("{zone}/intel-rapl:0/energy_uj"), "90\n"),
            (&format!("{zone}/intel-rapl:0/max_energy_range_uj"), "100\n"),
            (&format!("{zone}/intel-rapl:0:0/energy_uj"), "5\n"),
            (&format!("{zone}/intel-rapl:1/energy_uj"), "10\n"),
            (&format!("{zone}/intel-rapl:1/max_energy_range_uj"), "100\n"),
        ]);
        let before = packages(&root).unwrap();
        assert_eq!(before.len(), 2);
        let mut after = before.clone();
        // The first began again: 10 to its end and 4 more; the second used 20.
        (after[0].energy_uj, after[1].energy_uj) = (4, 30);
        assert_eq!(energy_uj(&before, &after), Some(34));
        assert_eq!(energy_uj(&before, &after[..1]), None);
        after[0].package = 9;
        assert_eq!(energy_uj(&before, &after), None);
    }

    /// A CPU's state of cpuidle, as files.
    fn state(cpu: u32, number: u32, name: &str, entries: &str, us: &str) -> Vec<(String, String)> {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle/state{number}");
        let files = [
            ("name", name),
            ("desc", "as made up"),
            ("usage", entries),
            ("time", us),
        ];
        let files = files.map(|(file, text)| (format!("{folder}/{file}"), format!("{text}\n")));
        files.to_vec()
    }

    fn made_of(files: &[(String, String)]) -> (tempfile::TempDir, Root) {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (&**path, &**text))
            .collect();
        made_up(&files)
    }

    #[test]
    fn states_of_all_cpus_are_summed_up_by_number_and_name() {
        let mut files = state(0, 0, "POLL", "5", "10");
        files.extend(state(0, 1, "C1", "7", "100"));
        files.extend(state(1, 0, "POLL", "1", "2"));
        files.extend(state(1, 1, "WFI", "3", "30"));
        let above = format!("{CPUS}/cpu0/cpuidle/state1/above");
        files.push((above, "4\n".to_owned()));
        let (_dir, root) = made_of(&files);
        let states = idle_states(&root, 9).unwrap();
        let seen: Vec<_> = states
            .iter()
            .map(|it| {
                (
                    it.state,
                    &*it.name,
                    it.cpus,
                    it.entries,
                    it.residency_ns,
                    it.above,
                )
            })
            .collect();
        let expected = [
            (0, "POLL", 2, 6, 12_000, None),
            (1, "C1", 1, 7, 100_000, Some(4)),
            (1, "WFI", 1, 3, 30_000, None),
        ];
        assert_eq!(seen, expected);
        assert_eq!(states[0].description, "as made up");
        let expected = Idle {
            cpus: 2,
            idle_ns: 130_000,
        };
        assert_eq!(idle(&root).unwrap(), expected);
    }

    #[test]
    fn slow_counters_are_read_at_the_ends_and_every_ten_seconds() {
        let zone = "sys/class/powercap/intel-rapl:0";
        let mut files = state(0, 0, "C1", "2", "7");
        files.push((format!("{zone}/energy_uj"), "90\n".to_owned()));
        files.push((format!("{zone}/max_energy_range_uj"), "100\n".to_owned()));
        let (dir, root) = made_of(&files);
        let none = || {
            let what = "count".to_owned();
            Err(CollectError::Unsupported { what, source: None })
        };
        let mut slow = Slow::with(none());
        let mut facts = Facts::default();
        let mut at = |seconds: u64, energy: &str, is_last| {
            std::fs::write(dir.path().join(zone).join("energy_uj"), energy).unwrap();
            let time_ns = seconds * 1_000_000_000;
            let sample = HostSample {
                time_ns,
                ..HostSample::default()
            };
            slow.add(&root, sample, is_last, &mut facts);
            let sample = facts.host.last().unwrap();
            assert_eq!((sample.cycles, sample.instructions), (None, None));
            (sample.idle_ns, sample.package_uj, facts.idle_states.len())
        };
        assert_eq!(at(5, "90", false), (Some(7_000), Some(0), 1));
        assert_eq!(at(14, "95", false), (None, None, 1));
        // It began again: 10 to its end and 4 more.
        assert_eq!(at(15, "4", false), (Some(7_000), Some(14), 2));
        assert_eq!(at(16, "10", true), (Some(7_000), Some(20), 3));
        let named = |root: &Root| {
            let missing = Slow::with(none()).missing(root);
            missing.into_iter().map(|it| it.field).collect::<Vec<_>>()
        };
        assert_eq!(named(&root), ["cycles, instructions"]);
        let (_dir, bare) = made_up(&[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        let all = ["idle_ns, idle_states", "package_uj", "cycles, instructions"];
        assert_eq!(named(&bare), all);
    }

    #[test]
    fn the_time_of_a_thread() {
        let (_dir, root) = made_up(&[
            ("proc/7/schedstat", "259684 497460 2\n"),
            ("proc/8/schedstat", "x\n"),
        ]);
        assert_eq!(thread_cpu_ns(&root, Tid(7)).unwrap(), 259_684);
        let error = thread_cpu_ns(&root, Tid(8)).unwrap_err();
        assert!(error.to_string().contains("proc/8/schedstat"), "{error}");
    }
}
