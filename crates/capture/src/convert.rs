//! From streams to Parquet: the end of a recording, or the repair of one that was cut.
//!
//! Each table is written under a temporary name, made durable, and renamed; then `capture.json`
//! says that the capture is complete; then the streams go. A crash in between leaves every table
//! whole in one form at least, and a reader takes exactly one. Memory does not grow with the
//! capture: a table passes through batch by batch, and a row group at a time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use haltwise_core::event::{Vcpu, Vm};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use crate::batches::Batches;
use crate::capture::{self, Capture};
use crate::error::{CaptureReadError, CaptureWriteError};
use crate::files;
use crate::info::{CaptureInfo, Cut, State, TableSize};
use crate::note::Note;
use crate::parquet_form;
use crate::recording::{StartOrder, Summary, write_info};
use crate::table::Table;
use crate::tables::{Row, batch_of};

/// Finishes a capture that was cut, without losing a whole batch of it.
///
/// A capture that is complete stays as it is. One that is still being recorded is refused.
pub fn convert(directory: &Path) -> Result<Summary, CaptureWriteError> {
    let capture = Capture::open(directory)?;
    let mut info = capture.info().clone();
    if info.state == State::Complete {
        return Ok(summary(directory, &info));
    }
    let path = directory.join(Table::Halts.stream_file());
    let lock = match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => {
            let act = "open";
            return Err(CaptureWriteError::Io { act, path, source });
        }
    };
    if lock.as_ref().is_some_and(|file| file.try_lock().is_err()) {
        return Err(CaptureWriteError::StillRecording {
            path: directory.to_owned(),
        });
    }
    let torn_bytes = capture.notes().iter().filter_map(|note| match note {
        Note::TornTail { table, bytes, .. } => Some((table.to_string(), *bytes)),
        _ => None,
    });
    info.cut = Some(Cut {
        torn_bytes: torn_bytes.collect(),
    });
    let mut order = StartOrder::default();
    for halt in capture.halts()? {
        order.see(&halt?);
    }
    info.halts_out_of_order = order.violations();
    complete(directory, &mut info)
}

/// Turns every table into Parquet, says so in `capture.json`, and removes the streams.
pub(crate) fn complete(
    directory: &Path,
    info: &mut CaptureInfo,
) -> Result<Summary, CaptureWriteError> {
    let mut tables = BTreeMap::new();
    for table in Table::STREAMED {
        if let Some(size) = convert_table(directory, table)? {
            tables.insert(table.to_string(), size);
        }
    }
    let vms = write_rows::<Vm>(directory, &info.roster.vms)?;
    let vcpus = write_rows::<Vcpu>(directory, &info.roster.vcpus)?;
    tables.insert(Table::Vms.to_string(), vms);
    tables.insert(Table::Vcpus.to_string(), vcpus);
    info.tables = tables;
    info.state = State::Complete;
    write_info(directory, info)?;
    for table in Table::STREAMED {
        remove(&directory.join(table.stream_file()))?;
    }
    Ok(summary(directory, info))
}

fn summary(directory: &Path, info: &CaptureInfo) -> Summary {
    Summary {
        directory: directory.to_owned(),
        tables: info.tables.clone(),
        halts_out_of_order: info.halts_out_of_order,
    }
}

/// Turns one stream into Parquet. `None` where there is neither: the table was lost.
fn convert_table(directory: &Path, table: Table) -> Result<Option<TableSize>, CaptureWriteError> {
    let Some(path) = capture::file_of(directory, table, State::Recording) else {
        return Ok(None);
    };
    let target = directory.join(table.parquet_file());
    if path == target {
        let bytes = size_of(&path)?;
        let file = File::open(&path).map_err(|source| io("open", &path, source))?;
        let rows = Batches::parquet_rows(table, &path, &file)?;
        return Ok(Some(TableSize { rows, bytes }));
    }
    write_parquet(table, &target, Batches::of_file(table, &path)?).map(Some)
}

/// Writes the rows of a table at once.
fn write_rows<R: Row>(directory: &Path, rows: &[R]) -> Result<TableSize, CaptureWriteError> {
    let table = R::TABLE;
    let batch = batch_of(rows).map_err(|source| CaptureWriteError::Encode { table, source })?;
    let target = directory.join(table.parquet_file());
    write_parquet(table, &target, std::iter::once(Ok(batch)))
}

/// Writes batches as Parquet: under a temporary name first, then in place.
fn write_parquet(
    table: Table,
    target: &Path,
    batches: impl Iterator<Item = Result<arrow_array::RecordBatch, CaptureReadError>>,
) -> Result<TableSize, CaptureWriteError> {
    let written = write_temporary(table, target, batches);
    if written.is_err() {
        // Best effort: the first error is the one that matters.
        let _ = fs::remove_file(files::temporary(target));
    }
    written
}

fn write_temporary(
    table: Table,
    target: &Path,
    batches: impl Iterator<Item = Result<arrow_array::RecordBatch, CaptureReadError>>,
) -> Result<TableSize, CaptureWriteError> {
    let temporary = files::temporary(target);
    let parquet = |source: ParquetError| CaptureWriteError::Parquet {
        table,
        path: temporary.clone(),
        source,
    };
    let file = File::create(&temporary).map_err(|source| io("create", &temporary, source))?;
    let properties = parquet_form::properties(table).map_err(parquet)?;
    let mut writer =
        ArrowWriter::try_new(file, table.schema(), Some(properties)).map_err(parquet)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        parquet_form::check_texts(&batch).map_err(parquet)?;
        writer.write(&batch).map_err(parquet)?;
    }
    let file = writer.into_inner().map_err(parquet)?;
    files::settle(&file, target).map_err(|source| io("write", target, source))?;
    let bytes = size_of(target)?;
    Ok(TableSize { rows, bytes })
}

fn size_of(path: &Path) -> Result<u64, CaptureWriteError> {
    let metadata = fs::metadata(path).map_err(|source| io("look at", path, source))?;
    Ok(metadata.len())
}

fn remove(path: &Path) -> Result<(), CaptureWriteError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn io(act: &'static str, path: &Path, source: std::io::Error) -> CaptureWriteError {
    CaptureWriteError::Io {
        act,
        path: PathBuf::from(path),
        source,
    }
}
