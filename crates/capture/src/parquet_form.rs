//! The Parquet form of a table: how it is encoded, and how it is opened again.
//!
//! Every column is packed with zstd. Numbers that rarely repeat (times, durations, sums) are
//! stored as differences (`DELTA_BINARY_PACKED`); the rest, which takes few values, by dictionary.
//! Pages are of version 1, which every reader knows.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;

use crate::footer;
use crate::table::{Column, Kind, Table};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 16 * 1024;

/// Level of zstd: the default of its authors.
const ZSTD_LEVEL: i32 = 3;

/// How a table is written.
pub(crate) fn properties(table: Table) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_max_row_group_row_count(Some(row_group_rows(table)))
        .set_created_by(format!("haltwise {}", env!("CARGO_PKG_VERSION")));
    for column in table.columns().iter().filter(|column| is_delta(column)) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

/// Rows of a row group: what a writer must hold in memory, and what a reader can skip.
pub(crate) fn row_group_rows(table: Table) -> usize {
    match table {
        Table::HaltCounts => 16 * 1024,
        _ => 512 * 1024,
    }
}

/// Whether a column's values rarely repeat.
fn is_delta(column: &Column) -> bool {
    column.kind == Kind::U64
}

/// Opens the Parquet form of a table.
pub(crate) fn open<R: ChunkReader + 'static>(
    table: Table,
    reader: R,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    // The Arrow schema that a writer may have put into the file is not trusted: the types come
    // from Parquet's own schema, and names are read as dictionaries.
    let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    footer::check(&reader)?;
    let metadata = ArrowReaderMetadata::load(&reader, options())?;
    let schema = with_dictionaries(table, metadata.schema());
    let metadata = ArrowReaderMetadata::try_new(
        Arc::clone(metadata.metadata()),
        options().with_schema(Arc::new(schema)),
    )?;
    ParquetRecordBatchReaderBuilder::new_with_metadata(reader, metadata)
        .with_batch_size(BATCH_ROWS)
        .build()
}

/// How many rows the footer of a Parquet file promises.
pub(crate) fn rows<R: ChunkReader>(reader: &R) -> Result<u64, ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    footer::check(reader)?;
    let metadata = ArrowReaderMetadata::load(reader, options)?;
    let rows = metadata.metadata().file_metadata().num_rows();
    u64::try_from(rows).map_err(|_| ParquetError::General(format!("{rows} rows")))
}

/// The schema found, with our columns of names as dictionaries.
fn with_dictionaries(table: Table, found: &Schema) -> Schema {
    let is_name = |field: &Field| {
        let column = table.columns().iter().find(|c| c.name == field.name());
        column.is_some_and(|column| column.kind == Kind::Name)
    };
    let fields: Vec<Field> = found
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Utf8 if is_name(field) => {
                let dictionary =
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                field.as_ref().clone().with_data_type(dictionary)
            }
            _ => field.as_ref().clone(),
        })
        .collect();
    Schema::new(fields)
}
