//! The host's own state once per flush: how busy it is, and what the recorder takes of it.

use std::collections::BTreeMap;

use haltwise_core::event::HostSample;

use crate::clock;
use crate::root::{Root, RootError};

/// Reads the host's state.
///
/// `kernel_cpu_ns` is what the kernel spent for the recorder (BPF programs), where a source knows it.
/// Pressure is `None` on kernels that do not account it.
pub fn read(root: &Root, kernel_cpu_ns: Option<u64>) -> Result<HostSample, RootError> {
    let text = root.text("proc/stat")?;
    let times = cpu_times(&text).ok_or_else(|| root.malformed("proc/stat", &text, "CPU times"))?;
    Ok(HostSample {
        time_ns: clock::monotonic_ns(),
        cpu_pressure_ns: cpu_pressure_ns(root),
        recorder_cpu_ns: clock::process_cpu_ns(),
        bpf_cpu_ns: kernel_cpu_ns,
        recorder_rss_bytes: resident_bytes(&root.text("proc/self/statm").unwrap_or_default()),
        ..times
    })
}

struct Times {
    idle: u64,
    total: u64,
    steal: Option<u64>,
}

impl Times {
    fn of(line: &str) -> Option<Self> {
        let fields = line.split_ascii_whitespace();
        let fields = fields.map_while(|field| field.parse().ok()).take(8);
        let fields: Vec<u64> = fields.collect();
        Some(Self {
            idle: fields.get(3)?.saturating_add(*fields.get(4).unwrap_or(&0)),
            total: fields.iter().fold(0, |sum: u64, &n| sum.saturating_add(n)),
            steal: fields.get(7).copied(),
        })
    }
}

pub(crate) fn busy_of_each(root: &Root) -> BTreeMap<u32, u64> {
    let text = root.text("proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let Times { idle, total, .. } = Times::of(times)?;
        Some((
            cpu.parse().ok()?,
            clock::ticks_long(total.saturating_sub(idle)),
        ))
    };
    text.lines().filter_map(of).collect()
}

/// CPU times of all CPUs since boot, from `/proc/stat`. Guest time is part of user time there and is not counted twice; idle
/// and waiting for I/O are idle; time stolen by a hypervisor above is not.
fn cpu_times(text: &str) -> Option<HostSample> {
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let Times { idle, total, steal } = Times::of(all)?;
    let cpus = text
        .lines()
        .filter(|line| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
        .count();
    Some(HostSample {
        cpus: u32::try_from(cpus).ok()?,
        busy_ns: clock::ticks_long(total.saturating_sub(idle)),
        total_ns: clock::ticks_long(total),
        steal_ns: steal.map(clock::ticks_long),
        ..HostSample::default()
    })
}

/// Time in which some task waited for a CPU, since boot; `None` on kernels that do not account it.
pub fn cpu_pressure_ns(root: &Root) -> Option<u64> {
    pressure_ns(&root.text("proc/pressure/cpu").ok()?)
}

/// `total` of the line `some`, which the kernel counts in microseconds.
fn pressure_ns(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1_000)
}

/// The second field of `/proc/self/statm`, in bytes.
fn resident_bytes(statm: &str) -> u64 {
    let pages = statm
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|field| field.parse::<u64>().ok())
        .unwrap_or(0);
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(0);
    pages.saturating_mul(page)
}

/// The name of the CPU, as `/proc/cpuinfo` gives it on this architecture.
pub fn cpu_model(root: &Root) -> Option<String> {
    let text = root.text("proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let wanted = ["model name", "cpu model", "cpu", "Model Name"].contains(&key.trim());
        wanted.then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;

    const STAT: &str = "cpu  10 1 5 100 4 2 3 7 9 9\ncpu0 5 0 2 50 2 1 1 3 0 0\n\
                        cpu1 5 1 3 50 2 1 2 4 0 0\nintr 9\ncpus 3\nbtime 1\n";

    #[test]
    fn guest_time_is_not_counted_twice() {
        let tick = clock::ticks_long(1);
        let expected = HostSample {
            cpus: 2,
            busy_ns: 28 * tick,
            total_ns: 132 * tick,
            steal_ns: Some(7 * tick),
            ..HostSample::default()
        };
        assert_eq!(cpu_times(STAT), Some(expected));
        for bad in ["", "cpu", "cpu  1 2 3", "cpu  a b c d"] {
            assert_eq!(cpu_times(bad), None, "{bad}");
        }
    }

    #[test]
    fn pressure_is_in_microseconds_or_missing() {
        let text = "some avg10=0.00 avg60=1.80 avg300=3.69 total=36540744\nfull total=0\n";
        assert_eq!(pressure_ns(text), Some(36_540_744_000));
        for bad in ["", "full total=5\n", "some total=x", "some avg10=1"] {
            assert_eq!(pressure_ns(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sample_of_a_made_up_host() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/stat"), STAT).unwrap();
        fs::write(dir.path().join("proc/self/statm"), "900 3 1 1 0 1 0\n").unwrap();
        let sample = read(&Root::at(dir.path()), Some(7)).unwrap();
        assert_eq!((sample.cpus, sample.bpf_cpu_ns), (2, Some(7)));
        assert_eq!(sample.cpu_pressure_ns, None);
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        assert_eq!(sample.recorder_rss_bytes, 3 * page);
        assert!(sample.busy_ns < sample.total_ns);
    }
}
