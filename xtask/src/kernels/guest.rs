//! A guest with a stock kernel, emulated by QEMU: files go in, a script runs, its results come out.
//!
//! Emulation needs no /dev/kvm here, yet gives the guest a CPU with SVM, so that the stock
//! kernel's own `kvm_amd` runs virtual machines inside. Times are stretched; rules are the kernel's.
//! The input is an initramfs; the output is a tar archive on a raw disk.

use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::deb::Kernel;
use super::emulator::Emulator;
use super::initramfs::Initramfs;
use super::qemu::{self, Ended};

#[derive(Debug)]
pub(crate) struct Guest {
    emulator: Emulator,
    kernel: Kernel,
    pub(crate) root: Initramfs,
    pub(crate) modules: Vec<&'static str>,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u32,
}

#[derive(Debug)]
pub(crate) struct Booted {
    /// All that the kernel, init and the scripts wrote to the console.
    pub(crate) console: String,
    pub(crate) ended: Ended,
    /// Results of each script that came to its end, in order.
    pub(crate) left: Vec<Left>,
    pub(crate) elapsed: Duration,
}

/// Results of a script that came to its end.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) name: String,
    pub(crate) exit_code: i32,
    pub(crate) out_dir: PathBuf,
    pub(crate) cpus: u32,
}

/// Where on the guest's disk the results of each script begin, one after the other: a boot that ends early leaves those
/// of the scripts before.
const RESULTS_MIB: u64 = 256;

impl Guest {
    pub(crate) fn new(emulator: Emulator, kernel: Kernel) -> Result<Self> {
        let root = Initramfs::new(include_str!("init.sh"))?;
        root.file("finish", include_str!("finish.sh"))?;
        root.file("lab.sh", include_str!("lab.sh"))?;
        Ok(Self {
            emulator,
            kernel,
            root,
            modules: vec!["virtio_pci", "virtio_blk", "kvm_amd"],
            cpus: 2,
            memory_mib: 1024,
        })
    }

    /// Boots, runs scripts one after the other, each with a name and an empty folder /out, and fetches into `work` what those
    /// left that came to their end. `limit` is what all of it takes at the most on a machine that does nothing else.
    ///
    /// # Errors
    /// Where QEMU does not start or fails, or results cannot be fetched.
    pub(crate) fn boot(
        &mut self,
        scripts: &[(&str, &str)],
        work: &Path,
        limit: Duration,
    ) -> Result<Booted> {
        let mut order = String::new();
        for (name, script) in scripts {
            self.root.file(&format!("scripts/{name}"), script)?;
            order.push_str(name);
            order.push('\n');
        }
        self.root.file("order", order)?;
        self.root.modules(&self.kernel, &self.modules)?;
        // Some time before its end, so that a guest that hangs can say where.
        let patience = limit.as_secs() * 4 / 5;
        self.root.file("patience", format!("{patience}\n"))?;
        std::fs::create_dir_all(work).with_context(|| format!("create {}", work.display()))?;
        self.root.archive(&work.join("initramfs"))?;
        let disk = std::fs::File::create(work.join("disk")).context("create the disk")?;
        disk.set_len((RESULTS_MIB * scripts.len() as u64) << 20)
            .context("size the disk")?;
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
        let mut left = Vec::new();
        for (nth, (name, _)) in (0..).zip(scripts) {
            if is_on_disk(&console, name) {
                let out_dir = work.join("out").join(name);
                let exit_code = fetch(&work.join("disk"), nth, &out_dir)?;
                left.push(Left {
                    name: (*name).to_owned(),
                    exit_code,
                    out_dir,
                    cpus: self.cpus,
                });
            }
        }
        Ok(Booted {
            console,
            ended,
            left,
            elapsed,
        })
    }
}

/// Whether the results of a script are on the disk, as `finish.sh` says.
fn is_on_disk(console: &str, script: &str) -> bool {
    let said = format!("init: {script} is on the disk");
    console.lines().any(|line| line.ends_with(&said))
}

/// Fetches what the script of this number left in /out; what it returned.
fn fetch(disk: &Path, nth: u64, out_dir: &Path) -> Result<i32> {
    if out_dir.exists() {
        std::fs::remove_dir_all(out_dir).with_context(|| format!("empty {}", out_dir.display()))?;
    }
    std::fs::create_dir_all(out_dir).with_context(|| format!("create {}", out_dir.display()))?;
    let mut archive = std::fs::File::open(disk).context("open the disk")?;
    let start = (nth * RESULTS_MIB) << 20;
    archive
        .seek(std::io::SeekFrom::Start(start))
        .context("find the results on the disk")?;
    let status = Command::new("tar")
        .args(["-x", "-C"])
        .arg(out_dir)
        .stdin(archive)
        .status()
        .context("start tar")?;
    if !status.success() {
        bail!("no results in {}: tar ended with {status}", disk.display());
    }
    let code = std::fs::read_to_string(out_dir.join("exit_code")).context("read exit_code")?;
    code.trim()
        .parse()
        .with_context(|| format!("exit code `{code}`"))
}

/// The console's text without the firmware's control characters.
pub(crate) fn console(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|char| *char == '\n' || *char == '\t' || !char.is_control())
        .collect()
}
