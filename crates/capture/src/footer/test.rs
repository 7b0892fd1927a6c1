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

#[test]
fn what_the_decoder_would_read_otherwise_is_refused() {
    // A list of 2^31 - 1 booleans as the value of a field.
    const MANY: [u8; 6] = [0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    let behind = |field: &[u8]| [field, &MANY, &[0, 0]].concat();
    let list = "claims a list of 2147483647 elements";
    for (footer, what) in [
        // Field 1, `version`, is a number; field 10 is not known.
        (behind(&[0x19]), "gives field 1 of FileMetaData type 9"),
        (behind(&[0xa9]), list),
        // The decoder reads a number whatever is declared, here text, and goes on with what the text hides.
        (
            behind(&[0x18, 8, 0xa9]),
            "gives field 1 of FileMetaData type 8",
        ),
        // The decoder takes any byte with an empty lower half for a stop.
        (behind(&[0xac, 0x50, 0x19]), list),
        (vec![], "ends inside a structure"),
        (vec![0x15], "ends inside a structure"),
        (vec![0x15, 0xff], "ends inside a structure"),
        (vec![0xae], "holds a value of type 14"),
        (vec![0xab, 0], "claims a map"),
        (vec![0xac; 200], "claims a structure without end"),
    ] {
        let what = format!("the footer of {} bytes {what}", footer.len());
        let error = error(&file(&footer));
        assert!(error.contains(&what), "{footer:?}: {error}");
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
