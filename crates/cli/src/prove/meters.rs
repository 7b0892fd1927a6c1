//! Counters of the machine, read again and again during a block: time that CPUs stood still, energy, cycles, context
//! switches, and the CPU time of threads that run vCPUs. What was used is told from where the warm-up ends, which may
//! not be known before the block has ended.

use std::collections::BTreeMap;

use haltwise_core::ids::Tid;
use haltwise_core::recording::Side;
use haltwise_host::collector::CollectError;
use haltwise_host::cycles::Cycles;
use haltwise_host::host_sample;
use haltwise_host::root::{Root, RootError};
use haltwise_host::usage::{self, Idle, Package};

/// Between two readings of the CPUs' PMUs, which interrupt each CPU.
const CYCLES_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Reading {
    time_ns: u64,
    idle: Option<Idle>,
    packages: Option<Vec<Package>>,
    switches: Option<u64>,
    pressure_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Meters {
    host: Vec<Reading>,
    /// When cycles were read, in nanoseconds, and how many had been counted.
    cycles: Vec<(u64, u64)>,
    /// Readings of each thread: the time, and the CPU time it had used, both in nanoseconds.
    threads: BTreeMap<Tid, Vec<(u64, u64)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Used {
    pub(crate) awake_percent: Option<f64>,
    pub(crate) cycles_per_s: Option<f64>,
    pub(crate) watts: Option<f64>,
    pub(crate) vcpu_percent: Option<f64>,
    pub(crate) switches_per_s: Option<f64>,
    /// Share of the time in which some task waited for a CPU.
    pub(crate) cpu_pressure: Option<f64>,
}

impl Meters {
    /// Reads everything. A thread that has ended keeps what it last had.
    pub(crate) fn read(&mut self, root: &Root, time_ns: u64, tids: impl Iterator<Item = Tid>) {
        self.host.push(Reading {
            time_ns,
            idle: usage::idle(root).ok(),
            packages: usage::packages(root).ok(),
            switches: usage::context_switches(root).ok(),
            pressure_ns: host_sample::cpu_pressure_ns(root),
        });
        for tid in tids {
            if let Ok(cpu_ns) = usage::thread_cpu_ns(root, tid) {
                self.threads.entry(tid).or_default().push((time_ns, cpu_ns));
            }
        }
    }

    pub(crate) fn count(&mut self, cycles: &mut Cycles, time_ns: u64, is_last: bool) {
        let last_ns = self.cycles.last().map(|(time_ns, _)| *time_ns);
        let is_time = last_ns.is_none_or(|last_ns| time_ns.saturating_sub(last_ns) >= CYCLES_NS);
        if (is_time || is_last)
            && let Ok(counted) = cycles.read()
        {
            self.cycles.push((time_ns, counted.cycles));
        }
    }

    pub(crate) fn used(&self, since_ns: u64) -> Used {
        let vcpu_percent = self.vcpu_percent(since_ns);
        let cycles_per_s = rate(&self.cycles, since_ns).map(|per_ns| per_ns * 1e9);
        let counted = self.host.iter().find(|reading| reading.time_ns >= since_ns);
        let read = counted.zip(self.host.last());
        let Some((first, last)) = read.filter(|(first, last)| last.time_ns > first.time_ns) else {
            return Used {
                cycles_per_s,
                vcpu_percent,
                ..Used::default()
            };
        };
        let wall_ns = (last.time_ns - first.time_ns) as f64;
        let idle = first.idle.zip(last.idle);
        let awake_percent = idle.filter(|(one, other)| one.cpus == other.cpus);
        let awake_percent = awake_percent.map(|(before, after)| {
            let idle_ns = after.idle_ns.saturating_sub(before.idle_ns) as f64;
            let share = 1.0 - idle_ns / (wall_ns * f64::from(after.cpus));
            100.0 * share.clamp(0.0, 1.0)
        });
        let energy = first.packages.as_ref().zip(last.packages.as_ref());
        let energy = energy.and_then(|(before, after)| usage::energy_uj(before, after));
        let switches = first.switches.zip(last.switches);
        let switches = switches.and_then(|(before, after)| after.checked_sub(before));
        let waited = first.pressure_ns.zip(last.pressure_ns);
        Used {
            awake_percent,
            watts: energy.map(|uj| uj as f64 * 1e3 / wall_ns),
            vcpu_percent,
            cycles_per_s,
            switches_per_s: switches.map(|switches| switches as f64 * 1e9 / wall_ns),
            cpu_pressure: waited
                .map(|(before, after)| after.saturating_sub(before) as f64 / wall_ns),
        }
    }

    /// Each thread over the time that it was seen for.
    fn vcpu_percent(&self, since_ns: u64) -> Option<f64> {
        let threads = self.threads.values();
        let rates = threads.filter_map(|seen| rate(seen, since_ns));
        let shares: Vec<f64> = rates.map(|rate| 100.0 * rate).collect();
        (!shares.is_empty()).then(|| shares.iter().sum())
    }
}

/// By how much a counter grew in each nanosecond from its first reading since then to the last: readings are the time and
/// the count.
fn rate(seen: &[(u64, u64)], since_ns: u64) -> Option<f64> {
    let (from_ns, before) = seen.iter().find(|(time_ns, _)| *time_ns >= since_ns)?;
    let (to_ns, after) = seen.last()?;
    let seen_ns = to_ns.saturating_sub(*from_ns);
    let grown = after.saturating_sub(*before);
    (seen_ns > 0).then(|| grown as f64 / seen_ns as f64)
}

pub(crate) fn missing(
    root: &Root,
    side: Side,
    cycles: &Result<Cycles, CollectError>,
) -> Vec<(&'static str, String)> {
    let why = |error: RootError| format!("{:#}", anyhow::Error::new(error));
    let idle = usage::idle(root).err().map(why);
    let power = usage::packages(root).err().map(why);
    let switches = match side {
        Side::Host => None,
        Side::Guest => usage::context_switches(root).err().map(why),
    };
    let cycles = cycles.as_ref().err().map(ToString::to_string);
    let named = [
        ("awake", idle),
        ("cycles", cycles),
        ("power", power),
        ("context-switches", switches),
    ];
    let named = named.into_iter();
    named
        .filter_map(|(figure, why)| Some((figure, why?)))
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn reading(time_ns: u64, idle_ns: u64, energy_uj: u64) -> Reading {
        Reading {
            time_ns,
            idle: Some(Idle { cpus: 2, idle_ns }),
            packages: Some(vec![Package {
                package: 0,
                energy_uj,
                range_uj: 1_000_000,
            }]),
            switches: Some(time_ns * 7),
            pressure_ns: Some(time_ns / 4),
        }
    }

    #[test]
    fn what_was_used_counts_from_the_end_of_the_warm_up() {
        let mut meters = Meters {
            host: vec![
                reading(0, 0, 0),
                reading(100, 200, 7),
                reading(200, 250, 17),
                reading(300, 300, 27),
            ],
            cycles: vec![(0, 0), (100, 1_000), (200, 1_600), (300, 1_800)],
            threads: BTreeMap::new(),
        };
        meters
            .threads
            .insert(Tid(1), vec![(0, 0), (100, 90), (300, 100)]);
        meters.threads.insert(Tid(2), vec![(150, 5), (250, 105)]);
        // Ended during the warm-up.
        meters.threads.insert(Tid(3), vec![(0, 0), (50, 50)]);
        let used = meters.used(90);
        // 100 of 400 ns idle; 20 uJ in 200 ns; 5 % and 100 % of a CPU.
        assert_eq!(used.awake_percent, Some(75.0));
        assert_eq!(used.watts, Some(100.0));
        assert_eq!(used.cycles_per_s, Some(4e9));
        assert_eq!(used.vcpu_percent, Some(105.0));
        assert_eq!(used.switches_per_s, Some(7e9));
        assert_eq!(used.cpu_pressure, Some(0.25));
    }
}
