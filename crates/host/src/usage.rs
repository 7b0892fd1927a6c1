//! What CPUs and threads used so far: time idle, energy, CPU time of a thread.
//!
//! All are counters that only grow; what matters is the difference of two readings. A host that does
//! not keep one of them gives [`RootError`], never zero.

use haltwise_core::event::HostSample;
use haltwise_core::ids::Tid;
use haltwise_core::recording::Missing;

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

/// Time that CPUs spent idle, all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// CPUs that keep it.
    pub cpus: u32,
    /// In nanoseconds.
    pub idle_ns: u64,
}

/// Reads how long the CPUs were idle, from cpuidle: the time in all states in which a CPU stands still.
///
/// The state named `POLL` does not count: the CPU spins in it (`drivers/cpuidle/poll_state.c`). The time
/// of a state is added when it is left (`cpuidle_enter_state`), in microseconds.
pub fn idle(root: &Root) -> Result<Idle, RootError> {
    let folder = "sys/devices/system/cpu";
    let mut idle = Idle {
        cpus: 0,
        idle_ns: 0,
    };
    for cpu in numbered(root, folder, "cpu")? {
        let folder = format!("{folder}/cpu{cpu}/cpuidle");
        let states = match numbered(root, &folder, "state") {
            Err(error) if error.is_absent() => continue,
            states => states?,
        };
        idle.cpus += 1;
        for state in states {
            let state = format!("{folder}/state{state}");
            if root.value(format!("{state}/name"))? != "POLL" {
                let us: u64 = root.number(format!("{state}/time"))?;
                idle.idle_ns = idle.idle_ns.saturating_add(us.saturating_mul(1_000));
            }
        }
    }
    if idle.cpus == 0 {
        let path = root.path(format!("{folder}/cpu0/cpuidle"));
        return Err(RootError::Absent { path });
    }
    Ok(idle)
}

/// Energy that a package has used, as RAPL counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Its number.
    pub package: u32,
    /// In microjoules; begins again at 0 after [`Package::range_uj`].
    pub energy_uj: u64,
    /// The largest value.
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

/// Counters that are files of each CPU and package, too many to read with every sample.
#[derive(Debug, Default)]
pub struct Slow {
    looked_ns: Option<u64>,
    packages: Vec<Package>,
    used_uj: u64,
}

/// Between two looks at them: a counter of energy begins again within the hour.
const LOOK_NS: u64 = 10_000_000_000;

impl Slow {
    /// Adds them to a sample if it is time, or this is the last one. What a host does not keep stays unknown.
    pub fn fill(&mut self, root: &Root, sample: &mut HostSample, is_last: bool) {
        let since = self
            .looked_ns
            .map(|looked_ns| sample.time_ns.saturating_sub(looked_ns));
        if !is_last && since.is_some_and(|since| since < LOOK_NS) {
            return;
        }
        let is_first = self.looked_ns.is_none();
        self.looked_ns = Some(sample.time_ns);
        sample.idle_ns = idle(root).ok().map(|idle| idle.idle_ns);
        let Ok(now) = packages(root) else { return };
        if !is_first {
            let Some(used_uj) = energy_uj(&self.packages, &now) else {
                return;
            };
            self.used_uj = self.used_uj.saturating_add(used_uj);
        }
        self.packages = now;
        sample.package_uj = Some(self.used_uj);
    }
}

/// Which of them a host does not keep, and why.
pub fn missing(root: &Root) -> Vec<Missing> {
    let one = |field: &str, error: RootError| Missing {
        field: field.to_owned(),
        reason: error.to_string(),
    };
    let idle = idle(root).err().map(|error| one("idle_ns", error));
    let energy = packages(root).err().map(|error| one("package_uj", error));
    idle.into_iter().chain(energy).collect()
}

/// The numbers of the entries of a folder that are a word and a number.
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
    fn idle_is_all_states_but_polling() {
        let cpu = "sys/devices/system/cpu";
        let (_dir, root) = made_up(&[
            (&format!("{cpu}/cpu0/cpuidle/state0/name"), "POLL\n"),
            (&format!("{cpu}/cpu0/cpuidle/state0/time"), "999\n"),
            (&format!("{cpu}/cpu0/cpuidle/state1/name"), "C1\n"),
            (&format!("{cpu}/cpu0/cpuidle/state1/time"), "7\n"),
            (&format!("{cpu}/cpu0/cpuidle/state2/name"), "C6\n"),
            (&format!("{cpu}/cpu0/cpuidle/state2/time"), "100\n"),
            (&format!("{cpu}/cpu1/cpuidle/state1/name"), "C1\n"),
            (&format!("{cpu}/cpu1/cpuidle/state1/time"), "1\n"),
            (&format!("{cpu}/cpu2/online"), "0\n"),
            (&format!("{cpu}/cpuidle/current_driver"), "none\n"),
        ]);
        let expected = Idle {
            cpus: 2,
            idle_ns: 108_000,
        };
        assert_eq!(idle(&root).unwrap(), expected);
    }

    #[test]
    fn what_a_host_does_not_keep_is_absent() {
        let (_dir, root) = made_up(&[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        assert!(idle(&root).unwrap_err().is_absent());
        assert!(packages(&root).unwrap_err().is_absent());
        assert!(thread_cpu_ns(&root, Tid(7)).unwrap_err().is_absent());
    }

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

    #[test]
    fn slow_counters_are_read_at_the_ends_and_every_ten_seconds() {
        let zone = "sys/class/powercap/intel-rapl:0";
        let cpu = "sys/devices/system/cpu/cpu0/cpuidle/state1";
        let (dir, root) = made_up(&[
            (&format!("{zone}/energy_uj"), "90\n"),
            (&format!("{zone}/max_energy_range_uj"), "100\n"),
            (&format!("{cpu}/name"), "C1\n"),
            (&format!("{cpu}/time"), "7\n"),
        ]);
        let mut slow = Slow::default();
        let mut at = |seconds: u64, energy: &str, is_last| {
            std::fs::write(dir.path().join(zone).join("energy_uj"), energy).unwrap();
            let time_ns = seconds * 1_000_000_000;
            let mut sample = HostSample {
                time_ns,
                ..HostSample::default()
            };
            slow.fill(&root, &mut sample, is_last);
            (sample.idle_ns, sample.package_uj)
        };
        assert_eq!(at(5, "90", false), (Some(7_000), Some(0)));
        assert_eq!(at(14, "95", false), (None, None));
        // It began again: 10 to its end and 4 more.
        assert_eq!(at(15, "4", false), (Some(7_000), Some(14)));
        assert_eq!(at(16, "10", true), (Some(7_000), Some(20)));
        assert!(missing(&root).is_empty());
        let (_dir, bare) = made_up(&[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        let fields: Vec<String> = missing(&bare).into_iter().map(|it| it.field).collect();
        assert_eq!(fields, ["idle_ns", "package_uj"]);
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
