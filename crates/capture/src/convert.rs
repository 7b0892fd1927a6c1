//! From streams to Parquet: the end of a recording, or the repair of one that was cut.
//!
//! All tables are written under temporary names, made durable together, and renamed; then `capture.json`
//! says that the capture is complete; then the streams go. A crash in between leaves every table
//! whole in one form at least, and a reader takes exactly one. Memory does not grow with the
//! capture: a table passes through batch by batch, and a row group at a time.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;

use arrow_array::RecordBatch;
use haltwise_core::event::{Vcpu, Vm};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::verify::carried::Carried;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use crate::batches::Batches;
use crate::capture::{Capture, info_of};
use crate::error::{CaptureWriteError, TableFile};
use crate::files::Directory;
use crate::files::directory::{DirectoryId, Temporary};
use crate::info::{CaptureInfo, Cut, FILE, State, Summary, TableSize};
use crate::note::Note;
use crate::parquet_form;
use crate::recording::{text_of, write_info};
use crate::rows::rows_of;
use crate::spare;
use crate::sums::{Summing, Sums};
use crate::table::Table;
use crate::tables::{Row, batch_of, of_table};

/// Finishes a capture that was cut, without losing a whole batch of it.
///
/// A capture that is complete stays as it is. One that is still being recorded is refused.
pub fn convert(directory: &Path) -> Result<Summary, CaptureWriteError> {
    let capture = Capture::open_one(directory)?.as_stored();
    let mut info = capture.info().clone();
    let ours = Directory::open(directory).map_err(CaptureWriteError::io("write", directory))?;
    if info.state == State::Complete {
        return Ok(summary(&ours, &info));
    }
    let path = directory.join(Table::Halts.stream_file());
    let lock = match ours.read(&Table::Halts.stream_file()) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(CaptureWriteError::io("open", &path)(source)),
    };
    if lock.as_ref().is_some_and(|file| file.try_lock().is_err()) {
        return Err(CaptureWriteError::StillRecording {
            path: directory.to_owned(),
        });
    }
    let notes = capture.notes();
    let torn_bytes = notes.iter().filter_map(|note| match note {
        Note::TornTail { table, bytes, .. } => Some((table.to_string(), *bytes)),
        _ => None,
    });
    info.cut = Some(Cut {
        torn_bytes: torn_bytes.collect(),
    });
    complete(&ours, &mut info, None)
}

/// Where the rows of a thread belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) vm: Option<VmIndex>,
    /// The vCPU, for rows that do not tell it themselves.
    pub(crate) vcpu: Option<VcpuId>,
}

impl Place {
    /// Puts a place where a row names a thread by its number among all.
    pub(crate) fn put(places: &[Self], vm: &mut Option<VmIndex>, vcpu: &mut Option<VcpuId>) {
        let thread = vm.and_then(|thread| places.get(usize::try_from(thread.0).ok()?));
        *vm = thread.and_then(|place| place.vm);
        *vcpu = vcpu.or(thread.and_then(|place| place.vcpu));
    }
}

/// Turns every table into Parquet, says so in `capture.json`, and removes the streams.
pub(crate) fn complete(
    directory: &Directory,
    info: &mut CaptureInfo,
    places: Option<&[Place]>,
) -> Result<Summary, CaptureWriteError> {
    let mut written = BTreeMap::new();
    for table in Table::STREAMED {
        if let Some(file) = of_table!(table, convert_table(directory, info, places))? {
            written.insert(table.to_string(), file);
        }
    }
    settle(directory, info, written)
}

/// Ends a capture whose streams were turned into these: adds the tables of the roster, gives all their places, says in
/// `capture.json` that it is complete, and removes the streams.
pub(crate) fn settle<'a>(
    directory: &'a Directory,
    info: &mut CaptureInfo,
    mut written: BTreeMap<String, Written<'a>>,
) -> Result<Summary, CaptureWriteError> {
    let vms = write_rows::<Vm>(directory, info, &info.roster.vms)?;
    let vcpus = write_rows::<Vcpu>(directory, info, &info.roster.vcpus)?;
    written.insert(Table::Vms.to_string(), vms);
    written.insert(Table::Vcpus.to_string(), vcpus);
    let mut files = Vec::new();
    (info.tables, info.checksums) = written
        .into_iter()
        .map(|(table, file)| {
            files.push(file.made);
            ((table.clone(), file.size), (table, file.sums))
        })
        .unzip();
    info.state = State::Complete;
    let text = text_of(directory, info)?;
    let settled = directory.written(FILE, &text);
    let settled = settled.and_then(|last| directory.settle(files, last));
    settled.map_err(CaptureWriteError::io("finish", directory.path()))?;
    let streams = Table::STREAMED.map(Table::stream_file);
    // The spare file goes first: where a stream cannot be removed, `Spare::spend` then cannot replace the complete
    // capture.json.
    for name in iter::once(spare::NAME).chain(streams.iter().map(String::as_str)) {
        let removed = directory.remove(name);
        removed.map_err(CaptureWriteError::below("remove", directory, name))?;
    }
    Ok(summary(directory, info))
}

pub(crate) fn summary(directory: &Directory, info: &CaptureInfo) -> Summary {
    Summary {
        directory: directory.path().to_owned(),
        id: directory.id(),
        tables: info.tables.clone(),
        lost: info.lost.clone(),
    }
}

#[derive(Debug)]
pub(crate) struct Written<'a> {
    size: TableSize,
    sums: Sums,
    /// Its file, which has no place yet.
    made: Temporary<'a>,
}

/// Turns one stream into Parquet. `None` where there is none: the table was lost. A table that was made before a crash is
/// made once more.
fn convert_table<'a, R: Row>(
    directory: &'a Directory,
    info: &CaptureInfo,
    places: Option<&[Place]>,
) -> Result<Option<Written<'a>>, CaptureWriteError> {
    // By the descriptor alone: the directory's path may lead elsewhere by now.
    let table = R::TABLE;
    let has = |name: &String| {
        let found = directory.has(name);
        found.map_err(CaptureWriteError::below("look at", directory, name))
    };
    let name = table.parquet_file();
    let is_stream = !has(&name)?;
    let name = if is_stream { table.stream_file() } else { name };
    if is_stream && !has(&name)? {
        return Ok(None);
    }
    let file = directory.read(&name);
    let file = file.map_err(CaptureWriteError::below("open", directory, &name))?;
    let path = directory.path().join(name);
    let batches = Batches::of_opened(TableFile { table, path }, file, None)?;
    if is_stream && places.is_none() {
        let batches = batches.map(|batch| Ok(batch?));
        return write_parquet(directory, info, table, batches).map(Some);
    }
    let mut batches = rows_of::<R>(batches);
    let batches = iter::from_fn(move || {
        let encode = |mut rows: Vec<R>| {
            if let Some(places) = places {
                for row in &mut rows {
                    row.place(places);
                }
            }
            encoded(&rows)
        };
        let rows = batches.next_batch()?;
        Some(rows.map_err(CaptureWriteError::from).and_then(encode))
    });
    write_parquet(directory, info, table, batches).map(Some)
}

/// The batch of these rows.
pub(crate) fn encoded<R: Row>(rows: &[R]) -> Result<RecordBatch, CaptureWriteError> {
    let table = R::TABLE;
    batch_of(rows).map_err(|source| CaptureWriteError::Encode { table, source })
}

fn write_rows<'a, R: Row>(
    directory: &'a Directory,
    info: &CaptureInfo,
    rows: &[R],
) -> Result<Written<'a>, CaptureWriteError> {
    write_parquet(directory, info, R::TABLE, iter::once(encoded(rows)))
}

/// Writes batches as Parquet, under a temporary name.
pub(crate) fn write_parquet<'a>(
    directory: &'a Directory,
    info: &CaptureInfo,
    table: Table,
    batches: impl Iterator<Item = Result<RecordBatch, CaptureWriteError>>,
) -> Result<Written<'a>, CaptureWriteError> {
    let name = table.parquet_file();
    let target = directory.path().join(&name);
    let parquet = |source: ParquetError| CaptureWriteError::Parquet {
        table,
        path: target.clone(),
        source,
    };
    let file = directory.create_temporary(&name);
    let file = file.map_err(CaptureWriteError::io("create", &target))?;
    let properties = parquet_form::properties(table, info).map_err(parquet)?;
    let mut writer =
        ArrowWriter::try_new(Summing::new(file), table.arrow_schema(), Some(properties))
            .map_err(parquet)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        parquet_form::check_texts(&batch).map_err(parquet)?;
        writer.write(&batch).map_err(parquet)?;
    }
    let (file, sums) = writer.into_inner().map_err(parquet)?.finish();
    let bytes = file.bytes();
    let bytes = bytes.map_err(CaptureWriteError::io("look at", &target))?;
    Ok(Written {
        size: TableSize { rows, bytes },
        sums,
        made: file,
    })
}

/// Keeps which changes of later kernels the recorded one carries, where the path still leads to what was recorded. A
/// capture that is not complete is left as it is: its halts are not all there.
pub fn keep_carried(
    directory: &Path,
    recorded: DirectoryId,
    carried: Carried,
) -> Result<(), CaptureWriteError> {
    let io = |act| CaptureWriteError::io(act, directory);
    let ours = Directory::open(directory).map_err(io("write"))?;
    if ours.id() != recorded {
        let path = directory.to_owned();
        return Err(CaptureWriteError::Removed { path });
    }
    let file = ours.read(FILE).map_err(io("read"))?;
    let (mut info, _) = info_of(&file, directory.join(FILE), FILE)?;
    if info.state != State::Complete {
        return Ok(());
    }
    info.carried = Some(carried);
    write_info(&ours, &info)
}

#[cfg(test)]
mod test {
    use std::fs;

    use haltwise_core::recording::Rung;

    use super::*;
    use crate::files::Directory;
    use crate::info::{Clock, example};
    use crate::recording::Recording;

    fn recorded(path: &Path) -> (Directory, CaptureInfo) {
        let recording = Recording::create(path, example(Clock::new(5, 7), Rung::Bpf)).unwrap();
        let info = recording.info().clone();
        drop(recording);
        (Directory::open(path).unwrap(), info)
    }

    #[test]
    fn a_capture_is_finished_where_it_is_and_not_where_its_path_leads_by_now() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("cap"), dir.path().join("moved"));
        let (ours, mut info) = recorded(&path);
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        let made = complete(&ours, &mut info, None).unwrap();
        for table in Table::STREAMED.into_iter().filter(|it| !it.is_optional()) {
            assert!(made.tables.contains_key(table.as_str()), "{table} is lost");
            assert!(moved.join(table.parquet_file()).exists(), "{table}");
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn what_is_found_out_is_kept_in_no_other_capture() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let path = dir.path().join(name);
            let (ours, mut info) = recorded(&path);
            complete(&ours, &mut info, None).unwrap();
            (path, ours)
        });
        let before = fs::read(other.0.join("capture.json")).unwrap();
        let kept = keep_carried(&other.0, one.1.id(), Carried::default());
        assert!(
            matches!(kept, Err(CaptureWriteError::Removed { .. })),
            "{kept:?}"
        );
        assert_eq!(fs::read(other.0.join("capture.json")).unwrap(), before);
        keep_carried(&other.0, other.1.id(), Carried::default()).unwrap();
        assert_ne!(fs::read(other.0.join("capture.json")).unwrap(), before);
    }
}
