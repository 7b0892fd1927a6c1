//! Headers of pages: what passes, and what is refused. Columns of several pages, in both versions.

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::ZstdLevel;
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::*;
use crate::parquet_form::{Wanted, open_wanted};

/// A number as the protocol writes it.
fn number(value: i64) -> Vec<u8> {
    let mut folded = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while folded >= 0x80 {
        bytes.push(u8::try_from(folded & 0x7f).unwrap() | 0x80);
        folded >>= 7;
    }
    bytes.push(u8::try_from(folded).unwrap());
    bytes
}

/// The header of a page of this type, with these numbers from field 1 of the structure in `field` on.
fn page(field: u8, kind: i64, unpacked: i64, packed: i64, numbers: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in [kind, unpacked, packed] {
        bytes.extend([vec![0x15], number(value)].concat());
    }
    bytes.push(((field - 3) << 4) | 0xc);
    for value in numbers {
        bytes.extend([vec![0x15], number(*value)].concat());
    }
    bytes.extend([0, 0]);
    bytes
}

fn data_page(unpacked: i64, packed: i64, values: i64) -> Vec<u8> {
    page(5, 0, unpacked, packed, &[values, 0, 3, 3])
}

/// Length of a header at the start of a file, before a body.
fn given(header: &[u8]) -> Result<u64, String> {
    let file = Bytes::from([header.to_vec(), vec![0xaa; 1 << 20]].concat());
    let read = Header::read(&file, 0, file.len() as u64);
    read.map(|(_, bytes)| bytes)
        .map_err(|error| error.to_string())
}

#[test]
fn a_header_ends_where_its_structure_does() {
    let [page_bytes, ratio, values] = [MAX_PAGE, MAX_RATIO, MAX_VALUES].map(i64::from);
    for header in [
        data_page(100, 40, 20),
        data_page(page_bytes, page_bytes / ratio, values),
        data_page(0, 0, 20),
        page(7, 2, 80, 40, &[80, 0]),
        page(8, 3, 80, 40, &[20, 0, 20, 0, 20, 20]),
    ] {
        assert_eq!(given(&header).unwrap(), header.len() as u64);
    }
}

#[test]
fn one_more_than_the_bounds_is_refused() {
    let [bytes, ratio, values] = [MAX_PAGE, MAX_RATIO, MAX_VALUES].map(i64::from);
    for (header, what) in [
        (data_page(bytes + 1, 1 << 10, 1), "claims 16777217 bytes"),
        (
            data_page(ratio + 1, 1, 1),
            "claims 32769 bytes, more than 32768",
        ),
        (data_page(1, 0, 1), "claims 1 bytes, more than 0"),
        (data_page(1, 1, values + 1), "claims 67108865 values"),
        (data_page(1, 2 << 20, 1), "claims 2097152 bytes, more than"),
        (
            page(7, 2, 80, 40, &[81, 0]),
            "claims 81 values, more than 80",
        ),
        (
            page(8, 3, 80, 40, &[1, 0, 1, 0, 81, 0]),
            "claims 81 bytes of levels",
        ),
        (
            page(8, 3, 80, 40, &[1, 0, 1, 0, 0, 81]),
            "claims 81 bytes of levels",
        ),
        (data_page(100, -1, 1), "claims a size of -1"),
        (data_page(100, 1 << 31, 1), "claims a size of 2147483648"),
        // The header's last structure with a field 15, a list of 2^31 - 1 booleans.
        (
            [
                &data_page(1, 1, 1)[..15],
                &[0xb9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7],
            ]
            .concat(),
            "claims a list of 2147483647 elements",
        ),
        // A dictionary with the structure of a data page, and a page of a later kind.
        (page(5, 2, 80, 40, &[1, 0, 3, 3]), "is of no known kind"),
        (page(5, 4, 80, 40, &[1, 0, 3, 3]), "is of no known kind"),
    ] {
        let error = given(&header).unwrap_err();
        let wanted = format!("the page header at 0 {what}");
        assert!(error.contains(&wanted), "{error}");
    }
}

#[test]
fn a_header_that_breaks_off_is_refused() {
    let header = data_page(100, 40, 20);
    for end in 0..header.len() {
        let file = Bytes::copy_from_slice(&header[..end]);
        assert!(Header::read(&file, 0, 1 << 20).is_err(), "{end} bytes");
    }
}

#[test]
fn a_chunk_that_is_not_in_the_file_is_refused() {
    let file = Bytes::from_static(&[0; 10]);
    let chunk = |start, length| Chunk::new(file.clone(), start, length, None);
    assert!(chunk(2, 8).is_ok());
    for (start, length) in [(2, 9), (11, 0), (0, u64::MAX), (u64::MAX, 1)] {
        let error = chunk(start, length).err().unwrap().to_string();
        assert!(error.contains("are not in the file"), "{error}");
    }
}

/// A file of lists, in pages of three rows and row groups of ten, as other tools write it.
fn file_of(rows: &RecordBatch, version: WriterVersion, codec: Compression) -> Bytes {
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codec)
        .set_data_page_row_count_limit(3)
        .set_write_batch_size(1)
        .set_max_row_group_row_count(Some(10));
    let mut file = Vec::new();
    let writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties.build()));
    let mut writer = writer.unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    file.into()
}

#[test]
fn columns_of_several_pages_are_read_in_all_their_forms() {
    let mut lists = ListBuilder::new(UInt64Builder::new());
    (0..25).for_each(|row| lists.append_value((0..row % 4).map(|value| Some(100 * row + value))));
    let lists: ArrayRef = Arc::new(lists.finish());
    let rows = RecordBatch::try_from_iter([("latency_hist", lists)]).unwrap();
    let wanted = Wanted {
        columns: crate::costs::COLUMNS,
        texts_by_key: false,
        batch_rows: 7,
    };
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for codec in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
            let file = file_of(&rows, version, codec);
            for (from, rest) in [(0, rows.clone()), (1, rows.slice(10, 15))] {
                let metadata = crate::footer::read(&file).unwrap();
                let reader = open_wanted(&wanted, file.clone(), metadata, from).unwrap();
                let mut row = 0;
                for batch in reader.map(Result::unwrap) {
                    let expected = rest.slice(row, batch.num_rows());
                    assert_eq!(batch.column(0), expected.column(0), "{version:?} {codec:?}");
                    row += batch.num_rows();
                }
                assert_eq!(row, rest.num_rows(), "{version:?} {codec:?}");
            }
        }
    }
}
