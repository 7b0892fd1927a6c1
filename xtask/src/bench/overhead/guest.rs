//! The guest that is watched: one for all watchers of a round, so that they are compared on the same VM.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::bench::run::Programs;

/// A load, by the arguments of `haltwise-lab run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Its name in tables.
    pub(crate) name: &'static str,
    /// What is said of it.
    pub(crate) about: &'static str,
    arguments: &'static [&'static str],
}

/// Between an answer and the next wake-up the guest halts in its window: every poll is successful. The
/// vCPU has a CPU of its own; what wakes it, and the watcher, share the other.
pub(crate) const LOADS: [Load; 2] = [
    Load {
        name: "spinning",
        about: "woken by a thread that spins, through MSIs",
        arguments: &["--gap", "fixed:20us", "--host-wait", "spin"],
    },
    Load {
        name: "device",
        about: "woken by a thread that sleeps until the guest answers, through the IOAPIC, as by the \
                devices of a VMM",
        arguments: &["--gap", "fixed:15us", "--host-wait", "device", "--ioapic"],
    },
];

/// `CLOCK_MONOTONIC`, as the lab's stamps are.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// A stretch of the guest's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units stand at the end of names")]
pub(crate) struct Window {
    start_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
}

/// What the guest did in some windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trips {
    pub(crate) count: u64,
    pub(crate) mean_ns: f64,
    pub(crate) median_ns: f64,
    /// CPU time of the vCPU's thread for each round trip, one halt each.
    pub(crate) cpu_ns: f64,
}

/// The guest, as long as it runs.
pub(crate) struct Guest {
    child: Child,
    rounds: PathBuf,
    _folder: tempfile::TempDir,
}

impl Guest {
    /// Starts it, and waits until its vCPU's thread is there.
    pub(crate) fn start(programs: &Programs, load: Load, cap: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a folder for the guest")?;
        let rounds = folder.path().join("rounds.csv");
        let child = Command::new(&programs.lab)
            .args([
                "run",
                "pingpong",
                "--json",
                "--duration",
                "1h",
                "--cap",
                cap,
            ])
            .args(["--pin", "1", "--host-pin", "0", "--rounds-out"])
            .arg(&rounds)
            .args(load.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("start haltwise-lab")?;
        let guest = Self {
            child,
            rounds,
            _folder: folder,
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while guest.vcpu_thread().is_err() {
            if Instant::now() > deadline {
                bail!("the lab's vCPU does not run");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(guest)
    }

    fn vcpu_thread(&self) -> Result<PathBuf> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        for task in fs::read_dir(&tasks).context("look for the vCPU's thread")? {
            let path = task.context("look for the vCPU's thread")?.path();
            let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
            if comm.contains("vcpu") {
                return Ok(path);
            }
        }
        bail!("the lab has no thread of a vCPU")
    }

    fn cpu_ns(&self) -> Result<u64> {
        let path = self.vcpu_thread()?.join("schedstat");
        let text = fs::read_to_string(&path).context("read CPU time of the vCPU")?;
        let first = text.split_whitespace().next().unwrap_or_default();
        first.parse().context("read CPU time of the vCPU")
    }

    /// Lets it run for so long.
    pub(crate) fn watch(&self, length: Duration) -> Result<Window> {
        let (start_ns, cpu_before) = (now_ns(), self.cpu_ns()?);
        std::thread::sleep(length);
        let (end_ns, cpu_after) = (now_ns(), self.cpu_ns()?);
        Ok(Window {
            start_ns,
            end_ns,
            cpu_ns: cpu_after.saturating_sub(cpu_before),
        })
    }

    /// Ends it: all its round trips.
    pub(crate) fn end(mut self) -> Result<Rounds> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("name the guest's process")?;
        kill_process(pid, Signal::INT).context("end the guest")?;
        let status = self.child.wait().context("wait for the guest")?;
        if !status.success() {
            bail!("the lab ended with {status}");
        }
        let text = fs::read_to_string(&self.rounds).context("read the lab's rounds")?;
        Rounds::parse(&text)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Round trips in order of time: when the signal was sent, and how long the answer took.
pub(crate) struct Rounds(Vec<(u64, u64)>);

impl Rounds {
    fn parse(csv: &str) -> Result<Self> {
        let mut lines = csv.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name| {
            let at = head.iter().position(|cell| *cell == name);
            at.with_context(|| format!("find column {name} of the lab's rounds"))
        };
        let (signal, answer) = (column("signal_ns")?, column("answer_ns")?);
        let trip = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            let at = |column: usize| cells.get(column)?.parse::<u64>().ok();
            Some((at(signal)?, at(answer)?.checked_sub(at(signal)?)?))
        };
        let trips: Option<Vec<_>> = lines.map(trip).collect();
        Ok(Self(trips.context("read the lab's rounds")?))
    }

    /// The round trips that began and ended within the windows; `None` if there is none.
    pub(crate) fn within(&self, windows: &[Window]) -> Option<Trips> {
        let mut trips = Vec::new();
        for window in windows {
            let from = self
                .0
                .partition_point(|(signal, _)| *signal < window.start_ns);
            let after = self.0.get(from..).unwrap_or_default().iter();
            let inside = after.take_while(|(signal, trip)| signal + trip <= window.end_ns);
            trips.extend(inside.map(|(_, trip)| *trip as f64));
        }
        trips.sort_by(f64::total_cmp);
        let count = trips.len();
        let median_ns = haltwise_core::stats::percentile_of_sorted(&trips, 0.5)?;
        let cpu_ns: u64 = windows.iter().map(|window| window.cpu_ns).sum();
        Some(Trips {
            count: count as u64,
            mean_ns: trips.iter().sum::<f64>() / count as f64,
            median_ns,
            cpu_ns: cpu_ns as f64 / count as f64,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn round_trips_belong_to_the_window_they_lie_in() {
        let csv = "vm,vcpu,round,gap_ns,signal_ns,woke_ns,answer_ns\n\
                   0,0,0,1,100,,110\n0,0,1,1,200,,230\n0,0,2,1,300,,390\n0,0,3,1,400,,404\n";
        let rounds = Rounds::parse(csv).unwrap();
        let window = |start_ns, end_ns| Window {
            start_ns,
            end_ns,
            cpu_ns: 50,
        };
        let trips = rounds.within(&[window(150, 350)]).unwrap();
        // The third is answered after the window's end.
        assert_eq!((trips.count, trips.mean_ns, trips.cpu_ns), (1, 30.0, 50.0));
        let both = rounds.within(&[window(0, 150), window(380, 500)]).unwrap();
        assert_eq!((both.count, both.mean_ns, both.cpu_ns), (2, 7.0, 50.0));
        assert_eq!(rounds.within(&[window(500, 600)]), None);
        assert!(Rounds::parse("a,b\n1,2\n").is_err());
    }
}
