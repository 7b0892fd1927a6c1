//! `cargo xtask kernels`: haltwise and the lab inside Debian's stock kernels, under emulation.
//!
//! What cannot run here is skipped with its reason; what runs and fails, fails.

pub(crate) mod deb;
mod emulator;
mod exits;
mod guest;
mod initramfs;
mod knob;
mod linux_guest;
mod modules;
mod profile;
mod qemu;
mod rule;
mod scenario;
mod units;
mod witness;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::{repo, say, tool};
use deb::{Kernel, SERIES, Series};
use guest::{Guest, GuestRun};
use linux_guest::piloted;
use witness::Found;

/// What `cargo xtask kernels` takes.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Args {
    /// Only this kernel: 6.1 or 6.12 [default: all]
    #[arg(long, value_name = "SERIES")]
    kernel: Option<String>,
    /// Fetch the kernels and the emulator again, in case that Debian has newer ones
    #[arg(long)]
    refresh: bool,
    /// Run this script of the guest's shell instead of the checks, and print what it says
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Check the rule of halt polling only, with five thousand halts of each setting
    #[arg(long)]
    thorough: bool,
    /// Leave out checks with a boot of their own that stand on nothing in which kernels differ
    #[arg(long)]
    brief: bool,
    /// Only this part of the checks [default: all]
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Only the checks with a stock QEMU and a stock Linux guest; with --thorough in all kernels, with rules of `explain`,
    /// and with the pilot
    #[arg(long, conflicts_with = "part")]
    linux_guest: bool,
    /// Run only checks whose name contains this text
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// A part of the checks, with boots of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// What the lab, KVM's counters and the recorder say of the same halts
    Witnesses,
    /// KVM's rule under a grid of settings
    Rule,
    /// Settings that are applied and undone, exits, and our units under systemd
    Rest,
    /// A stock Linux guest under QEMU, against KVM's own counters; its ceiling
    LinuxGuest,
}

/// A guest that takes longer is stuck: on a busy machine of two cores the checks end far earlier.
/// It says itself what it is doing some time before.
const LIMIT: Duration = Duration::from_secs(150);

/// Runs the checks, or the caller's script, in each kernel.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !has_tools(args.refresh) {
        return Ok(());
    }
    let wanted = |series: &&Series| args.kernel.as_ref().is_none_or(|name| *name == series.name);
    let mut chosen: Vec<_> = SERIES.iter().filter(wanted).collect();
    if args.linux_guest && !args.thorough {
        chosen.truncate(1);
    }
    if chosen.is_empty() {
        let known = SERIES.map(|series| series.name).join(" or ");
        bail!(
            "no kernel `{}`; there is {known}",
            args.kernel.as_deref().unwrap_or_default()
        );
    }
    build()?;
    let binaries = Binaries::beside_us()?;
    let cache = cache();
    let mut failed = Vec::new();
    for series in chosen {
        let kernel = match deb::fetch(*series, &cache, args.refresh) {
            Ok(kernel) => kernel,
            Err(error) => {
                say::skipped(&format!("kernel {}: {error:#}", series.name));
                continue;
            }
        };
        say::step(&format!("kernel {kernel}"));
        let work = cache.join(format!("{}.run", series.name));
        std::fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
        let done = match &args.script {
            Some(script) => plain(&kernel, &binaries, script, &work),
            None => check(&kernel, &binaries, args, &work),
        };
        if let Err(error) = done {
            say::note(&format!("FAILED: {error:#}"));
            failed.push(series.name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("failed in kernel {}", failed.join(" and "))
}

/// The kernels, by what people call them.
#[cfg(test)]
pub(crate) fn names() -> [&'static str; SERIES.len()] {
    SERIES.map(|series| series.name)
}

/// Runs the checks of one kernel.
fn check(kernel: &Kernel, binaries: &Binaries, args: &Args, work: &Path) -> Result<()> {
    let filter = args.filter.as_deref();
    let wanted =
        |names: &[&str]| filter.is_none_or(|text| names.iter().any(|it| it.contains(text)));
    let only = args.linux_guest.then_some(Part::LinuxGuest).or(args.part);
    let is_in = |part| only.is_none_or(|only| only == part);
    let witnesses = is_in(Part::Witnesses) && wanted(&scenario::names());
    let rules = is_in(Part::Rule) && wanted(&rule::names());
    let knobs = is_in(Part::Rest) && wanted(&[knob::NAME]);
    let mut own = Vec::from(exits::OWN);
    own.push((units::NAME, units::run));
    own.retain(|(name, _)| !args.brief && is_in(Part::Rest) && wanted(&[name]));
    let linux = is_in(Part::LinuxGuest) && wanted(&[linux_guest::NAME]);
    let piloted = args.linux_guest && args.thorough && wanted(&[piloted::NAME]);
    if !witnesses && !rules && !knobs && own.is_empty() && !linux && !piloted {
        bail!("no check is named like `{}`", filter.unwrap_or_default());
    }
    let depth = if args.thorough {
        rule::Depth::Thorough
    } else {
        rule::Depth::Quick
    };
    let agree = if witnesses && !args.thorough && has_time("witnesses") {
        scenario::run(kernel, binaries, filter, work)
    } else {
        Ok(())
    };
    if knobs && !args.thorough && has_time(knob::NAME) {
        knob::run(kernel, binaries, work)?;
    }
    for (name, run) in own.iter().filter(|_| !args.thorough) {
        if has_time(name) {
            run(kernel, binaries, work)?;
        }
    }
    // Of the deep checks of the rule it is no part.
    let with_linux = linux && (!args.thorough || args.linux_guest);
    let recorded = if with_linux && has_time(linux_guest::NAME) {
        linux_guest::run(kernel, binaries, work, depth)
    } else {
        Ok(())
    };
    if piloted {
        piloted::run(kernel, binaries, work)?;
    }
    recorded?;
    if rules {
        rule::run(kernel, binaries, filter, depth, work)?;
    }
    agree
}

/// Until when a boot may begin, in seconds since 1970: set by `cargo xtask test`.
pub(crate) const UNTIL: &str = "HALTWISE_KERNELS_UNTIL";

/// Whether a check may still begin; says so if not. An emulator that spoils boots can take minutes.
fn has_time(check: &str) -> bool {
    let late = is_time_over();
    if late {
        say::skipped(&format!(
            "{check}: the time of the tests is nearly over; run `cargo xtask kernels`"
        ));
    }
    !late
}

/// Whether no boot may begin any more.
fn is_time_over() -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    is_late(
        std::env::var(UNTIL).ok().as_deref(),
        now.unwrap_or_default(),
    )
}

/// Whether `now`, since 1970, is past what [`UNTIL`] says. Who says nothing has all the time there is.
fn is_late(until: Option<&str>, now: Duration) -> bool {
    let until = until.and_then(|text| text.parse().ok());
    until.is_some_and(|until| now > Duration::from_secs(until))
}

/// Says what a comparison found; gives the number of disagreements.
fn tell(check: &str, found: &Found) -> usize {
    say::note(&format!("{check:<13} {}", found.summary));
    for text in &found.disagreements {
        say::note(&format!("{check:<13} DISAGREES: {text}"));
    }
    found.disagreements.len()
}

/// Builds what goes into a guest.
pub(crate) fn build() -> Result<()> {
    let packages = [
        "-p",
        "haltwise",
        "-p",
        "haltwise-lab",
        "-p",
        "haltwise-capture",
        "-p",
        "haltwise-exec",
    ];
    let args = ["build", "--quiet", "--bins"].into_iter().chain(packages);
    tool::run(tool::cargo(&repo::root()).args(args))?;
    let args = ["build", "--quiet", "-p", "haltwise-preload"];
    tool::run(tool::cargo(&repo::root()).args(args))?;
    let args = ["build", "--quiet", "-p", "xtask", "--bin", "guest-tool"];
    tool::run(tool::cargo(&repo::root()).args(args))
}

/// Runs a script in the newest kernel that can be had; `None`, and the reasons printed, if none can.
pub(crate) fn run_in_newest(binaries: &Binaries, script: &str) -> Result<Option<GuestRun>> {
    if !has_tools(false) {
        return Ok(None);
    }
    let cache = cache();
    for series in SERIES.iter().rev() {
        match deb::fetch(*series, &cache, false) {
            Ok(kernel) => {
                say::step(&format!("kernel {kernel}"));
                let work = cache.join(format!("{}.run", series.name));
                std::fs::create_dir_all(&work)
                    .with_context(|| format!("create {}", work.display()))?;
                let guest = binaries.guest(&kernel)?.script(script);
                return guest.run_patiently(&work, LIMIT).map(Some);
            }
            Err(error) => say::skipped(&format!("kernel {}: {error:#}", series.name)),
        }
    }
    Ok(None)
}

/// Where kernels and the emulator are kept, and what their boots leave.
fn cache() -> PathBuf {
    repo::target_dir().join("kernels")
}

/// Whether a guest can be booted here; says what is missing.
fn has_tools(refresh: bool) -> bool {
    let tools = || -> Result<()> {
        tool::find("busybox").context("busybox is not installed; run tools/setup")?;
        emulator::find(&cache(), refresh).map(drop)
    };
    let there = tools();
    if let Err(error) = &there {
        say::skipped(&format!("kernels: {error:#}"));
    }
    there.is_ok()
}

/// Our programs, as they were built together with us.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) haltwise: PathBuf,
    pub(crate) lab: PathBuf,
    pub(crate) guest_tool: PathBuf,
    /// Prints the halts of a capture; only the checks that compare captures need it.
    pub(crate) halts: PathBuf,
    /// Start a stock QEMU whose VM can have a ceiling; only the checks with a Linux guest need them.
    pub(crate) exec: PathBuf,
    pub(crate) preloaded: PathBuf,
}

impl Binaries {
    /// Those that lie beside this program.
    pub(crate) fn beside_us() -> Result<Self> {
        let own = std::env::current_exe().context("find our own program")?;
        // A test's program lies one folder deeper.
        let dir = own
            .ancestors()
            .skip(1)
            .find(|dir| dir.join("haltwise-lab").is_file());
        Self::of(dir.context("haltwise-lab is not built: run cargo build --workspace")?)
    }

    /// Those of a folder.
    pub(crate) fn of(dir: &Path) -> Result<Self> {
        let [haltwise, lab, guest_tool] =
            ["haltwise", "haltwise-lab", "guest-tool"].map(|name| dir.join(name));
        for program in [&haltwise, &lab, &guest_tool] {
            if !program.is_file() {
                bail!(
                    "{} is not built: run cargo build --workspace",
                    program.display()
                );
            }
        }
        Ok(Self {
            haltwise,
            lab,
            guest_tool,
            halts: dir.join("capture-halts"),
            exec: dir.join("haltwise-exec"),
            preloaded: dir.join("libhaltwise_preload.so"),
        })
    }

    /// A guest that has both.
    fn guest(&self, kernel: &Kernel) -> Result<Guest> {
        Guest::new(emulator::find(&cache(), false)?, kernel.clone())?
            .file(&self.haltwise, "bin/haltwise")?
            .file(&self.lab, "bin/haltwise-lab")
    }
}

/// Runs any script inside: for looking at a kernel by hand.
fn plain(kernel: &Kernel, binaries: &Binaries, script: &Path, work: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(script).with_context(|| format!("read {}", script.display()))?;
    let run = binaries
        .guest(kernel)?
        .script(&text)
        .run_patiently(work, LIMIT)?;
    for line in run.console.lines() {
        say::note(line);
    }
    say::note(&format!(
        "results in {}, {}",
        run.out_dir.display(),
        say::seconds(run.elapsed)
    ));
    if run.exit_code != 0 {
        bail!("the script returned {}", run.exit_code);
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_boot_begins_until_the_very_second() {
        let at = Duration::from_secs;
        assert!(!is_late(Some("100"), at(99)));
        assert!(!is_late(Some("100"), at(100)));
        assert!(is_late(Some("100"), at(101)));
        assert!(!is_late(None, at(101)), "by hand there is no hurry");
        assert!(!is_late(Some("soon"), at(101)));
    }
}
