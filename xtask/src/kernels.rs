//! `cargo xtask kernels`: haltwise and the lab inside Debian's stock kernels, under emulation.
//!
//! All checks must run; in the one boot that `make test` has, what cannot run is skipped with its reason.

mod check;
pub(crate) mod deb;
mod emulator;
mod exits;
mod guest;
mod initramfs;
mod knob;
mod linux_guest;
mod profile;
mod qemu;
mod reported;
mod rule;
mod scenario;
mod units;
mod witness;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{repo, say, test_run, tool};
use check::{Check, Tries};
use deb::{Kernel, SERIES, Series};
use guest::Guest;
use linux_guest::{piloted, stability};
use rule::Depth;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Only this kernel: 6.1 or 6.12 [default: all]
    #[arg(long, value_name = "SERIES", value_parser = SERIES.map(|(name, _)| name))]
    kernel: Option<String>,
    /// Fetch the kernels and the emulator again, in case that Debian has newer ones
    #[arg(long)]
    refresh: bool,
    /// Run this script of the guest's shell, with the programs beside this one, instead of the checks, and print what it says
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Check the rule with five thousand halts of each setting, a Linux guest with all its loads, and the pilot
    #[arg(long, conflicts_with = "gate")]
    thorough: bool,
    /// Run the one short boot of the newest kernel that `make test` has
    #[arg(long, conflicts_with = "kernel")]
    gate: bool,
    /// Run only checks whose name contains this text
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// Checks that share a boot, and the guest with what they need.
type Boot<'a> = (Guest, Vec<Check<'a>>);

#[derive(Debug)]
struct Inside<'a> {
    kernel: &'a Kernel,
    binaries: &'a Binaries,
}

impl Inside<'_> {
    /// A guest that has haltwise and the lab.
    fn guest(&self) -> Result<Guest> {
        let guest = Guest::new(emulator::find(&cache(), false)?, self.kernel.clone())?;
        guest
            .root
            .program("bin/haltwise", &self.binaries.haltwise)?;
        guest.root.program("bin/haltwise-lab", &self.binaries.lab)?;
        Ok(guest)
    }

    fn with<'a>(&self, checks: Vec<Check<'a>>) -> Result<Boot<'a>> {
        Ok((self.guest()?, checks))
    }
}

/// How long a boot takes that has one of our scripts, on a machine of two cores that does nothing else.
const LIMIT: Duration = Duration::from_secs(150);

/// Where all must run. Of the boots of a Linux guest on 6.12, five of seven reset themselves within their first 25 s on the
/// machine where this was counted; all others passed.
const ALL_MUST_RUN: Tries = Tries {
    as_is: 3,
    on_one_cpu: 2,
};

/// Where what the emulator spoils is left undone.
const TWICE: Tries = Tries {
    as_is: 1,
    on_one_cpu: 1,
};

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.script.is_none() {
        test_run::build()?;
    }
    if args.gate {
        return gate(&Binaries::beside_us()?, args.filter.as_deref());
    }
    let skipped = say::skips();
    if !has_tools(args.refresh) {
        bail!("nothing was run");
    }
    let wanted = |(name, _): &&Series| args.kernel.as_ref().is_none_or(|it| it == name);
    let binaries = Binaries::beside_us()?;
    let mut failed = Vec::new();
    for series in SERIES.iter().filter(wanted) {
        let done = deb::fetch(*series, &cache(), args.refresh).and_then(|kernel| {
            say::step(&format!("kernel {}", kernel.release));
            let inside = Inside {
                kernel: &kernel,
                binaries: &binaries,
            };
            match &args.script {
                Some(script) => plain(&inside, script),
                None => all(&inside, args),
            }
        });
        if let Err(error) = done {
            say::note(&format!("FAILED: {error:#}"));
            failed.push(series.0);
        }
    }
    if !failed.is_empty() {
        bail!("failed in kernel {}", failed.join(" and "));
    }
    let skipped = say::skips() - skipped;
    if skipped > 0 {
        bail!("{skipped} checks were skipped, and here all must run");
    }
    Ok(())
}

/// Makes a guest and its checks.
type Make<'a> = Box<dyn Fn() -> Result<Boot<'a>> + 'a>;

/// Runs all checks in one kernel, boot by boot. What the emulator spoils each time has failed.
fn all<'a>(inside: &'a Inside<'a>, args: &Args) -> Result<()> {
    let depth = if args.thorough {
        Depth::Thorough
    } else {
        Depth::Quick
    };
    let mut boots: Vec<Make<'a>> = vec![
        Box::new(move || linux_guest::boot(inside, depth)),
        Box::new(move || inside.with(rule::checks(inside.binaries, depth))),
    ];
    if args.thorough {
        boots.push(Box::new(|| piloted::boot(inside)));
        boots.push(Box::new(|| stability::boot(inside)));
    } else {
        boots.push(Box::new(|| inside.with(scenario::checks())));
        boots.push(Box::new(|| inside.with(vec![knob::check()])));
        boots.push(Box::new(|| exits::perf_stat::boot(inside)));
        boots.push(Box::new(|| inside.with(vec![exits::comings::check()])));
        boots.push(Box::new(|| inside.with(vec![exits::explained::check()])));
        boots.push(Box::new(|| units::boot(inside)));
    }
    let mut failed = Vec::new();
    let mut unmade = Vec::new();
    let mut ran = false;
    for make in boots {
        let (mut guest, mut checks) = match make() {
            Ok(boot) => boot,
            Err(error) => {
                unmade.push(format!("{error:#}"));
                continue;
            }
        };
        retain(&mut checks, args.filter.as_deref());
        let Some(first) = checks.first() else {
            continue;
        };
        ran = true;
        let work = work(inside.kernel, &first.name);
        match check::run(&mut guest, checks, ALL_MUST_RUN, &work) {
            Ok(None) => {}
            Ok(Some((undone, why))) => {
                let names: Vec<_> = undone.iter().map(|check| &*check.name).collect();
                failed.push(format!("{}: each boot was spoilt: {why}", names.join(", ")));
            }
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    // A boot that cannot be made has no names: with a filter it fails a run that found no check.
    if args.filter.is_none() || !ran {
        failed.append(&mut unmade);
    }
    if !ran && failed.is_empty() {
        bail!("no check is named like the filter");
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

fn retain(checks: &mut Vec<Check<'_>>, filter: Option<&str>) {
    checks.retain(|check| filter.is_none_or(|text| check.name.contains(text)));
}

/// Rules of the short boot: both sources, a VM's own ceiling, changing settings.
const GATE_RULES: [&str; 4] = [
    "rule-usual",
    "rule-tracepoints",
    "rule-cap-below",
    "rule-changed",
];
const GATE_RECORDINGS: [&str; 2] = ["full", "exits-counted"];

/// Runs the checks that matter most in one boot of the newest kernel. What the emulator spoils twice is skipped.
pub(crate) fn gate(binaries: &Binaries, filter: Option<&str>) -> Result<()> {
    let Some(kernel) = newest() else {
        return Ok(());
    };
    say::step(&format!("kernel {}", kernel.release));
    let inside = Inside {
        kernel: &kernel,
        binaries,
    };
    let mut checks = rule::checks(binaries, Depth::Quick);
    checks.retain(|check| GATE_RULES.contains(&&*check.name));
    let recordings = scenario::checks().into_iter();
    checks.extend(recordings.filter(|check| GATE_RECORDINGS.contains(&&*check.name)));
    checks.push(knob::check());
    let mut guest = match linux_guest::firmware() {
        Ok(_) => {
            let (guest, linux) = linux_guest::short_boot(&inside)?;
            checks.extend(linux);
            guest
        }
        Err(error) => {
            say::skipped(&format!("{}: {error:#}", linux_guest::NAME));
            inside.guest()?
        }
    };
    retain(&mut checks, filter);
    if checks.is_empty() {
        bail!("no check of the short boot is named like the filter");
    }
    let undone = check::run(&mut guest, checks, TWICE, &work(&kernel, "gate"))?;
    if let Some((undone, why)) = undone {
        for check in undone {
            say::skipped(&format!("the emulator spoilt {} twice: {why}", check.name));
        }
    }
    Ok(())
}

/// The newest kernel that can be had; says why others cannot.
fn newest() -> Option<Kernel> {
    if !has_tools(false) {
        return None;
    }
    let fetched = SERIES.iter().rev().map(|series| {
        let kernel = deb::fetch(*series, &cache(), false);
        kernel.map_err(|error| say::skipped(&format!("kernel {}: {error:#}", series.0)))
    });
    fetched.flatten().next()
}

fn work(kernel: &Kernel, check: &str) -> PathBuf {
    cache().join(format!("{}.run", kernel.release)).join(check)
}

/// Where kernels and the emulator are kept, and what their boots leave.
fn cache() -> PathBuf {
    repo::target_dir().join("kernels")
}

/// Whether a guest can be booted here; says what is missing.
fn has_tools(refresh: bool) -> bool {
    let busybox = tool::find("busybox").context("busybox is not installed; run tools/setup");
    let there = busybox.and_then(|_| emulator::find(&cache(), refresh));
    if let Err(error) = &there {
        say::skipped(&format!("kernels: {error:#}"));
    }
    there.is_ok()
}

/// Our programs, as they were built together with us.
#[derive(Debug, Default)]
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
    pub(crate) fn beside_us() -> Result<Self> {
        let own = std::env::current_exe().context("find our own program")?;
        // A test's program lies one folder deeper.
        let mut above = own.ancestors().skip(1);
        let dir = above.find(|dir| dir.join("haltwise-lab").is_file());
        let dir = dir.context("haltwise-lab is not built: run cargo build --workspace")?;
        let built = |name| {
            let program = dir.join(name);
            let path = program.display();
            ensure!(
                program.is_file(),
                "{path} is not built: run cargo build --workspace"
            );
            Ok(program)
        };
        Ok(Self {
            haltwise: built("haltwise")?,
            lab: built("haltwise-lab")?,
            guest_tool: built("guest-tool")?,
            halts: dir.join("capture-halts"),
            exec: dir.join("haltwise-exec"),
            preloaded: dir.join("libhaltwise_preload.so"),
        })
    }
}

fn plain(inside: &Inside, script: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(script).with_context(|| format!("read {}", script.display()))?;
    let work = work(inside.kernel, "script");
    let check = Check::new("script", text, LIMIT, |_| Vec::new());
    let undone = check::run(&mut inside.guest()?, vec![check], ALL_MUST_RUN, &work)?;
    if let Some((_, why)) = undone {
        bail!("each boot was spoilt: {why}");
    }
    for line in guest::console(&work.join("console")).lines() {
        say::note(line);
    }
    say::note(&format!("results in {}/out/script", work.display()));
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn all_scripts_are_shell_scripts() {
        let binaries = Binaries::default();
        let mut checks = rule::checks(&binaries, Depth::Quick);
        checks.extend(scenario::checks());
        checks.extend([knob::check(), exits::explained::check()]);
        checks.push(exits::comings::check());
        let scripts = checks.into_iter().map(|check| check.script);
        let files = [
            include_str!("kernels/init.sh"),
            include_str!("kernels/finish.sh"),
            include_str!("kernels/lab.sh"),
            include_str!("kernels/exits/perf_stat.sh"),
            include_str!("kernels/units/script.sh"),
            include_str!("kernels/linux_guest/guest.sh"),
            include_str!("kernels/linux_guest/inside.sh"),
        ];
        let files = files.into_iter().map(str::to_owned);
        for script in scripts.chain(linux_guest::scripts()).chain(files) {
            tool::ask(std::process::Command::new("sh").args(["-n", "-c", &script])).unwrap();
        }
    }
}
