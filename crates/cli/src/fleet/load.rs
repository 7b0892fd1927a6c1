//! From costs tables to sums: some files at a time on all CPUs, added up in the order of their names. What cannot be read
//! to its end counts for nothing, and is reported.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use haltwise_capture::costs::batch::SettingOf;
use haltwise_capture::costs::read::{CostsError, Reader, Wants};
use haltwise_capture::costs::{Batch, lake};
use haltwise_core::costs::table::{Host, VmOf};
use haltwise_core::fleet::answer::{self, Answer, VmsSeen};
use haltwise_core::fleet::gather::{Asked, RowOf};
use haltwise_core::fleet::vms::VmSums;
use haltwise_core::fleet::{Fleet, Part};
use haltwise_core::replay::Sums;
use haltwise_core::tune::Pool;

use crate::exit::{Exit, Failure};
use crate::recommend::threads::Threads;

/// Files that are read before their sums are added up, for each CPU.
const AT_A_TIME: usize = 32;

#[derive(Debug)]
pub(crate) struct LoadedFleet {
    pub(crate) fleet: Fleet,
    pub(crate) answer: Answer,
    pub(crate) files: usize,
    /// Files that do not, each with the reason.
    pub(crate) refused: Vec<String>,
}

/// Reads all tables that paths name, twice: settings first, then VM by VM.
pub(crate) fn load(paths: &[PathBuf], asked: &Asked) -> Result<LoadedFleet, Failure> {
    if let Some(capture) = paths.iter().find(|it| it.join("capture.json").exists()) {
        let capture = capture.display();
        let error = anyhow!("{capture} is a capture, and not costs tables");
        let hint = format!("`haltwise fleet add {capture} --lake DIR` writes its table");
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    let files = lake::files(paths);
    let files = files.map_err(|(path, error)| {
        Failure::from(anyhow::Error::new(error).context(format!("look at {}", path.display())))
    })?;
    if files.is_empty() {
        let error = anyhow!("no costs table is there: no name ends in .parquet");
        return Err(Failure::new(Exit::Failed, error)
            .hint("`haltwise fleet add CAPTURE --lake DIR` writes one"));
    }
    let pool = Threads::new();
    let mut refused = Vec::new();
    let mut fleet = Fleet::new(asked.clone());
    let mut accepted = Vec::new();
    each(
        &files,
        &pool,
        "adding up",
        |path| sums(path, asked),
        |path, part| {
            let added = part.map_err(in_a_line).and_then(|part| {
                let added = fleet.add(part);
                added.map_err(|refused| format!("{}: {refused}", path.display()))
            });
            match added {
                Ok(()) => accepted.push(path.to_owned()),
                Err(reason) => refused.push(reason),
            }
        },
    );
    let Some(chosen) = answer::choose(&fleet) else {
        let first = refused
            .first()
            .map(|it| format!(": {it}"))
            .unwrap_or_default();
        let error = anyhow!("no halts in {} costs tables{first}", files.len());
        return Err(Failure::new(Exit::Partial, error));
    };
    let mut vms = VmSums::new(asked, fleet.level(), &chosen);
    let level = fleet.level();
    let of_vms = |path: &Path| vm_sums(path, VmSums::new(asked, level, &chosen));
    let (mut changed, mut seen) = (None, VmsSeen::default());
    each(&accepted, &pool, "VM by VM", of_vms, |_, part| match part {
        Ok(part) => {
            let is_complete = |host: &str, captures| captures == fleet.captures_of(host);
            let complete = vms.add(part, is_complete).into_iter();
            complete.for_each(|vm| seen.see(vm));
        }
        Err(error) => changed = Some(error),
    });
    vms.finish().into_iter().for_each(|vm| seen.see(vm));
    if let Some(error) = changed {
        let error = anyhow::Error::new(error).context("read a table once more");
        return Err(Failure::new(Exit::Failed, error)
            .hint("it was changed while it was read: run this again"));
    }
    let answer = answer::answer(&fleet, &chosen, seen);
    Ok(LoadedFleet {
        answer: answer.context("choose a setting")?,
        files: accepted.len(),
        fleet,
        refused,
    })
}

fn in_a_line(error: CostsError) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

/// Reads files on all CPUs, and hands out what came of each in their order.
fn each<T: Send>(
    files: &[PathBuf],
    pool: &Threads,
    what: &str,
    read: impl Fn(&Path) -> Result<T, CostsError> + Sync,
    mut take: impl FnMut(&Path, Result<T, CostsError>),
) {
    let mut done = 0;
    for some in files.chunks(AT_A_TIME * pool.workers()) {
        let what = format!("{what}, {done} of {} tables", files.len());
        let parts = pool.each(&what, some.len(), |at| read(&some[at]));
        for (path, part) in some.iter().zip(parts) {
            take(path, part);
        }
        done += some.len();
    }
}

fn sums(path: &Path, asked: &Asked) -> Result<Part, CostsError> {
    let mut part = Part::new(asked);
    let others = runs(path, |host, vm, rows| {
        part.add(host, vm, rows.iter().map(of_row));
    })?;
    part.unknown += others;
    Ok(part)
}

fn vm_sums(path: &Path, mut vms: VmSums) -> Result<VmSums, CostsError> {
    runs(path, |host, vm, rows| {
        vms.add_rows(host, vm, rows.iter().map(of_row));
    })?;
    Ok(vms)
}

fn of_row((of, sums): &(SettingOf, Sums)) -> RowOf<'_> {
    (of.kind, of.knobs.as_ref(), of.half, sums)
}

/// Hands out the rows of our grid, those of a VM that follow each other together; gives how many are of another grid.
fn runs(
    path: &Path,
    mut take: impl FnMut(&Host, &VmOf, &[(SettingOf, Sums)]),
) -> Result<u64, CostsError> {
    let mut others = 0;
    let mut ours = Vec::new();
    let mut reader = Reader::open(path, Wants::Sums)?;
    loop {
        let first_row = reader.rows();
        let Some(batch) = reader.next() else {
            return Ok(others);
        };
        let batch = batch?;
        let batch = Batch::of(&batch, path, first_row)?;
        for rows in batch.runs() {
            let (host, vm) = (batch.host(rows.start)?, batch.vm(rows.start)?);
            let limits = batch.limits(rows.start)?;
            ours.clear();
            for row in rows {
                match batch.setting(row)? {
                    Some(setting) => ours.push((setting, batch.sums(row, limits)?)),
                    None => others += 1,
                }
            }
            if !ours.is_empty() {
                take(&host, &vm, &ours);
            }
        }
    }
}
