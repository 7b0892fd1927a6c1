//! The Parquet form of a table: how it is encoded, and how it is opened again.
//!
//! Every column is packed with zstd. Numbers that rarely repeat (times, durations, sums) are
//! stored as differences (`DELTA_BINARY_PACKED`); the rest, which takes few values, by dictionary.
//! Pages are of version 1, which every reader knows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;

use crate::footer;
use crate::info::{CaptureInfo, Clock};
use crate::pages::Chunks;
use crate::table::{Column, Kind, Table};

const BATCH_ROWS: usize = 16 * 1024;

/// Level of zstd: the default of its authors.
const ZSTD_LEVEL: i32 = 3;

/// The size at which a page or a dictionary ends, in bytes: the default of parquet 60.1, said here
/// because what a reader takes for possible hangs on it (`pages::MAX_PAGE`).
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Rows at which a page ends: likewise, for `pages::MAX_VALUES`.
const PAGE_ROWS: usize = 20_000;

/// Longest text that is written, in bytes. A page holds a text whole, so a reader's bound on pages
/// needs one. Texts are names of VMs, at most one argument of a command line (Linux: 32 pages of
/// memory, `MAX_ARG_STRLEN`), values of settings, and our own words.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// Before the version in `created_by`. Other programs copy the other metadata, and not this.
const CREATOR: &str = "haltwise ";

pub(crate) fn properties(
    table: Table,
    info: &CaptureInfo,
) -> Result<WriterProperties, ParquetError> {
    properties_of(table.columns(), row_group_rows(table), about(table, info))
}

/// The same of any columns, in row groups of so many rows, with what the file says of itself.
pub(crate) fn properties_of(
    columns: &[Column],
    row_group_rows: usize,
    about: Vec<KeyValue>,
) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_size_limit(PAGE_BYTES)
        .set_dictionary_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_max_row_group_row_count(Some(row_group_rows))
        .set_key_value_metadata(Some(about))
        .set_created_by(format!("{CREATOR}{}", env!("CARGO_PKG_VERSION")));
    for column in columns.iter().filter(|column| is_delta(column)) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

/// Metadata of a table, so that the table can be read without `capture.json`.
fn about(table: Table, info: &CaptureInfo) -> Vec<KeyValue> {
    let Clock {
        start_monotonic_ns,
        start_unix_ns,
        ..
    } = info.clock;
    let entry = |key: &str, text: String| KeyValue::new(format!("haltwise.{key}"), text);
    let mut about = vec![
        entry("schema", info.schema.to_string()),
        entry("table", table.to_string()),
        entry("kernel_release", info.host.kernel_release.clone()),
        entry("clock", "CLOCK_MONOTONIC".to_owned()),
        entry("start_monotonic_ns", start_monotonic_ns.to_string()),
        entry("start_unix_ns", start_unix_ns.to_string()),
        entry("checksums", "capture.json".to_owned()),
    ];
    about.extend(
        info.host
            .hostname
            .clone()
            .map(|name| entry("hostname", name)),
    );
    about
}

/// Rows of a row group, which is decoded at once: what a writer must hold in memory, and what damage costs.
pub(crate) fn row_group_rows(table: Table) -> usize {
    table.batch_rows().min(BATCH_ROWS)
}

fn is_delta(column: &Column) -> bool {
    column.kind == Kind::U64
}

/// Refuses what a reader would not take back.
pub(crate) fn check_texts(batch: &RecordBatch) -> Result<(), ParquetError> {
    let texts = batch.columns().iter().filter_map(|c| c.as_string_opt());
    for column in texts {
        let column: &StringArray = column;
        let longest = column.offsets().lengths().max().unwrap_or(0);
        if longest > MAX_TEXT {
            let what = format!("a text of {longest} bytes, more than {MAX_TEXT}");
            return Err(ParquetError::General(what));
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The columns; others are not decoded.
    pub(crate) columns: &'a [Column],
    pub(crate) texts_by_key: bool,
    pub(crate) batch_rows: usize,
}

pub(crate) fn open<R: ChunkReader + Clone + 'static>(
    table: Table,
    reader: R,
    from: usize,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let metadata = footer::read(&reader)?;
    let wanted = Wanted {
        columns: table.columns(),
        texts_by_key: false,
        batch_rows: row_group_rows(table),
    };
    open_wanted(&wanted, reader, metadata, from)
}

/// Opens these columns of a file with this footer, from a row group on.
pub(crate) fn open_wanted<R: ChunkReader + Clone + 'static>(
    of: &Wanted<'_>,
    reader: R,
    metadata: Arc<ParquetMetaData>,
    from: usize,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    check_codecs(of.columns, &metadata)?;
    // The Arrow schema that a writer may have put into the file is not trusted: the types come
    // from Parquet's own schema, and names are read as dictionaries.
    let columns = metadata.file_metadata().schema_descr_ptr();
    let schema = with_dictionaries(of, &parquet_to_arrow_schema(&columns, None)?);
    let roots = ProjectionMask::roots(&columns, wanted(of, &schema)?);
    let fields = parquet_to_arrow_field_levels(&columns, roots, Some(schema.fields()))?;
    let chunks = Chunks::new(reader, metadata, from)?;
    let most = chunks.num_rows().min(of.batch_rows);
    ParquetRecordBatchReader::try_new_with_row_groups(&fields, &chunks, most, None)
}

/// Refuses columns that are packed as nothing here unpacks, by the name of that codec: tools that rewrite a
/// table choose their own.
fn check_codecs(columns: &[Column], metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let groups = metadata.row_groups().iter();
    for column in groups.flat_map(RowGroupMetaData::columns) {
        let name = column.column_path().parts().first();
        let is_ours = |name: &String| columns.iter().any(|c| c.name == *name);
        let Some(name) = name.filter(|name| is_ours(name)) else {
            continue;
        };
        let codec = match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => continue,
            codec => codec.to_string(),
        };
        let codec = codec.split('(').next().unwrap_or_default();
        let what = format!(
            "column {name} is compressed with {codec}: ZSTD, SNAPPY and UNCOMPRESSED are read, so write the file \
             with one of these (Spark: spark.sql.parquet.compression.codec=zstd; pandas, DuckDB: compression zstd)"
        );
        return Err(ParquetError::NYI(what));
    }
    Ok(())
}

pub(crate) struct Promised {
    pub(crate) rows: u64,
    /// haltwise wrote the file, and its checksums to `capture.json`.
    pub(crate) is_summed: bool,
}

pub(crate) fn promised<R: ChunkReader>(reader: &R) -> Result<Promised, ParquetError> {
    let footer = footer::read(reader)?;
    let file = footer.file_metadata();
    let rows = file.num_rows();
    let is_ours = |name: &str| name.starts_with(CREATOR);
    let mut entries = file.key_value_metadata().into_iter().flatten();
    Ok(Promised {
        rows: u64::try_from(rows).map_err(|_| ParquetError::General(format!("{rows} rows")))?,
        is_summed: file.created_by().is_some_and(is_ours)
            && entries.any(|entry| entry.key == "haltwise.checksums"),
    })
}

/// The row after each row group, as the footer of a Parquet file has them.
pub(crate) fn row_group_ends<R: ChunkReader>(reader: &R) -> Result<Vec<u64>, ParquetError> {
    let metadata = footer::read(reader)?;
    let mut end = 0_u64;
    let mut ends = Vec::new();
    for group in metadata.row_groups() {
        let rows = u64::try_from(group.num_rows());
        let rows =
            rows.map_err(|_| ParquetError::General("a group of less than no rows".to_owned()))?;
        end = end.saturating_add(rows);
        ends.push(end);
    }
    Ok(ends)
}

/// The columns found that are ours, by place. Others are not decoded; nor are lists in the place of
/// plain values, of which one row may claim any number.
fn wanted(of: &Wanted<'_>, found: &Schema) -> Result<Vec<usize>, ParquetError> {
    let mut wanted = Vec::new();
    for (place, field) in found.fields().iter().enumerate() {
        let ours = of.columns.iter().find(|c| c.name == field.name());
        let Some(column) = ours else { continue };
        if field.data_type().is_nested() && column.kind != Kind::Numbers {
            let (name, kind) = (column.name, column.kind.as_str());
            let what = format!("column {name} is {}, not {kind}", field.data_type());
            return Err(ParquetError::General(what));
        }
        wanted.push(place);
    }
    Ok(wanted)
}

/// The schema found, with our columns of names as dictionaries.
fn with_dictionaries(of: &Wanted<'_>, found: &Schema) -> Schema {
    let is_name = |field: &Field| {
        let column = of.columns.iter().find(|c| c.name == field.name());
        let is_keyed = |kind| kind == Kind::Name || (of.texts_by_key && kind == Kind::Text);
        column.is_some_and(|column| is_keyed(column.kind))
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

#[cfg(test)]
mod test;
