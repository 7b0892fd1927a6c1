//! How fast the page of `report --html` is, of an hour of ten VMs: the first paint, and a step of a
//! slider, which shows another setting of the grid. Measured in the browser that the tests use.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use haltwise_core::stats::percentile_of_sorted;
use serde_json::Value;

use crate::{repo, say, tool};

/// What `cargo xtask bench page` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Browsers that are started, one after the other
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Halts of the recording, of which the page keeps a sample
    #[arg(long, default_value_t = 2_000_000)]
    halts: u64,
    /// Measure this page instead
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// Where the page is made.
const DIR: &str = "page-bench";

pub(crate) fn run(args: &Args) -> Result<()> {
    let scripts = repo::root().join("crates/cli/tests/page");
    let has_modules = scripts.join("node_modules/puppeteer-core").exists();
    if tool::find("node").is_none() || tool::find("chromium").is_none() || !has_modules {
        say::skipped("the page's speed: node, chromium or node_modules are missing (tools/setup)");
        return Ok(());
    }
    let page = match &args.page {
        Some(page) => page
            .canonicalize()
            .with_context(|| format!("find {}", page.display()))?,
        None => make(args.halts)?,
    };
    let bytes = std::fs::metadata(&page)?.len();
    say::step(&format!("{} kB in {} browsers", bytes / 1_000, args.rounds));
    let mut node = Command::new("node");
    node.arg(scripts.join("bench.mjs"))
        .arg(&page)
        .arg(args.rounds.to_string());
    let said = tool::ask(&mut node)?;
    let rounds: Vec<Value> = said
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    if rounds.is_empty() {
        bail!("no round was measured");
    }
    let of = |field: &str| -> Vec<f64> {
        let values = rounds.iter().flat_map(|round| match &round[field] {
            Value::Array(many) => many.iter().filter_map(Value::as_f64).collect(),
            one => Vec::from_iter(one.as_f64()),
        });
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    for (field, title) in [
        ("first_paint_ms", "first paint, browser just started"),
        ("word_paint_ms", "the same of a page of one word"),
        ("rested_paint_ms", "first paint, its own start over"),
        ("again_paint_ms", "first paint, browser running"),
        ("ready_ms", "everything ready"),
        ("step_ms", "a step of a slider"),
    ] {
        say::note(&line(title, &of(field)));
    }
    Ok(())
}

/// `first paint: 83.1 ms (median), 95.0 ms (95 %), 101 ms (largest), 15 values`.
fn line(title: &str, sorted: &[f64]) -> String {
    let at = |p: f64| percentile_of_sorted(sorted, p).unwrap_or(f64::NAN);
    format!(
        "{title}: {:.1} ms (median), {:.1} ms (95 %), {:.1} ms (largest), {} values",
        at(0.5),
        at(0.95),
        at(1.0),
        sorted.len()
    )
}

/// Has a capture of an hour of ten VMs and its page made.
fn make(halts: u64) -> Result<PathBuf> {
    let dir = repo::target_dir().join(DIR);
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    say::step(&format!("an hour of ten VMs, {halts} halts, and its page"));
    let mut cargo = tool::cargo(&repo::root());
    cargo
        .args([
            "test", "--quiet", "-p", "haltwise", "--test", "golden", "--",
        ])
        .args(["--ignored", "--exact", "page::an_hour_of_ten_vms"])
        .env("HALTWISE_PAGE_DIR", &dir)
        .env("HALTWISE_PAGE_HALTS", halts.to_string());
    tool::ask(&mut cargo)?;
    let page = page_in(&dir);
    if !page.exists() {
        bail!("no page was made in {}", dir.display());
    }
    Ok(page)
}

fn page_in(dir: &Path) -> PathBuf {
    dir.join("hour.html")
}
