//! The footer: what is refused, by whatever way it hides, and that an honest one passes.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// A file of nothing but this footer.
fn file(footer: &[u8]) -> Bytes {
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    Bytes::from([footer, &length, b"PAR1"].concat())
}

fn error(file: &Bytes) -> String {
    read(file).unwrap_err().to_string()
}

/// A list of booleans, 2^31 - 1 of them, as the value of a field.
const MANY: [u8; 6] = [0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];

#[test]
fn a_list_longer_than_the_footer_is_refused() {
    let footer = [&[0x19][..], &MANY, &[0]].concat();
    // Field 1 is a number; field 10 is not known.
    let unknown = [&[0xa9][..], &MANY, &[0]].concat();
    let what = "the footer of 8 bytes gives field 1 of FileMetaData type 9";
    assert!(error(&file(&footer)).contains(what));
    let what = "the footer of 8 bytes claims a list of 2147483647 elements";
    assert!(error(&file(&unknown)).contains(what));
}

#[test]
fn a_list_behind_a_field_of_another_type_is_refused() {
    // Field 1, `version`, declared as six bytes of text. The decoder reads a number there whatever
    // is declared, and goes on with what the text hides.
    let hidden = [&[0x18, 8, 0xa9][..], &MANY, &[0, 0]].concat();
    assert!(error(&file(&hidden)).contains("gives field 1 of FileMetaData type 8"));
}

#[test]
fn a_list_behind_an_odd_stop_is_refused() {
    // The decoder takes any byte with an empty lower half for a stop.
    let hidden = [&[0xac, 0x50, 0x19][..], &MANY, &[0]].concat();
    assert!(error(&file(&hidden)).contains("claims a list of 2147483647 elements"));
}

#[test]
fn a_footer_that_breaks_off_is_refused() {
    for (footer, what) in [
        (&[][..], "ends inside a structure"),
        (&[0x15], "ends inside a structure"),
        (&[0x15, 0xff], "ends inside a structure"),
        (&[0xae], "holds a value of type 14"),
        (&[0xab, 0], "claims a map"),
        (&[0xac; 200], "claims a structure without end"),
    ] {
        let error = error(&file(footer));
        assert!(error.contains(what), "{footer:?}: {error}");
    }
}

#[test]
fn what_has_no_footer_is_refused() {
    for (bytes, what) in [
        (&b"PAR1"[..], "ends before its footer"),
        (b"\0\0\0\0PARX", "Corrupt footer"),
        (b"\0\0\0\0PARE", "encrypted"),
        (
            b"\x09\0\0\0PAR1",
            "a footer of 9 bytes in a file of 8 bytes",
        ),
    ] {
        let error = error(&Bytes::from_static(bytes));
        assert!(error.contains(what), "{bytes:?}: {error}");
    }
}

/// A file of parquet's own writer with a column of each type and logical type.
fn of_all_kinds() -> Vec<u8> {
    let schema = "message all {
        required boolean a; optional int32 b (DECIMAL(9,2)); optional int64 c (TIMESTAMP(NANOS,true));
        required binary d (STRING); optional group e (LIST) { repeated group list {
        optional int32 element (INTEGER(8,true)); } } required fixed_len_byte_array(16) f (UUID);
        required double g; required int32 h (TIME(MILLIS,false)); required binary i (JSON);
        required int32 j (DATE); required fixed_len_byte_array(2) k (FLOAT16); required int96 l; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![parquet::file::metadata::KeyValue::new(
            "a".into(),
            "b".to_owned(),
        )]))
        .set_sorting_columns(Some(vec![parquet::file::metadata::SortingColumn {
            column_idx: 0,
            descending: true,
            nulls_first: false,
        }]))
        .build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(column) = group.next_column().unwrap() {
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn a_footer_with_everything_passes() {
    let read = read(&Bytes::from(of_all_kinds())).unwrap();
    let columns = read.file_metadata().schema_descr().columns().to_vec();
    assert_eq!(columns.len(), 12);
    assert_eq!(columns[11].physical_type(), Type::INT96);
    assert_eq!(read.file_metadata().key_value_metadata().unwrap().len(), 1);
    assert_eq!(read.row_group(0).sorting_columns().unwrap().len(), 1);
}
