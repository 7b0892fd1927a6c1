//! All that can still be read of one table, whatever is damaged in it.
//!
//! Readers of a capture stop at the first damage. Here what comes after it is read too: of a stream the frames from the
//! next whole one on, of a Parquet file the row groups behind the damaged one.

use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::Path;

use arrow_array::RecordBatch;

use crate::batches::{BatchError, Batches, StreamBatches, open};
use crate::capture::is_parquet;
use crate::columns::Columns;
use crate::error::{CaptureReadError, TableFile, with_sources};
use crate::frames::Frames;
use crate::parquet_form;
use crate::sums::Sums;
use crate::tables::Row;

/// A place of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes from the start of the file. `None` where only the whole is known to be wrong.
    pub offset: Option<u64>,
    /// How many bytes are left out.
    pub bytes: Option<u64>,
    /// How many rows are left out.
    pub rows: Option<u64>,
    pub what: String,
}

/// The rows of a table that can be read, batch by batch.
pub(crate) struct Salvage<R> {
    file: TableFile,
    /// `None` once it has been read.
    source: Option<Source>,
    pub(crate) rows: u64,
    /// Bytes at the end of a stream that are no whole batch, once it has been read.
    pub(crate) torn_bytes: u64,
    /// Whether the file has checksums, as far as it was read.
    pub(crate) is_summed: bool,
    pub(crate) damage: Vec<Damage>,
    row: PhantomData<R>,
}

enum Source {
    Stream(Box<StreamBatches<BufReader<File>>>),
    Parquet(Groups),
}

struct Groups {
    sums: Option<Sums>,
    /// The row after each group, counted in the file.
    ends: Vec<u64>,
    first_row: u64,
    batches: Batches,
}

impl<R: Row> Salvage<R> {
    pub(crate) fn open(path: &Path, sums: Option<Sums>) -> Self {
        let mut salvage = Self {
            file: TableFile {
                table: R::TABLE,
                path: path.to_owned(),
            },
            source: None,
            rows: 0,
            torn_bytes: 0,
            is_summed: sums.is_some(),
            damage: Vec::new(),
            row: PhantomData,
        };
        let opened = if is_parquet(path) {
            salvage.groups(sums).map(Source::Parquet)
        } else {
            salvage.stream().map(Source::Stream)
        };
        match opened {
            Ok(source) => salvage.source = Some(source),
            Err(error) => salvage.damage.push(whole(&error)),
        }
        salvage
    }

    fn stream(&self) -> Result<Box<StreamBatches<BufReader<File>>>, CaptureReadError> {
        let frames = Frames::new(BufReader::new(open(&self.file.path)?));
        let frames = frames.map_err(CaptureReadError::io("read", &self.file.path))?;
        Ok(Box::new(StreamBatches::new(frames)))
    }

    fn groups(&self, sums: Option<Sums>) -> Result<Groups, CaptureReadError> {
        let (file, opened) = (|| self.file.clone(), open(&self.file.path)?);
        let ends = Batches::of_footer(file(), opened, sums.clone(), parquet_form::row_groups)?;
        Ok(Groups {
            ends,
            first_row: 0,
            batches: Batches::of_file(file(), sums.clone())?,
            sums,
        })
    }

    /// The next rows; what is damaged before them is noted.
    pub(crate) fn next_rows(&mut self) -> Option<Vec<R>> {
        loop {
            let batch = match self.source.take()? {
                Source::Stream(stream) => self.next_of_stream(stream),
                Source::Parquet(groups) => self.next_of_groups(groups),
            };
            let Some(batch) = batch else { continue };
            let columns = Columns {
                batch: &batch,
                file: &self.file,
                first_row: self.rows,
            };
            match R::read(&columns, R::TABLE.as_str()) {
                Ok(rows) => {
                    self.rows = self.rows.saturating_add(rows.len() as u64);
                    return Some(rows);
                }
                Err(error) => {
                    let rows = Some(batch.num_rows() as u64);
                    let damage = whole(&error);
                    self.damage.push(Damage { rows, ..damage });
                }
            }
        }
    }

    /// The next batch; none where there is damage, behind which the source goes on if it is there again.
    fn next_of_stream(
        &mut self,
        mut stream: Box<StreamBatches<BufReader<File>>>,
    ) -> Option<RecordBatch> {
        let next = stream.next_batch();
        if let Ok(Some(batch)) = next {
            self.source = Some(Source::Stream(stream));
            return Some(batch);
        }
        let mut goes_on = false;
        if let Err(error) = next {
            let (offset, what) = match error {
                BatchError::Frame(offset, what) => {
                    // A stream that cannot be searched has no next frame.
                    goes_on = stream.frames.skip_damage().unwrap_or(false);
                    (offset, what)
                }
                // The decoder is not asked again after it has refused a frame that was whole.
                error => (stream.frames.offset, error.to_string()),
            };
            let next = if goes_on {
                stream.frames.offset
            } else {
                stream.frames.end
            };
            self.damage.push(Damage {
                offset: Some(offset),
                bytes: Some(next.saturating_sub(offset)),
                rows: None,
                what,
            });
        } else {
            self.torn_bytes = stream.frames.end - stream.frames.offset;
        }
        self.is_summed = stream.frames.sealed == Some(true);
        self.source = goes_on.then_some(Source::Stream(stream));
        None
    }

    fn next_of_groups(&mut self, mut groups: Groups) -> Option<RecordBatch> {
        let error = match groups.batches.next()? {
            Ok(batch) => {
                self.source = Some(Source::Parquet(groups));
                return Some(batch);
            }
            Err(error) => error,
        };
        let row = groups.first_row.saturating_add(groups.batches.rows);
        let next = groups.ends.partition_point(|&end| end <= row) + 1;
        let mut end = groups.ends.get(next - 1).copied().unwrap_or(row);
        let opened = (next < groups.ends.len())
            .then(|| {
                let opened = open(&self.file.path)?;
                Batches::of_opened(self.file.clone(), opened, groups.sums.clone(), next)
            })
            .and_then(Result::ok);
        if let Some(batches) = opened {
            (groups.first_row, groups.batches) = (end, batches);
            self.source = Some(Source::Parquet(groups));
        } else {
            end = groups.ends.last().copied().unwrap_or(end).max(end);
        }
        self.damage.push(Damage {
            rows: Some(end - row),
            ..whole(&error)
        });
        None
    }
}

/// An error as damage; of how many rows is not known.
fn whole(error: &CaptureReadError) -> Damage {
    let (offset, what) = match error {
        CaptureReadError::Damaged { offset, what, .. } => (Some(*offset), what.clone()),
        other => (None, with_sources(other)),
    };
    Damage {
        offset,
        bytes: None,
        rows: None,
        what,
    }
}
