//! How fast `haltwise fleet` adds up costs tables, in how much memory, and how both grow; beside DuckDB on the same
//! files, where its Python package is installed. Both must find the same best setting at the same cost, to the unit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::kept::{Figures, Kept, Row};
use crate::{repo, say, tool};

/// Options of the fleet benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Hosts of the fleets, by comma
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    hosts: Vec<u64>,
    /// VMs of each host: 28 make 4,000 rows
    #[arg(long, default_value_t = 28)]
    vms: u64,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// The same question in SQL: the cheapest setting by sums of the first halves, and what it costs on the second.
const DUCKDB: &str = r#"
import duckdb, json, resource, sys, time
duckdb.sql("SET enable_progress_bar = false")
start = time.time()
sql = """
WITH costs AS (
  SELECT halt_poll_ns h, grow g, grow_start_ns s, shrink k, half,
    sum((poll_ns::HUGEINT + sleeps::HUGEINT * switch_cpu_ns) * 1000
      + latency_ns::HUGEINT * CASE goal WHEN 'density' THEN 0 WHEN 'latency' THEN 10000 ELSE 1000 END) AS milli
  FROM read_parquet('%s/*/*/*.parquet', hive_partitioning = false) WHERE kind = 'grid' GROUP BY ALL)
SELECT f.h, f.g, f.s, f.k, v.milli::VARCHAR, f.milli::VARCHAR
FROM costs f JOIN costs v USING (h, g, s, k)
WHERE f.half = 'fit' AND v.half = 'validate' ORDER BY f.milli LIMIT 1
"""
row = duckdb.sql(sql % sys.argv[1]).fetchall()[0]
print(json.dumps({"row": row, "seconds": time.time() - start, "version": duckdb.__version__,
  "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"#;

pub(crate) fn run(args: &Args) -> Result<()> {
    say::step("build haltwise and the example large_fleet for release");
    for what in [
        ["-p", "haltwise", "--bins"],
        ["-p", "haltwise-capture", "--examples"],
    ] {
        let mut build = tool::cargo(&repo::root());
        tool::run(build.args(["build", "--release", "--quiet"]).args(what))?;
    }
    let release = repo::target_dir().join("release");
    let folder = tempfile::tempdir_in(repo::target_dir())?;
    let mut figures = Figures::new(format!(
        "{:>6} {:>10} {:>9}   {:>8} {:>8}   {:>8} {:>8}\n",
        "hosts", "rows", "bytes", "haltwise", "peak", "DuckDB", "peak"
    ));
    for hosts in &args.hosts {
        let (row, line) = one(&release, folder.path(), *hosts, args.vms)?;
        say::note(&line);
        figures.add(row, &line);
    }
    if !args.discard {
        let kept = Kept {
            name: "fleet",
            method: "Costs tables of made-up hosts (`large_fleet`), one day each, added up by `haltwise fleet --by kernel` \
                     and by DuckDB's Python package, which answers the first part of the question: the one setting and \
                     its cost. Both must agree to the unit. Wall-clock time with the files in the page cache, \
                     and the largest resident memory.",
            columns: &[
                "hosts",
                "rows",
                "bytes",
                "seconds",
                "peak_kb",
                "duckdb_seconds",
                "duckdb_peak_kb",
            ],
            figures,
        };
        kept.write()?;
    }
    Ok(())
}

/// One size of a fleet: its row of figures, and the line that shows it.
fn one(release: &Path, folder: &Path, hosts: u64, vms: u64) -> Result<(Row, String)> {
    let lake = folder.join(format!("{hosts}"));
    let mut made = Command::new(release.join("examples/large_fleet"));
    let made = made.arg(&lake).args([hosts.to_string(), vms.to_string()]);
    say::note(tool::ask(made)?.trim());
    let ours = haltwise(&release.join("haltwise"), &lake)?;
    let theirs = duckdb(&lake)?;
    if let Some(theirs) = &theirs {
        agree(&ours.said, &theirs.said)?;
    }
    let rows = ours.said.pointer("/read/rows").and_then(Value::as_u64);
    let rows = rows.unwrap_or(0);
    let bytes = tool::ask(Command::new("du").arg("-sb").arg(&lake))?;
    let bytes: u64 = bytes.split_whitespace().next().unwrap_or("0").parse()?;
    std::fs::remove_dir_all(&lake)?;
    let shown = |of: Option<&Measured>| match of {
        Some(it) => [
            format!("{:.1} s", it.seconds),
            format!("{} MB", it.peak_kb / 1024),
        ],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let ([own, own_peak], [other, other_peak]) = (shown(Some(&ours)), shown(theirs.as_ref()));
    let line = format!(
        "{hosts:>6} {rows:>10} {:>6} MB   {own:>8} {own_peak:>8}   {other:>8} {other_peak:>8}",
        bytes / 1_000_000
    );
    let theirs = theirs.map(|it| (it.seconds.to_string(), it.peak_kb.to_string()));
    let (other, other_peak) = theirs.unwrap_or_default();
    let row = vec![
        hosts.to_string(),
        rows.to_string(),
        bytes.to_string(),
        ours.seconds.to_string(),
        ours.peak_kb.to_string(),
        other,
        other_peak,
    ];
    Ok((row, line))
}

/// What a run took, and said.
struct Measured {
    seconds: f64,
    peak_kb: u64,
    said: Value,
}

fn haltwise(program: &Path, lake: &Path) -> Result<Measured> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .arg("fleet")
        .arg(lake)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(json_of(lake))?)
        .spawn()
        .context("start haltwise")?;
    // The kernel keeps the peak for as long as the process is there.
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_kb = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|it| it.split_whitespace().next()?.parse().ok());
        peak_kb = peak.unwrap_or(0).max(peak_kb);
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(ended.success(), "haltwise fleet ended with {ended}");
    let said = std::fs::read(json_of(lake))?;
    Ok(Measured {
        seconds,
        peak_kb,
        said: serde_json::from_slice(&said).context("read what haltwise printed")?,
    })
}

fn json_of(lake: &Path) -> PathBuf {
    lake.with_extension("json")
}

/// `None` where DuckDB is not installed, which is said.
fn duckdb(lake: &Path) -> Result<Option<Measured>> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if tool::ask(Command::new(&python).args(["-c", "import duckdb"])).is_err() {
        say::skipped(
            "DuckDB: its Python package is not installed (pip install duckdb; PYTHON names the interpreter)",
        );
        return Ok(None);
    }
    let said = tool::ask(Command::new(&python).args(["-c", DUCKDB]).arg(lake))?;
    let said: Value = serde_json::from_str(&said).context("read what DuckDB printed")?;
    let number = |name: &str| said.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let peak_kb = said.get("peak_kb").and_then(Value::as_u64).unwrap_or(0);
    Ok(Some(Measured {
        seconds: number("seconds"),
        peak_kb,
        said,
    }))
}

/// Both have the same best setting.
fn agree(ours: &Value, theirs: &Value) -> Result<()> {
    let fields = [
        "halt_poll_ns",
        "halt_poll_ns_grow",
        "halt_poll_ns_grow_start",
        "halt_poll_ns_shrink",
    ];
    for (at, field) in fields.into_iter().enumerate() {
        let (own, other) = (&ours["one"][field], &theirs["row"][at]);
        ensure!(own == other, "{field} is {own} here and {other} by DuckDB");
    }
    let plans = ours["plans"].as_array().context("plans")?;
    let one = plans
        .iter()
        .find(|plan| plan["plan"] == "one")
        .context("the plan `one`")?;
    let own = one["cost_milli"].as_str().context("its cost")?;
    let other = theirs["row"][4].as_str().context("the cost by DuckDB")?;
    ensure!(own == other, "it costs {own} here and {other} by DuckDB");
    Ok(())
}
