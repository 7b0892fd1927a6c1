//! Reads an untrusted costs table: its footer and pages are checked before they are decoded, as
//! those of a capture are.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::columns::{COLUMNS, OF_HISTOGRAM};
use super::{SCHEMA, SCHEMA_KEY, SEALED_SCHEMA, seal};
use crate::contain::contain;
use crate::parquet_form::{self, Wanted};
use crate::sums::Checked;
use crate::table::{Column, Kind};
use crate::{files, footer};

const BATCH_ROWS: usize = 16 * 1024;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostsError {
    #[error("open {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read {path}")]
    Parquet {
        path: PathBuf,
        #[source]
        source: ParquetError,
    },
    #[error("read {path}, after row {row}: the decoder gave up: {what}")]
    Panicked {
        path: PathBuf,
        row: u64,
        what: String,
    },
    /// No haltwise wrote this, or none that this one knows.
    #[error("read {path}: {what}")]
    Refused { path: PathBuf, what: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    All,
    /// All but the histogram, which takes most of a file.
    Sums,
}

/// The batches of a costs table. Texts are dictionaries with keys of 32 bits. Stops after the first error.
pub struct Reader {
    path: PathBuf,
    /// `None` when there is nothing more, or after an error.
    decoder: Option<ParquetRecordBatchReader>,
    rows: u64,
    /// Columns of texts that are not decoded, since all their values are NULL.
    nulls: Vec<&'static str>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub fn open(path: &Path, wants: Wants) -> Result<Self, CostsError> {
        let path = path.to_owned();
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(CostsError::Io { path, source }),
        };
        let (decoder, nulls) = match contain(|| open(&path, file, wants)) {
            Ok(opened) => opened?,
            Err(what) => return Err(CostsError::Panicked { path, row: 0, what }),
        };
        Ok(Self {
            path,
            decoder: Some(decoder),
            rows: 0,
            nulls,
        })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The schema of its batches; after the last one, that of none.
    pub(crate) fn schema(&self) -> SchemaRef {
        let decoder = self.decoder.as_ref();
        decoder.map_or_else(|| Arc::new(Schema::empty()), RecordBatchReader::schema)
    }
}

type Opened = (ParquetRecordBatchReader, Vec<&'static str>);

fn open(path: &Path, file: File, wants: Wants) -> Result<Opened, CostsError> {
    let refused = |source| CostsError::Parquet {
        path: path.to_owned(),
        source,
    };
    let metadata = footer::read(&file).map_err(refused)?;
    check_schema(path, &metadata)?;
    check_sum(path, &file, &metadata)?;
    let is_wanted = |column: &&Column| wants == Wants::All || !OF_HISTOGRAM.contains(&column.name);
    let mut columns: Vec<Column> = COLUMNS.iter().filter(is_wanted).copied().collect();
    // Decoding NULLs as keys takes a third of the time of a fleet.
    let is_null = |column: &mut Column| {
        wants == Wants::Sums && column.kind == Kind::Text && is_null(&metadata, column.name)
    };
    let nulls: Vec<&str> = columns.extract_if(.., is_null).map(|it| it.name).collect();
    let wanted = Wanted {
        columns: &columns,
        texts_by_key: true,
        batch_rows: BATCH_ROWS,
    };
    // Its pieces are read by their place, without a duplicate of the descriptor for each.
    let decoder = (Checked::new(file, None).map_err(ParquetError::from))
        .and_then(|file| parquet_form::open_wanted(&wanted, file, metadata, 0));
    Ok((decoder.map_err(refused)?, nulls))
}

/// Whether the footer has no value of a column.
fn is_null(metadata: &ParquetMetaData, name: &str) -> bool {
    metadata.row_groups().iter().all(|group| {
        let is_it = |chunk: &&ColumnChunkMetaData| chunk.column_path().string() == name;
        let chunk = group.columns().iter().find(is_it);
        let nulls = chunk.and_then(|chunk| chunk.statistics()?.null_count_opt());
        nulls.is_some() && nulls == u64::try_from(group.num_rows()).ok()
    })
}

fn with_nulls(batch: &RecordBatch, names: &[&str]) -> Result<RecordBatch, ArrowError> {
    let texts = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let nulls = new_null_array(&texts, batch.num_rows());
    let mut fields = batch.schema().fields().to_vec();
    let mut columns = batch.columns().to_vec();
    for name in names {
        fields.push(Arc::new(Field::new(*name, texts.clone(), true)));
        columns.push(Arc::clone(&nulls));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn entry<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let entries = metadata.file_metadata().key_value_metadata();
    let mut entries = entries.into_iter().flatten();
    entries.find(|entry| entry.key == key)?.value.as_deref()
}

/// Refuses a file that has been changed since it was written, or lost the checksum that its schema demands.
fn check_sum(path: &Path, file: &File, metadata: &ParquetMetaData) -> Result<(), CostsError> {
    // pyarrow copies the entries of a file that it read into the one that it writes.
    let creator = metadata.file_metadata().created_by();
    if creator.is_some_and(|name| name.starts_with("parquet-cpp")) {
        return Ok(());
    }
    let schema = entry(metadata, SCHEMA_KEY).and_then(|text| text.parse::<u32>().ok());
    let path = path.to_owned();
    match entry(metadata, seal::KEY).map(|sum| seal::holds(file, sum)) {
        Some(Err(source)) => Err(CostsError::Io { path, source }),
        Some(Ok(true)) => Ok(()),
        None if schema.is_none_or(|schema| schema < SEALED_SCHEMA) => Ok(()),
        _ => {
            let what = "the checksum of its metadata is not that of the file: it is damaged, or another program \
                        changed it";
            let what = what.to_owned();
            Err(CostsError::Refused { path, what })
        }
    }
}

/// A file that another program rewrote may have lost its metadata; it is read by its columns.
fn check_schema(path: &Path, metadata: &ParquetMetaData) -> Result<(), CostsError> {
    let Some(found) = entry(metadata, SCHEMA_KEY) else {
        return Ok(());
    };
    match found.parse::<u32>() {
        Ok(schema) if (1..=SCHEMA).contains(&schema) => Ok(()),
        _ => {
            let found: String = found.chars().take(20).collect();
            Err(CostsError::Refused {
                path: path.to_owned(),
                what: format!(
                    "it has schema {found} of costs tables; this haltwise reads up to {SCHEMA}"
                ),
            })
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, CostsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut decoder = self.decoder.take()?;
        let path = || self.path.clone();
        let read = |batch: Result<RecordBatch, _>| match &*self.nulls {
            [] => batch,
            nulls => with_nulls(&batch?, nulls),
        };
        match contain(|| decoder.next().map(read)) {
            Err(what) => Some(Err(CostsError::Panicked {
                path: path(),
                row: self.rows,
                what,
            })),
            Ok(None) => None,
            Ok(Some(Err(error))) => Some(Err(CostsError::Parquet {
                path: path(),
                source: ParquetError::ArrowError(error.to_string()),
            })),
            Ok(Some(Ok(batch))) => {
                self.rows = self.rows.saturating_add(batch.num_rows() as u64);
                self.decoder = Some(decoder);
                Some(Ok(batch))
            }
        }
    }
}
