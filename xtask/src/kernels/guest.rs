//! A guest with a stock kernel, emulated by QEMU: files go in, a script runs, its results come out.
//!
//! Emulation needs no /dev/kvm here, yet gives the guest a CPU with SVM, so that the stock
//! kernel's own `kvm_amd` runs virtual machines inside. Times are stretched; rules are the kernel's.
//! What goes in is an initramfs; what comes out is a tar archive on a raw disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::deb::Kernel;
use super::emulator::Emulator;
use super::initramfs::Initramfs;
use super::qemu::{self, Ended};
use crate::{say, tool};

/// A guest that is being prepared.
#[derive(Debug)]
pub(crate) struct Guest {
    emulator: Emulator,
    kernel: Kernel,
    root: Initramfs,
    modules: Vec<&'static str>,
    cpus: u32,
    /// How many of them once [`TRIES_AS_IS`] boots were spoilt.
    cpus_then: u32,
    memory_mib: u32,
    /// What the console says before the first of our programs runs; where none is given, they run from the start.
    begins: Option<&'static str>,
}

/// A guest that has ended by itself, on a kernel that never complained.
#[derive(Debug)]
pub(crate) struct GuestRun {
    /// All that the kernel, init and the script wrote to the console.
    pub(crate) console: String,
    /// What the script returned.
    pub(crate) exit_code: i32,
    /// The folder with what the script left in /out.
    pub(crate) out_dir: PathBuf,
    /// From QEMU's start to its end.
    pub(crate) elapsed: Duration,
    /// CPUs that it had.
    pub(crate) cpus: u32,
}

/// A boot, seen from its end.
#[derive(Debug)]
enum Boot {
    Whole(GuestRun),
    /// The emulator is at fault, and this is what was seen.
    Spoilt(String),
}

/// What init says last.
const RESULTS: &str = "init: results are on the disk";

/// How often a boot that the emulator spoilt is tried in all. Of the boots of a Linux guest on 6.12, five of seven reset themselves
/// within their first 25 s on the machine where this was counted; all others passed.
const TRIES: usize = 5;

/// Of these with all CPUs: where there is one, less can be judged.
const TRIES_AS_IS: usize = 3;

/// What a script returns where a VM inside stands still, whatever is tried, or its guest panics.
pub(crate) const STOOD_STILL: i32 = 75;

impl Guest {
    /// A guest of two CPUs with busybox and with KVM's modules.
    pub(crate) fn new(emulator: Emulator, kernel: Kernel) -> Result<Self> {
        let busybox = tool::find("busybox").context("busybox is not installed")?;
        let mut root = Initramfs::default();
        root.program("bin/busybox", &busybox)?;
        root.file("init", include_bytes!("init.sh").to_vec());
        root.file("finish", include_bytes!("finish.sh").to_vec());
        Ok(Self {
            emulator,
            kernel,
            root,
            modules: vec!["virtio_pci", "virtio_blk", "kvm_amd"],
            cpus: 2,
            cpus_then: 2,
            memory_mib: 1024,
            begins: None,
        })
    }

    /// Adds a program with the libraries that it needs, or any other file.
    pub(crate) fn file(mut self, source: &Path, path: &str) -> Result<Self> {
        self.root.program(path, source)?;
        Ok(self)
    }

    /// Adds bytes as a file.
    pub(crate) fn bytes(mut self, path: &str, bytes: Vec<u8>) -> Self {
        self.root.file(path, bytes);
        self
    }

    /// Has more modules loaded.
    pub(crate) fn modules(mut self, names: &[&'static str]) -> Self {
        self.modules.extend(names);
        self
    }

    /// Gives it as much memory.
    pub(crate) fn memory(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Gives it so many CPUs.
    pub(crate) fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Gives it one CPU once [`TRIES_AS_IS`] boots were spoilt. QEMU 10.0 at times delivers an interrupt that one emulated CPU sent to another
    /// at the instruction after VMRUN, where GS is still the guest's: the host faults until it resets itself. One CPU sends
    /// none; the same takes half as long again.
    pub(crate) fn with_one_cpu_if_spoilt(mut self) -> Self {
        self.cpus_then = 1;
        self
    }

    /// Says what is on the console before programs of ours begin: faults of the kernel before it are the emulator's.
    pub(crate) fn begins(mut self, sign: &'static str) -> Self {
        self.begins = Some(sign);
        self
    }

    /// Sets what runs inside. Its folder is /out, from which everything is brought back.
    pub(crate) fn script(mut self, text: &str) -> Self {
        self.root.file("script", text.as_bytes().to_vec());
        self
    }

    /// Boots, waits for the end, fetches the results into `work`, and checks that the kernel has
    /// found no fault in itself. A boot that the emulator spoilt is repeated.
    ///
    /// # Errors
    /// Where QEMU does not start, or the guest does not end in time, leaves no results, or its
    /// kernel reports an oops.
    pub(crate) fn run_patiently(mut self, work: &Path, limit: Duration) -> Result<GuestRun> {
        self.root.modules(&self.kernel, &self.modules)?;
        // Some time before its end, so that a guest that hangs can say where.
        let patience = limit.as_secs() * 4 / 5;
        self.root
            .file("patience", format!("{patience}\n").into_bytes());
        std::fs::write(work.join("initramfs"), self.root.archive()?).context("write initramfs")?;
        let mut spoilt = Vec::new();
        while spoilt.len() < TRIES && (spoilt.is_empty() || !super::is_time_over()) {
            match self.run_once(work, limit)? {
                Boot::Whole(run) => return Ok(run),
                Boot::Spoilt(why) => {
                    say::note(&format!("the emulator spoilt this boot: {why}"));
                    spoilt.push(why);
                }
            }
            if spoilt.len() >= TRIES_AS_IS {
                self.cpus = self.cpus_then;
            }
        }
        let last = spoilt.last().map_or("none", String::as_str);
        bail!("{} boots were spoilt, the last: {last}", spoilt.len())
    }

    fn run_once(&self, work: &Path, limit: Duration) -> Result<Boot> {
        let out_dir = work.join("out");
        if out_dir.exists() {
            std::fs::remove_dir_all(&out_dir)
                .with_context(|| format!("empty {}", out_dir.display()))?;
        }
        std::fs::create_dir_all(&out_dir)
            .with_context(|| format!("create {}", out_dir.display()))?;
        let disk = std::fs::File::create(work.join("disk")).context("create the disk")?;
        disk.set_len(512 << 20).context("size the disk")?;

        let started = Instant::now();
        let machine = qemu::Machine {
            emulator: &self.emulator,
            kernel: &self.kernel.image,
            cpus: self.cpus,
            memory_mib: self.memory_mib,
        };
        let ended = qemu::boot(work, &machine, limit)?;
        let elapsed = started.elapsed();
        let console = console(&work.join("console"));
        let is_ours_begun = self.begins.is_none_or(|sign| console.contains(sign));
        let spoilt = |seen: String| Ok(Boot::Spoilt(seen));
        if let Some(line) = trouble(&console) {
            if !is_ours_begun {
                return spoilt(format!("the kernel reports `{line}`"));
            }
            bail!(
                "the kernel reports `{line}`; the console ends:\n{}",
                tail(&console, 60)
            );
        }
        match ended {
            Ended::ByItself => {}
            Ended::Stalled => return spoilt("one of its CPUs stands still".to_owned()),
            Ended::Frozen(place) => return spoilt(format!("it stands still, {place}")),
            Ended::Late => bail!(
                "not at its end after {} s; the console ends:\n{}",
                limit.as_secs(),
                tail(&console, 60)
            ),
        }
        if !console.contains(RESULTS) {
            // A machine that resets itself: neither init nor the kernel ends it before.
            return spoilt("it ended before its results were on the disk".to_owned());
        }
        let exit_code = fetch(work, &out_dir)
            .with_context(|| format!("the console ends:\n{}", tail(&console, 60)))?;
        if exit_code == STOOD_STILL {
            return spoilt("a VM inside it stands still, or its guest panics".to_owned());
        }
        Ok(Boot::Whole(GuestRun {
            console,
            exit_code,
            out_dir,
            elapsed,
            cpus: self.cpus,
        }))
    }
}

/// Fetches what the script left in /out; what it returned.
fn fetch(work: &Path, out_dir: &Path) -> Result<i32> {
    tool::ask(
        Command::new("tar")
            .current_dir(work)
            .args(["-x", "-f", "disk", "-C", "out"]),
    )
    .context("no results")?;
    let log = std::fs::read_to_string(out_dir.join("dmesg")).context("read dmesg")?;
    if let Some(line) = trouble(&log) {
        bail!(
            "the kernel reports `{line}`; see {}",
            out_dir.join("dmesg").display()
        );
    }
    let code = std::fs::read_to_string(out_dir.join("exit_code")).context("read exit_code")?;
    code.trim()
        .parse()
        .with_context(|| format!("exit code `{code}`"))
}

/// The console's text without the firmware's control characters.
fn console(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|char| *char == '\n' || *char == '\t' || !char.is_control())
        .collect()
}

/// The last lines of a text.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The first line in which a kernel says that something is wrong with it. Stalls and late timers
/// are not among them: under emulation on a busy machine they say nothing about the kernel.
pub(crate) fn trouble(log: &str) -> Option<&str> {
    const SIGNS: [&str; 7] = [
        "Oops:",
        "BUG:",
        "Kernel panic",
        "general protection fault",
        "kernel NULL pointer",
        "unable to handle page fault",
        "WARNING: CPU:",
    ];
    let stall = |line: &str| line.contains("soft lockup") || line.contains("workqueue lockup");
    log.lines()
        .find(|line| SIGNS.iter().any(|sign| line.contains(sign)) && !stall(line))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_oops_is_trouble_and_a_stall_is_not() {
        let oops = "[ 1.0] fine\n[ 2.0] BUG: kernel NULL pointer dereference\n[ 2.1] Oops: 0002";
        assert_eq!(
            trouble(oops),
            Some("[ 2.0] BUG: kernel NULL pointer dereference")
        );
        assert_eq!(
            trouble("Kernel panic - not syncing: no init"),
            trouble("Kernel panic - not syncing: no init\n")
        );
        assert!(trouble("Kernel panic - not syncing").is_some());
        assert_eq!(
            trouble("watchdog: BUG: soft lockup - CPU#0 stuck for 22s!"),
            None
        );
        assert_eq!(
            trouble("kvm: SMP vm created on host with unstable TSC"),
            None
        );
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
