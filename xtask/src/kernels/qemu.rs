//! QEMU as a process: started, watched, ended.
//!
//! A guest writes a pulse to its second serial port. Where the pulse stops, the whole guest has
//! stopped, which no script can bring about; where only the end does not come, a program hangs.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::emulator::Emulator;
use crate::say;

/// How long a pulse may stay away. It comes every two seconds once the guest has booted.
const PULSE_PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    ByItself,
    Frozen,
    /// One of its CPUs stood still for so long that the others said so twice.
    Stalled,
    /// It lived, but did not come to its end in time.
    Late,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) kernel: &'a Path,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u32,
}

/// Boots a kernel with the files `initramfs` and `disk` of `work`, and waits for its end. Leaves
/// `console`, `pulse`, `resets` and `qemu` (QEMU's complaints) there.
pub(crate) fn boot(work: &Path, machine: &Machine<'_>, limit: Duration) -> Result<Ended> {
    let create = |name: &str| {
        let path = work.join(name);
        File::create(&path).with_context(|| format!("create {}", path.display()))
    };
    // Both are read before QEMU has emptied them: what an earlier boot left must not be there.
    create("pulse")?;
    create("console")?;
    let mut child = machine
        .emulator
        .command()
        .current_dir(work)
        .args(["-accel", "tcg,thread=multi"])
        .args(["-cpu", "max"])
        .args(["-m", &machine.memory_mib.to_string()])
        .args(["-smp", &machine.cpus.to_string()])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        .args(["-serial", "file:console", "-serial", "file:pulse"])
        // Log the state of a CPU that resets itself.
        .args(["-d", "cpu_reset", "-D", "resets"])
        .args(["-drive", "file=disk,if=virtio,format=raw,cache=unsafe"])
        .args(["-initrd", "initramfs", "-kernel"])
        .arg(machine.kernel)
        // The emulated TSCs are one clock; the kernel's own check of that is fooled by load and
        // would fall back to a clock that takes 20 us to read here. Without address randomisation
        // what a CPU held says something.
        .args([
            "-append",
            "console=ttyS0 quiet panic=-1 tsc=reliable nokaslr",
        ])
        .stdin(Stdio::null())
        .stderr(create("qemu")?)
        .spawn()
        .context("start QEMU")?;
    let ended = watch(&mut child, work, limit);
    // After its own end there is nothing to kill; the result is the same.
    let _ = child.kill();
    let _ = child.wait();
    let complaints = std::fs::read_to_string(work.join("qemu")).unwrap_or_default();
    if !complaints.trim().is_empty() {
        // QEMU names CPU features that it cannot emulate; only its end says whether it failed.
        say::note(&format!("qemu: {}", complaints.trim().replace('\n', "; ")));
    }
    ended
}

/// On a machine that does other things as well, the guest has as much longer: so many times the limit at the most.
const SLOWEST: u32 = 4;

/// Whether a guest has had its time: as much of the CPU as within `limit` on a machine that does nothing else, or so much
/// that even a busy machine would have done it.
fn is_late(elapsed: Duration, cpu: Duration, limit: Duration) -> bool {
    elapsed > limit * SLOWEST || (elapsed > limit && cpu > limit)
}

fn cpu_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may have spaces; user and system time are the 12th and 13th field after it, in ticks of 10 ms.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Waits until the guest ends, freezes, or its time is up.
fn watch(child: &mut Child, work: &Path, limit: Duration) -> Result<Ended> {
    let started = Instant::now();
    let mut last = (started, 0);
    loop {
        if let Some(status) = child.try_wait().context("wait for qemu")? {
            if status.success() {
                return Ok(Ended::ByItself);
            }
            bail!("qemu ended with {status}");
        }
        let now = Instant::now();
        let pulse = std::fs::metadata(work.join("pulse")).map_or(0, |file| file.len());
        if pulse != last.1 {
            last = (now, pulse);
        }
        let console = std::fs::read(work.join("console")).unwrap_or_default();
        if stalls(&String::from_utf8_lossy(&console)) >= STALLS {
            return Ok(Ended::Stalled);
        }
        if now - last.0 > PULSE_PATIENCE {
            return Ok(Ended::Frozen);
        }
        if is_late(now - started, cpu_time(child.id()), limit) {
            return Ok(Ended::Late);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Times that RCU finds a CPU standing still, 21 s for the first and 63 s between the others
/// (`rcu_cpu_stall_timeout`), after which the emulator is taken to have lost it. Our programs cannot
/// hold a CPU with preemption off: those of the kernel are verified, all others are preempted.
const STALLS: usize = 2;

/// How often a kernel has said that a CPU stands still.
fn stalls(console: &str) -> usize {
    let sign = "detected stalls on CPUs";
    console.lines().filter(|line| line.contains(sign)).count()
}

#[cfg(test)]
mod test {
    use std::process::Command;

    use super::*;

    fn watched(script: &str, console: &str, limit: Duration) -> Result<Ended> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("console"), console).unwrap();
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let ended = watch(&mut child, dir.path(), limit);
        let _ = child.kill();
        child.wait().unwrap();
        ended
    }

    #[test]
    fn a_guest_ends_or_fails_or_is_late_or_has_a_cpu_that_stands_still() {
        let minute = Duration::from_mins(1);
        assert_eq!(watched("true", "", minute).unwrap(), Ended::ByItself);
        let error = watched("exit 3", "", minute).expect_err("it failed");
        assert!(error.to_string().contains('3'), "{error}");
        let sleep = "exec sleep 60";
        assert_eq!(watched(sleep, "", Duration::ZERO).unwrap(), Ended::Late);
        let stall = "[ 37.6] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n\
                     [ 37.6] rcu: \t0-...0: (4 ticks this GP)\n";
        assert_eq!(stalls(stall), 1);
        let ended = watched(sleep, &stall.repeat(2), minute);
        assert_eq!(ended.unwrap(), Ended::Stalled);
    }

    #[test]
    fn a_guest_that_others_keep_from_the_cpu_has_more_time() {
        let minutes = Duration::from_mins;
        assert!(!is_late(minutes(4), minutes(9), minutes(5)));
        assert!(!is_late(minutes(14), minutes(4), minutes(5)));
        assert!(is_late(minutes(6), minutes(6), minutes(5)));
        assert!(is_late(minutes(21), minutes(1), minutes(5)));
        assert!(cpu_time(std::process::id()) < minutes(60));
    }
}
