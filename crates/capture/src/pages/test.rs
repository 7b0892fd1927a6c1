//! Headers of pages: what passes, and what is refused. Columns of several pages, in both versions.

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::ZstdLevel;
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::*;
use crate::parquet_form::{Wanted, open_wanted};
use crate::table::{Column, Kind};

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

/// The header of a data page; `more` comes before its end.
fn data_page(unpacked: i64, packed: i64, values: i64, more: &[u8]) -> Vec<u8> {
    [
        &[0x15, 0, 0x15][..],
        &number(unpacked),
        &[0x15],
        &number(packed),
        &[0x2c, 0x15], // field 5, its field 1
        &number(values),
        &[0x15, 0, 0x15, 6, 0x15, 6, 0], // three encodings, stop
        more,
        &[0],
    ]
    .concat()
}

/// The header of a page of this type, with these numbers from field 1 of the structure in `field` on.
fn page(field: u8, kind: i64, unpacked: i64, packed: i64, numbers: &[i64]) -> Vec<u8> {
    let mut bytes = [&[0x15], &number(kind)[..], &[0x15]].concat();
    bytes.extend([number(unpacked), vec![0x15]].concat());
    bytes.extend(number(packed));
    bytes.push(((field - 3) << 4) | 0xc);
    for value in numbers {
        bytes.push(0x15);
        bytes.extend(number(*value));
    }
    bytes.extend([0, 0]);
    bytes
}

/// Length of a header at the start of a file, before a body.
fn given(header: &[u8]) -> Result<u64, String> {
    let file = Bytes::from([header.to_vec(), vec![0xaa; 1 << 20]].concat());
    let read = Header::read(&file, 0, file.len() as u64);
    read.map(|(_, bytes)| bytes)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn refused(header: &[u8], what: &str) {
    let error = given(header).unwrap_err();
    let place = "the page header at 0 ";
    assert!(error.contains(place) && error.contains(what), "{error}");
}

#[test]
fn a_header_ends_where_its_structure_does() {
    for header in [
        data_page(100, 40, 20, &[]),
        data_page(
            MAX_PAGE.into(),
            (MAX_PAGE / MAX_RATIO).into(),
            MAX_VALUES.into(),
            &[],
        ),
        data_page(0, 0, 20, &[]),
        page(7, 2, 80, 40, &[80, 0]),
        page(8, 3, 80, 40, &[20, 0, 20, 0, 40, 40]),
        // A field of a later version: a structure with a list of two numbers.
        data_page(100, 40, 20, &[0x9c, 0x19, 0x25, 2, 4, 0]),
    ] {
        assert_eq!(given(&header).unwrap(), header.len() as u64);
    }
}

#[test]
fn lists_of_booleans_and_maps_are_refused() {
    // An unknown field with 2^31 - 1 booleans: half a minute of the decoder.
    let many = [0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&data_page(100, 40, 20, &many), "a list of 2147483647");
    refused(&data_page(100, 40, 20, &[0x99, 0x21, 1, 1]), "a list of 2 ");
    refused(&data_page(100, 40, 20, &[0x9b, 0]), "a map");
    // In statistics, which the decoder skips, and in the place of a number, which it does not.
    let inside = [0x1c, 0x9c, 0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&inside, "gives field 1 of PageHeader type 12");
    let inside = [0x5c, 0x5c, 0xa9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&inside, "a list of 2147483647");
}

#[test]
fn one_more_than_the_bounds_is_refused() {
    let of = |unpacked, packed, values| data_page(unpacked, packed, values, &[]);
    let [page, ratio, values] = [MAX_PAGE, MAX_RATIO, MAX_VALUES].map(i64::from);
    refused(&of(page + 1, 1 << 10, 1), "claims 16777217 bytes");
    refused(&of(ratio + 1, 1, 1), "claims 32769 bytes, more than 32768");
    refused(&of(1, 0, 1), "claims 1 bytes, more than 0");
    refused(&of(1, 1, values + 1), "claims 67108865 values");
    refused(&of(1, 2 << 20, 1), "claims 2097152 bytes, more than");
    refused(
        &self::page(7, 2, 80, 40, &[81, 0]),
        "claims 81 values, more than 80",
    );
    refused(
        &self::page(8, 3, 80, 40, &[1, 0, 1, 0, 81, 0]),
        "81 bytes of levels",
    );
    refused(
        &self::page(8, 3, 80, 40, &[1, 0, 1, 0, 0, 81]),
        "81 bytes of levels",
    );
    for size in [-1, 1 << 31, (1 << 40) + 100] {
        refused(&of(100, size, 1), &format!("claims a size of {size}"));
    }
    // A dictionary with the header of a data page, and a page of a later kind.
    refused(
        &self::page(5, 2, 80, 40, &[1, 0, 3, 3]),
        "is of no known kind",
    );
    refused(
        &self::page(5, 4, 80, 40, &[1, 0, 3, 3]),
        "is of no known kind",
    );
}

#[test]
fn a_header_that_breaks_off_is_refused() {
    let header = data_page(100, 40, 20, &[]);
    for end in 0..header.len() {
        let file = Bytes::copy_from_slice(&header[..end]);
        assert!(Header::read(&file, 0, 1 << 20).is_err(), "{end} bytes");
    }
    let text = [&[0x98][..], &[0xff, 0xff, 0xff, 0xff, 0x07]].concat();
    refused(&data_page(1, 1, 1, &text), "ends inside a structure");
}

#[test]
fn a_chunk_that_is_not_in_the_file_is_refused() {
    let file = Arc::new(Bytes::from_static(&[0; 10]));
    let chunk = |start, length| Chunk::new(Arc::clone(&file), start, length, None);
    assert!(chunk(2, 8).is_ok());
    for (start, length) in [(2, 9), (11, 0), (0, u64::MAX), (u64::MAX, 1)] {
        let error = chunk(start, length).err().unwrap().to_string();
        assert!(error.contains("are not in the file"), "{error}");
    }
}

/// A file with a list in each row, in pages of three rows and row groups of ten, as other tools write it.
fn of_lists(version: WriterVersion, codec: Compression) -> (ArrayRef, Bytes) {
    let mut lists = ListBuilder::new(UInt64Builder::new());
    for row in 0..25 {
        lists.append_value((0..row % 4).map(|value| Some(100 * row + value)));
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let batch = RecordBatch::try_from_iter([("lists", Arc::clone(&lists))]).unwrap();
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codec)
        .set_data_page_row_count_limit(3)
        .set_write_batch_size(1)
        .set_max_row_group_row_count(Some(10))
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (lists, file.into())
}

#[test]
fn columns_of_several_pages_are_read_in_all_their_forms() {
    let columns = [Column {
        name: "lists",
        kind: Kind::Numbers,
        ..crate::costs::COLUMNS[0]
    }];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for codec in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(ZstdLevel::default()),
        ] {
            let (lists, file) = of_lists(version, codec);
            for from in [0, 1] {
                let metadata = crate::footer::read(&file).unwrap();
                let wanted = Wanted {
                    columns: &columns,
                    texts_by_key: false,
                    batch_rows: 7,
                };
                let reader = open_wanted(&wanted, file.clone(), metadata, from).unwrap();
                let mut row = 10 * from;
                for batch in reader {
                    let batch = batch.unwrap();
                    let expected = lists.slice(row, batch.num_rows());
                    assert_eq!(
                        batch.column(0).to_data(),
                        expected.to_data(),
                        "{version:?} {codec:?}"
                    );
                    row += batch.num_rows();
                }
                assert_eq!(row, 25, "{version:?} {codec:?}");
            }
        }
    }
}
