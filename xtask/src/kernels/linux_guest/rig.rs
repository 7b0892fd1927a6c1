//! `cargo xtask rig`: stock Linux guests under stock QEMU on an emulated stock host, and what settings do to their counts.
//!
//! Each effect of the sources has a boot of its own. Its columns are measured in turn, round by round; each leaves a
//! capture, and KVM's, the guests' and the host's own counts, which are read while the VMs stand still. Counts and their
//! order are judged, never emulated times.

mod counts;
mod effects;
mod judge;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::check::{self, Check, Tries};
use super::super::deb::{self, Kernel, SERIES, Series};
use super::super::guest::Left;
use super::super::reported::{Counts, text};
use super::super::{cache, fetch, has_tools, work};
use crate::say;
use effects::{Column, Effect};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Rounds of each effect, in which every column is measured once
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// The kernel of host and guests
    #[arg(long, value_name = "SERIES", value_parser = SERIES.map(|(name, _)| name), default_value = "6.12")]
    kernel: String,
    /// Load KVM's modules from here, as contrib/kernel/try builds them
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Compare two settings of KVM under the first load of the effect that FILTER names: this one,
    /// as in `halt_poll_ns=0 halt_poll_ns_grow=2`
    #[arg(long, value_name = "SETTING", requires = "new")]
    base: Option<String>,
    /// And this one
    #[arg(long, value_name = "SETTING", requires = "base")]
    new: Option<String>,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Judge the rows of this file, and boot nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "rows"])]
    from: Option<PathBuf>,
    /// Only effects whose name contains this text
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// A column as it was measured in a round.
#[derive(Debug, Clone)]
struct Row {
    effect: String,
    column: String,
    round: u32,
    counts: Counts,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(file) = &args.from {
        let rows = judge::read(&text(file)?)?;
        say::line(judge::page(&effects::all()?, &rows).trim_end());
        return Ok(());
    }
    crate::test_run::build()?;
    ensure!(has_tools(false), "nothing was run");
    let series = SERIES.iter().find(|(name, _)| *name == args.kernel);
    let kernel = fetch(*series.context("an unknown kernel")?, false)?;
    let text = args.filter.as_deref().unwrap_or_default();
    let mut effects = effects::all()?;
    effects.retain(|effect| effect.name.contains(text));
    ensure!(!effects.is_empty(), "no effect is named like the filter");
    let pair = args.base.as_deref().zip(args.new.as_deref());
    if let Some(settings) = pair {
        ensure!(effects.len() == 1, "name one effect, whose load is to run");
        compare(&mut effects[0], settings);
    }
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for effect in &effects {
        say::step(&effect.name);
        match measure(&kernel, effect, args) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                say::note(&format!("FAILED: {error:#}"));
                failed.push(&*effect.name);
            }
        }
        if let Some(file) = &args.rows {
            std::fs::write(file, judge::write(&rows))
                .with_context(|| format!("write {}", file.display()))?;
        }
    }
    let said = match pair {
        _ if rows.is_empty() => String::new(),
        Some(_) => judge::compared(&effects[0], &rows),
        None => judge::page(&effects, &rows),
    };
    say::line(said.trim_end());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Leaves two columns: the first one under each of two settings.
fn compare(effect: &mut Effect, (base, new): (&str, &str)) {
    let first = effect.columns.swap_remove(0);
    let column = |(name, setting): (&str, &str)| Column {
        name: name.to_owned(),
        setup: format!("{}; setting {setting}", first.setup),
        loads: first.loads.clone(),
    };
    effect.columns = [("base", base), ("new", new)].map(column).into();
}

/// How long an effect takes at the most, on a machine that does nothing else.
const LIMIT: Duration = Duration::from_mins(15);

/// Most boots that the emulator spoils end within half a minute.
const TRIES: Tries = Tries {
    as_is: 16,
    on_one_cpu: 0,
};

fn measure(kernel: &Kernel, effect: &Effect, args: &Args) -> Result<Vec<Row>> {
    let guest_kernel = if effect.all_hardware {
        deb::fetch(ALL_HARDWARE, &cache(), false)?
    } else {
        kernel.clone()
    };
    let guest = super::guest(&guest_kernel, &OLD_DEVICES)?;
    let mut host = super::bare_host(kernel, &guest, &guest_kernel)?;
    if let Some(dir) = &args.modules {
        for module in ["kvm.ko", "kvm-amd.ko"] {
            host.root
                .program(&format!("own/{module}"), &dir.join(module))?;
        }
    }
    let left = Rc::new(RefCell::new(None));
    let kept = Rc::clone(&left);
    let judge = move |left: &Left| {
        kept.replace(Some(left.out_dir.clone()));
        Vec::new()
    };
    let check = Check {
        begins: Some("web1: up with "),
        ..Check::new(&*effect.name, script(effect, args.rounds), LIMIT, judge)
    };
    let work = work(kernel, &format!("rig-{}", effect.name));
    let undone = check::run(&mut host, vec![check], TRIES, &work)?;
    ensure!(undone.is_empty(), "{}", undone.concat());
    let out = left.take().context("nothing was measured")?;
    let mut rows = Vec::new();
    for round in 1..=args.rounds {
        for (nth, column) in effect.columns.iter().enumerate() {
            rows.push(Row {
                effect: effect.name.clone(),
                column: column.name.clone(),
                round,
                counts: counts::of(&out.join(format!("{nth}-{round}")))?,
            });
        }
    }
    Ok(rows)
}

/// Debian's kernel for all hardware, whichever kernel the host has.
const ALL_HARDWARE: Series = ("6.12-all", "linux-image-6.12-amd64");

/// Modules of disks and NICs that QEMU emulates, for guests.
const OLD_DEVICES: [&str; 3] = ["e1000", "ata_piix", "sd_mod"];

/// The script of the emulated host. Its first measurement is not judged: it reads programs and fills caches.
fn script(effect: &Effect, rounds: u32) -> String {
    let mut text = String::from(include_str!("host.sh"));
    text.push_str(include_str!("rig/rig.sh"));
    text.push_str(&effect.begins);
    let first = effect.columns.iter().take(1);
    let first = first.map(|column| ("first".to_owned(), column));
    let all = (1..=rounds).flat_map(|round| {
        let columns = effect.columns.iter().enumerate();
        columns.map(move |(nth, column)| (format!("{nth}-{round}"), column))
    });
    for (name, column) in first.chain(all) {
        let Column { setup, loads, .. } = column;
        let loads = loads.as_ref().unwrap_or(&effect.loads);
        // Formatting into a String cannot fail.
        let _ = write!(text, "\n{setup}\nmeasured {name} {loads}");
    }
    text.push_str("\nover\nexit $failed\n");
    text
}

#[cfg(test)]
pub(super) fn scripts() -> impl Iterator<Item = String> {
    let effects = effects::all().unwrap_or_default();
    effects.into_iter().map(|effect| script(&effect, 1))
}
