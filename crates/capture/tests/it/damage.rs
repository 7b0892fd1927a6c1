//! Captures that were cut, edited, replaced or made to harm: a clear error or note, never a panic.

use std::fs::{self, File};
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::convert::convert;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::note::Note;
use haltwise_capture::recording::Recording;
use haltwise_capture::table::Table;
use tempfile::TempDir;

use crate::common::{of_halts, some_halts, started};

/// A complete capture of 100 halts.
pub(crate) fn complete() -> TempDir {
    let dir = cut();
    convert(dir.path()).unwrap();
    dir
}

/// A capture of 100 halts in ten batches whose recorder went away.
fn cut() -> TempDir {
    under_way().0
}

/// A recording that holds 100 halts in ten batches.
pub(crate) fn under_way() -> (TempDir, Recording) {
    let (dir, mut recording) = started();
    for flush in some_halts(100).halts.chunks(10) {
        recording.append(&of_halts(flush.to_vec())).unwrap();
    }
    (dir, recording)
}

pub(crate) fn copy(file: &str, from: &TempDir, to: &TempDir) {
    fs::copy(from.path().join(file), to.path().join(file)).unwrap();
}

/// The first error of the table `halts`, with its causes.
pub(crate) fn halts_error(dir: &Path) -> String {
    let halts = Capture::open(dir).unwrap().halts();
    let error = match halts {
        Err(error) => error,
        Ok(mut rows) => rows.find_map(Result::err).expect("an error"),
    };
    format!("{:#}", anyhow::Error::from(error))
}

#[test]
fn two_vms_with_one_number_are_refused() {
    let dir = complete();
    let path = dir.path().join("capture.json");
    let text = unsummed(&fs::read_to_string(&path).unwrap());
    let mut fields: serde_json::Value = serde_json::from_str(&text).unwrap();
    let vm = serde_json::json!({
        "index": 0, "name": "web", "vmm": "qemu", "observable": { "state": "yes" },
        "key": { "pid": 1, "start_ticks": 1, "ordinal": 0 },
    });
    fields["roster"]["vms"] = vec![vm; 2].into();
    fs::write(&path, fields.to_string()).unwrap();
    let error = format!("{:#}", Capture::open(dir.path()).unwrap_err());
    assert!(
        error.contains("two of its VMs have the number 0"),
        "{error}"
    );
}

#[test]
fn a_schema_that_never_was_is_refused_and_new_fields_are_not() {
    let dir = complete();
    let path = dir.path().join("capture.json");
    // A writer of another schema has its own checksum, or none.
    let text = unsummed(&fs::read_to_string(&path).unwrap());
    fs::write(&path, text.replace("\"schema\":1", "\"schema\":0")).unwrap();
    let error = format!("{:#}", Capture::open(dir.path()).unwrap_err());
    assert!(error.contains("never written"), "{error}");
    let newer = text.replace("\"schema\":1", "\"schema\":1,\"weather\":[\"fair\"]");
    fs::write(&path, newer).unwrap();
    assert_eq!(Capture::open(dir.path()).unwrap().info().schema, 1);
}

#[test]
fn a_truncated_parquet_names_the_file_and_spares_the_others() {
    let dir = complete();
    let path = dir.path().join("halts.parquet");
    let bytes = fs::read(&path).unwrap();
    for length in [
        0,
        3,
        8,
        100,
        bytes.len() / 2,
        bytes.len() - 5,
        bytes.len() - 1,
    ] {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = halts_error(dir.path());
        assert!(
            error.contains("read table halts") && error.contains("halts.parquet"),
            "{error}"
        );
        let capture = Capture::open(dir.path()).unwrap();
        let unreadable = |note: &Note| matches!(note, Note::UnreadableTable { .. });
        assert!(
            capture.notes().iter().any(unreadable),
            "{:?}",
            capture.notes()
        );
        assert_eq!(capture.knobs().unwrap().count(), 0);
    }
}

#[test]
fn a_stream_that_is_damaged_inside_gives_the_rows_before_and_the_offset() {
    let dir = cut();
    let path = dir.path().join("halts.arrows");
    let good = fs::read(&path).unwrap();
    // A frame: the marker, then the length of its metadata, which is below 64 KiB.
    let is_frame = |i: &usize| {
        good[*i..].starts_with(&[0xff; 4]) && good[i - 1] != 0xff && good[i + 6..i + 8] == [0, 0]
    };
    let middle = (good.len() / 2..good.len() - 8).find(is_frame).unwrap();
    let mut bytes = good.clone();
    bytes[middle] = 7;
    fs::write(&path, &bytes).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    let rows: Vec<_> = capture.halts().unwrap().collect();
    let (last, before) = rows.split_last().unwrap();
    assert!(!before.is_empty() && before.len() % 10 == 0 && before.iter().all(Result::is_ok));
    let error = last.as_ref().unwrap_err().to_string();
    assert!(
        error.contains(&format!("offset {middle}: no frame starts here")),
        "{error}"
    );
    assert!(matches!(
        convert(dir.path()),
        Err(CaptureWriteError::Read(_))
    ));
    assert!(path.exists() && !dir.path().join("halts.parquet").exists());
}

#[test]
fn zeros_after_a_loss_of_power_are_a_torn_tail() {
    let dir = cut();
    let path = dir.path().join("halts.arrows");
    let length = fs::metadata(&path).unwrap().len();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(length + 5000)
        .unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.halts().unwrap().map(Result::unwrap).count(), 100);
    assert!(capture.notes().contains(&Note::TornTail {
        table: Table::Halts,
        path,
        offset: length,
        bytes: 5000
    }));
    convert(dir.path()).unwrap();
    let repaired = Capture::open(dir.path()).unwrap();
    assert_eq!(
        repaired.info().cut.as_ref().unwrap().torn_bytes["halts"],
        5000
    );
    assert_eq!(repaired.notes(), [Note::Cut]);
}

#[test]
fn a_stream_that_claims_huge_sizes_is_refused_before_any_allocation() {
    let dir = cut();
    let path = dir.path().join("halts.arrows");
    // A checksum would find the change first.
    let good = without_checksums(&fs::read(&path).unwrap());
    // The first packed buffer of the first batch: 8 bytes of unpacked length, then the LZ4 magic.
    let magic = good
        .windows(4)
        .position(|w| w == [0x04, 0x22, 0x4d, 0x18])
        .unwrap();
    for claim in [i64::MAX, 1 << 40, -2] {
        let mut bytes = good.clone();
        bytes[magic - 8..magic].copy_from_slice(&claim.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let error = halts_error(dir.path());
        assert!(error.contains("unpack"), "{claim}: {error}");
    }
}

/// A capture.json as it was before there were checksums.
pub(crate) fn unsummed(text: &str) -> String {
    let mut fields: serde_json::Value = serde_json::from_str(text).unwrap();
    let removed = ["checksums", "crc32"].map(|field| fields.as_object_mut().unwrap().remove(field));
    assert!(removed.iter().all(Option::is_some));
    fields.to_string()
}

/// A stream as it was before frames had checksums.
fn without_checksums(mut stream: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !stream.is_empty() {
        let length = u32::from_le_bytes(stream[4..8].try_into().unwrap()) as usize;
        let (metadata, seal) = stream[8..8 + length].split_last_chunk::<16>().unwrap();
        assert!(seal.starts_with(b"HWcs"));
        let body = arrow_ipc::root_as_message(metadata).unwrap().bodyLength();
        let body = usize::try_from(body).unwrap();
        plain.extend(&stream[..4]);
        plain.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
        plain.extend(metadata);
        plain.extend(&stream[8 + length..][..body]);
        stream = &stream[8 + length + body..];
    }
    plain
}

#[test]
fn captures_without_checksums_are_read_and_halves_of_them_are_not() {
    let dir = cut();
    let path = dir.path().join("halts.arrows");
    let sealed = fs::read(&path).unwrap();
    let plain = without_checksums(&sealed);
    fs::write(&path, &plain).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.notes(), [Note::Cut]);
    assert_eq!(capture.halts().unwrap().map(Result::unwrap).count(), 100);
    // The first frame with its checksum, the others without.
    let first = 8 + u32::from_le_bytes(sealed[4..8].try_into().unwrap()) as usize;
    fs::write(&path, [&sealed[..first], &plain[first - 16..]].concat()).unwrap();
    let error = halts_error(dir.path());
    assert!(
        error.contains("without the checksum that others have"),
        "{error}"
    );

    let dir = complete();
    let path = dir.path().join("capture.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, unsummed(&text)).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.notes(), [Note::Cut, Note::InfoChanged { path }]);
    assert_eq!(capture.halts().unwrap().map(Result::unwrap).count(), 100);
}

#[test]
fn parquet_that_was_made_before_a_crash_is_counted_once() {
    let (dir, done) = (cut(), complete());
    // The recorder died after the first table was converted, and before capture.json said so.
    copy("halts.parquet", &done, &dir);
    fs::write(dir.path().join("window_changes.parquet.tmp"), "half").unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.rows(Table::Halts), Some(100));
    assert_eq!(capture.halts().unwrap().map(Result::unwrap).count(), 100);
    assert_eq!(convert(dir.path()).unwrap().tables["halts"].rows, 100);
    // It died once more, before the streams were removed.
    copy("halts.arrows", &cut(), &dir);
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.halts().unwrap().map(Result::unwrap).count(), 100);
}

#[test]
fn a_panic_of_the_decoder_is_an_error() {
    let dir = complete();
    let seed = "../../fuzz/seeds/capture_parquet/negative_column_length";
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join(seed);
    fs::copy(seed, dir.path().join("halts.parquet")).unwrap();
    let error = halts_error(dir.path());
    assert!(
        error.contains("halts.parquet, after row 0: the decoder gave up: column"),
        "{error}"
    );
}
