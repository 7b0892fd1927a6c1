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
pub(crate) mod linux_guest;
mod profile;
mod qemu;
mod reported;
mod rule;
mod scenario;
mod units;
mod witness;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{repo, say, test_run, tool};
use check::{Check, Tries};
use deb::{Kernel, SERIES, Series};
use guest::Guest;
use initramfs::Initramfs;
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
type Boot = (Guest, Vec<Check>);

fn guest(kernel: &Kernel) -> Result<Guest> {
    let guest = Guest::new(emulator::find(&cache(), false)?, kernel.clone())?;
    add_ours(&guest.root, &["haltwise", "haltwise-lab"])?;
    Ok(guest)
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
    test_run::build()?;
    if args.gate {
        return gate(args.filter.as_deref());
    }
    let skipped = say::skips();
    ensure!(has_tools(args.refresh), "nothing was run");
    let wanted = |(name, _): &&Series| args.kernel.as_ref().is_none_or(|it| it == name);
    let mut failed = Vec::new();
    for series in SERIES.iter().filter(wanted) {
        let done = fetch(*series, args.refresh).and_then(|kernel| all(&kernel, args));
        if let Err(error) = done {
            say::note(&format!("FAILED: {error:#}"));
            failed.push(series.0);
        }
    }
    ensure!(
        failed.is_empty(),
        "failed in kernel {}",
        failed.join(" and ")
    );
    let skipped = say::skips() - skipped;
    ensure!(
        skipped == 0,
        "{skipped} checks were skipped, and here all must run"
    );
    Ok(())
}

fn fetch(series: Series, refresh: bool) -> Result<Kernel> {
    let kernel = deb::fetch(series, &cache(), refresh)?;
    say::step(&format!("kernel {}", kernel.release));
    Ok(kernel)
}

type Make<'a> = Box<dyn Fn() -> Result<Boot> + 'a>;

fn boots(kernel: &Kernel, thorough: bool) -> Vec<Make<'_>> {
    let depth = if thorough {
        Depth::Thorough
    } else {
        Depth::Quick
    };
    let with = |checks: fn() -> Vec<Check>| -> Make<'_> {
        Box::new(move || Ok((guest(kernel)?, checks())))
    };
    let mut boots: Vec<Make<'_>> = vec![
        Box::new(move || linux_guest::boot(kernel, depth)),
        Box::new(move || Ok((guest(kernel)?, rule::checks(depth)))),
    ];
    if thorough {
        boots.push(Box::new(|| piloted::boot(kernel)));
        boots.push(Box::new(|| stability::boot(kernel)));
    } else {
        boots.push(with(scenario::checks));
        boots.push(with(|| vec![knob::check()]));
        boots.push(Box::new(|| exits::perf_stat::boot(kernel)));
        boots.push(with(|| vec![exits::comings::check()]));
        boots.push(with(|| vec![exits::explained::check()]));
        boots.push(Box::new(|| units::boot(kernel)));
    }
    boots
}

/// Runs all checks in one kernel, boot by boot. What the emulator spoils each time has failed.
fn all(kernel: &Kernel, args: &Args) -> Result<()> {
    let (mut failed, mut unmade) = (Vec::new(), Vec::new());
    let mut ran = false;
    for make in boots(kernel, args.thorough) {
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
        let work = work(kernel, &first.name);
        match check::run(&mut guest, checks, ALL_MUST_RUN, &work) {
            Ok(undone) => failed.extend(undone),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    // A boot that cannot be made has no names: with a filter it fails a run that found no check.
    if args.filter.is_none() || !ran {
        failed.append(&mut unmade);
    }
    ensure!(
        ran || !failed.is_empty(),
        "no check is named like the filter"
    );
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn retain(checks: &mut Vec<Check>, filter: Option<&str>) {
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
pub(crate) fn gate(filter: Option<&str>) -> Result<()> {
    let Some(kernel) = newest() else {
        return Ok(());
    };
    let mut checks = rule::checks(Depth::Quick);
    checks.retain(|check| GATE_RULES.contains(&&*check.name));
    let recordings = scenario::checks().into_iter();
    checks.extend(recordings.filter(|check| GATE_RECORDINGS.contains(&&*check.name)));
    checks.push(knob::check());
    let mut guest = match linux_guest::firmware() {
        Ok(_) => {
            let (guest, linux) = linux_guest::short_boot(&kernel)?;
            checks.extend(linux);
            guest
        }
        Err(error) => {
            say::skipped(&format!("{}: {error:#}", linux_guest::NAME));
            guest(&kernel)?
        }
    };
    retain(&mut checks, filter);
    ensure!(
        !checks.is_empty(),
        "no check of the short boot is named like the filter"
    );
    let undone = check::run(&mut guest, checks, TWICE, &work(&kernel, "gate"))?;
    for text in undone {
        say::skipped(&text);
    }
    Ok(())
}

/// The newest kernel that can be had; says why others cannot.
fn newest() -> Option<Kernel> {
    if !has_tools(false) {
        return None;
    }
    let fetched = SERIES.iter().rev().map(|series| {
        let kernel = fetch(*series, false);
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

/// A program or library of ours, as it was built together with this program.
fn ours(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("find our own program")?;
    // A test's program lies one folder deeper.
    let places = own.ancestors().skip(1).take(2);
    let mut built = places.map(|dir| dir.join(name)).filter(|it| it.is_file());
    let built = built.next();
    built.with_context(|| format!("{name} is not built: run cargo build --workspace"))
}

fn add_ours(root: &Initramfs, names: &[&str]) -> Result<()> {
    let mut names = names.iter();
    names.try_for_each(|name| root.program(&format!("bin/{name}"), &ours(name)?))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn all_scripts_are_shell_scripts() {
        let mut checks = rule::checks(Depth::Quick);
        checks.extend(scenario::checks());
        checks.extend([exits::explained::check(), exits::comings::check()]);
        checks.push(knob::check());
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
