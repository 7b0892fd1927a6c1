//! `haltwise fleet add CAPTURE`: what every setting of a grid would have cost each VM, as a table that adds up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use haltwise_capture::costs::{encode, lake};
use haltwise_capture::files::output::{self, Readers};
use haltwise_capture::note::Note;
use haltwise_capture::ring;
use haltwise_core::costs::{GRID, grid, table};
use haltwise_core::stats::total;

use crate::costs::SCHEMA;
use crate::costs::play;
use crate::costs::view::{self, CostsResult, WrittenTable};
use crate::costs::who::{self, GivenNames};
use crate::exit::{Exit, Failure, Outcome};
use crate::prices::GivenCosts;
use crate::reading::opened::Opened;
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(
    about = "Write what every setting would cost each VM of a capture",
    after_long_help = "EXAMPLES
  haltwise fleet add cap -o costs.parquet   one table
  haltwise fleet add cap --lake /srv/lake   in its place in a lake of tables
  haltwise fleet add /var/lib/haltwise/ring --lake /srv/lake
                                            each segment that has ended
  haltwise fleet add cap --lake lake --class 'web-*=web' --goal 'web-*=latency'
  haltwise fleet show /srv/lake             what the tables say together

A table has, for each VM, the figures of 65 settings, of the setting in force,
of the default, of lower bounds, and of what was recorded, on each half of the
capture's time: docs/costs-format.md. Tables of many hosts and days add up.

Of a ring (record --keep) with --lake, segments that the lake has already are
left out, so the command can be run again at any time.

Exits with 5 if the capture is truncated or damaged, or if events were lost."
)]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`, or a ring of
    /// captures
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "lake")]
    output: Option<PathBuf>,
    /// Lake to write to: DIR/host=NAME/date=DATE/TIME.parquet
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    lake: Option<PathBuf>,
    #[command(flatten)]
    names: GivenNames,
    #[command(flatten)]
    costs: GivenCosts,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut result = CostsResult {
        schema: SCHEMA,
        grid: GRID,
        settings: grid::settings().len(),
        tables: Vec::new(),
        known: 0,
        recording: 0,
        failed: Vec::new(),
    };
    let segments = arguments
        .lake
        .as_ref()
        .and_then(|_| ring::last_recording(&arguments.dir));
    if segments.is_some() {
        of_ring(arguments, &mut result)?;
    } else {
        let opened = Opened::open(&arguments.dir)?;
        result.tables.push(one(&opened, arguments)?);
    }
    let shown = &arguments.shown;
    shown.sort(&mut [&mut result.tables])?;
    shown.print(&result, |top| view::document(&result, top))?;
    let partial = !result.failed.is_empty() || result.tables.iter().any(|table| table.partial);
    Ok(Exit::of_partial(partial))
}

/// Each segment of a ring that has ended and that the lake does not have.
fn of_ring(arguments: &Arguments, result: &mut CostsResult) -> Result<(), Failure> {
    let context = || format!("read {}", arguments.dir.display());
    for segment in ring::all_segments(&arguments.dir).with_context(context)? {
        let named = |failure: Failure| format!("{}: {:#}", segment.name(), failure.error);
        let opened = match Opened::open(&segment.path) {
            Ok(opened) => opened,
            // Dropped meanwhile, or not begun.
            Err(_) if !segment.path.join("capture.json").exists() => continue,
            Err(failure) => {
                result.failed.push(named(failure));
                continue;
            }
        };
        if opened.capture().notes().contains(&Note::StillRecording) {
            result.recording += 1;
            continue;
        }
        if has(&opened, arguments) {
            result.known += 1;
            continue;
        }
        match one(&opened, arguments) {
            Ok(table) => result.tables.push(table),
            Err(failure) => result.failed.push(named(failure)),
        }
    }
    Ok(())
}

fn has(opened: &Opened, arguments: &Arguments) -> bool {
    let Some(lake) = &arguments.lake else {
        return false;
    };
    let host = who::host_named(opened.info(), &arguments.names);
    lake::path(lake, &host).exists()
}

fn one(opened: &Opened, arguments: &Arguments) -> Result<WrittenTable, Failure> {
    let info = opened.info();
    let mut played = play::play(opened, &arguments.costs)?;
    let costs = std::mem::take(&mut played.vms);
    let host = Arc::new(who::host(info, &arguments.names, &played));
    let vms = who::vms(info, &arguments.names, costs);
    let count = vms.iter().filter(|(vm, _)| vm.name.is_some()).count();
    let halts = vms.iter().filter_map(|(_, costs)| costs.lines.first());
    let halts = halts.flat_map(|line| line.halves.iter().map(|half| half.sums.halts));
    let halts = total(halts);
    if arguments.lake.is_some() && host.start_unix_ns == 0 {
        let error = anyhow!(
            "the calendar time of the capture is not known, by which a lake names its tables"
        );
        return Err(Failure::new(Exit::Failed, error).hint("write it with -o FILE"));
    }
    let (bytes, rows) = encode(table::rows(&host, vms))?;
    let (path, written) = match (&arguments.output, &arguments.lake) {
        (_, Some(lake)) => (lake::path(lake, &host), lake::write(lake, &host, &bytes)),
        (Some(path), None) => {
            let written = output::write(path, &bytes, Readers::Owner);
            (path.clone(), written)
        }
        (None, None) => return Err(Failure::new(Exit::Usage, anyhow!("name a file with -o"))),
    };
    written.with_context(|| format!("write {}", path.display()))?;
    let notes: Vec<String> = notes(opened, &played);
    Ok(WrittenTable {
        partial: !notes.is_empty(),
        path: shown_path(&path),
        host: host.name.clone(),
        date: host.date.clone(),
        duration_ns: host.end_unix_ns.saturating_sub(host.start_unix_ns),
        vms: count,
        halts,
        rows,
        bytes: bytes.len() as u64,
        switch_cpu_ns: host.switch_cpu_ns,
        switch_cpu_source: played.known.source.as_str(),
        notes,
    })
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

fn notes(opened: &Opened, played: &play::PlayedCapture) -> Vec<String> {
    let notes = opened.capture().notes();
    let mut notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    let lost: u64 = total(opened.lost_by_place().values());
    if lost > 0 {
        notes.push(format!("{lost} events were lost"));
    }
    if played.out_of_order > 0 {
        notes.push(format!(
            "{} halts are out of order, and left out",
            played.out_of_order
        ));
    }
    notes
}
