//! Costs tables written and read back, and files that no writer produces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_array::{Array as _, RecordBatch};
use haltwise_core::costs::play::Figures;
use haltwise_core::costs::table::{self, Host, Row, VmOf};
use haltwise_core::hist::LogHist;
use haltwise_core::workload::SplitMix64;

use super::read::Wants;
use super::*;

#[path = "../../../core/src/costs/test/seeded.rs"]
mod seeded;
use seeded::Which;

fn host() -> Host {
    let (seed, host, day, vms) = (1, 1, 0, 0);
    seeded::table(Which {
        seed,
        host,
        day,
        vms,
    })
    .0
}

/// A few settings of three hosts with four VMs each, not all of which have what may not be known.
fn rows(seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in 0..3 {
        let (mut host, mut vms) = seeded::table(Which {
            seed,
            host: number,
            day: 0,
            vms: 4,
        });
        host.date = host.date.filter(|_| number > 0);
        host.cpu_model = host.cpu_model.filter(|_| number > 1);
        vms[0].0 = VmOf::default();
        vms[3].0.own_ceiling_ns = Some(50_000);
        for (_, costs) in &mut vms {
            costs.lines.truncate(6);
        }
        rows.extend(table::rows(&Arc::new(host), vms));
    }
    rows
}

/// The histogram of a row, where it was read.
fn latency(batch: &RecordBatch, row: usize) -> Option<LogHist> {
    let column = |name: &str| batch.column_by_name(name);
    let number = |name: &str| {
        let numbers = column(name)?.as_primitive::<UInt64Type>();
        numbers.is_valid(row).then(|| numbers.value(row))
    };
    let list = column("latency_hist")?.as_list::<i32>().value(row);
    let counts = list.as_primitive::<UInt64Type>().values().to_vec();
    LogHist::from_parts(counts, number("latency_sum")?, number("latency_max")?)
}

fn read(path: &Path) -> Result<Vec<Row>, CostsError> {
    read_as(path, Wants::All)
}

fn read_as(path: &Path, wants: Wants) -> Result<Vec<Row>, CostsError> {
    let mut reader = Reader::open(path, wants)?;
    let (mut rows, mut first_row) = (Vec::new(), 0);
    while let Some(batch) = reader.next() {
        let columns = batch?;
        let batch = Batch::of(&columns, path, first_row)?;
        first_row = reader.rows();
        for run in batch.runs() {
            let host = Arc::new(batch.host(run.start)?);
            let vm = Arc::new(batch.vm(run.start)?);
            let limits = batch.limits(run.start)?;
            for row in run {
                let Some(setting) = batch.setting(row)? else {
                    continue;
                };
                rows.push(Row {
                    host: Arc::clone(&host),
                    vm: Arc::clone(&vm),
                    kind: setting.kind,
                    knobs: setting.knobs,
                    half: setting.half,
                    figures: Figures {
                        sums: batch.sums(row, limits)?,
                        latency: latency(&columns, row).unwrap_or_default(),
                    },
                });
            }
        }
    }
    Ok(rows)
}

#[test]
fn rows_come_back_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("costs.parquet");
    let mut rows = rows(1);
    let (bytes, written) = encode(rows.iter().cloned()).unwrap();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(written, rows.len() as u64);
    assert_eq!(read(&path).unwrap(), rows);
    for row in &mut rows {
        row.figures.latency = Figures::default().latency;
    }
    assert_eq!(read_as(&path, Wants::Sums).unwrap(), rows);
    fs::write(&path, encode(std::iter::empty()).unwrap().0).unwrap();
    assert_eq!(read(&path).unwrap(), []);
}

/// The same with the checksum of what it is now, if the entry is still there.
fn sealed_anew(mut table: Vec<u8>) -> Vec<u8> {
    let key = b"crc32:";
    let at = table.windows(key.len()).rposition(|it| it == key);
    if let Some(digits) = at.and_then(|at| table.get_mut(at + key.len()..at + key.len() + 8)) {
        digits.fill(b'0');
    }
    seal::seal(table)
}

/// One flipped bit anywhere, and no figure is read.
#[test]
fn a_table_that_was_damaged_is_refused() {
    crate::contain::silence_contained_panics();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("costs.parquet");
    let (whole, _) = encode(rows(2).into_iter().take(20)).unwrap();
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(read(&path).is_err(), "byte {at}");
    }
    let key = whole.windows(14).rposition(|it| it == seal::KEY.as_bytes());
    let without = [&whole[..key.unwrap()], b"H", &whole[key.unwrap() + 1..]].concat();
    fs::write(&path, without).unwrap();
    let error = read(&path).unwrap_err();
    assert!(
        error.to_string().contains(": the checksum of its metadata"),
        "{error}"
    );
}

/// Whatever bytes are changed, cut or put in: an error that names the file, or rows that obey the format.
#[test]
fn no_file_makes_the_reader_panic() {
    crate::contain::silence_contained_panics();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("costs.parquet");
    let written = rows(2);
    let (whole, _) = encode(written.iter().cloned()).unwrap();
    let mut draw = SplitMix64(3);
    let mut below = |n: usize| usize::try_from(draw.below(n as u64)).unwrap();
    let (mut refused, mut read_through, mut unchanged) = (0, 0, 0);
    for turn in 0..400 {
        let mut bytes = whole.clone();
        match turn % 3 {
            0 => bytes.truncate(below(whole.len())),
            1 => {
                for _ in 0..=below(4) {
                    let at = below(whole.len());
                    bytes[at] ^= 1 << below(8);
                }
            }
            _ => {
                // The footer is where most depends on each byte.
                let at = whole.len() - 1 - below(whole.len().min(3_000));
                bytes[at] = u8::try_from(below(256)).unwrap();
            }
        }
        fs::write(&path, sealed_anew(bytes)).unwrap();
        match read(&path) {
            Err(error) => {
                assert!(error.to_string().contains("costs.parquet"), "{error}");
                refused += 1;
            }
            Ok(found) => {
                assert!(found.len() <= written.len());
                for row in &found {
                    let sums = &row.figures.sums;
                    assert!(sums.failed_polls <= sums.blocks && sums.blocks <= sums.halts);
                    assert_eq!(row.knobs.is_some(), row.kind.has_knobs());
                }
                read_through += 1;
                unchanged += u32::from(found == written);
            }
        }
    }
    assert!(
        refused > 100 && unchanged > 10 && read_through > unchanged,
        "{refused} {read_through} {unchanged}"
    );
}

/// Sums that no halts have are an error with their place, and so is a setting without its parameters.
#[test]
fn rows_that_no_halts_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("costs.parquet");
    let whole = rows(2);
    let refused = |column: &str, change: fn(&mut Row)| {
        let mut rows = whole.clone();
        change(&mut rows[23]);
        fs::write(&path, encode(rows.into_iter()).unwrap().0).unwrap();
        let error = read(&path).unwrap_err();
        let place = format!("costs.parquet: column `{column}`, row 23: ");
        assert!(error.to_string().contains(&place), "{error}");
    };
    refused("sleeps", |row| {
        row.figures.sums.blocks = row.figures.sums.halts + 1;
    });
    refused("sleeps", |row| {
        row.figures.sums.failed_polls = row.figures.sums.blocks + 1;
    });
    refused("halt_poll_ns", |row| row.knobs = None);
    // More than the halts last, or than 64 CPUs can do in a day.
    refused("poll_ns", |row| row.figures.sums.poll_ns = u64::MAX);
    refused("latency_ns", |row| row.figures.sums.latency_ns = u64::MAX);
    refused("halts", |row| row.figures.sums.halts = u64::MAX);
    let polls = |row: &mut Row| {
        row.figures.sums.halt_ns = 8_000_000_000_000_000;
        row.figures.sums.poll_ns = 6_000_000_000_000_000;
    };
    refused("poll_ns", polls);
    refused("halt_ns", |row| row.figures.sums.halt_ns = u64::MAX);
    // Without a VM the number of vCPUs is unknown.
    let mut rows = whole.clone();
    assert_eq!(rows[11].vm.name, None);
    polls(&mut rows[11]);
    fs::write(&path, encode(rows.iter().cloned()).unwrap().0).unwrap();
    assert_eq!(read(&path).unwrap(), rows);
}

#[test]
fn other_schemas_and_other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let (whole, _) = encode(rows(2).into_iter()).unwrap();
    let text = b"haltwise.costs";
    let at = whole
        .windows(text.len())
        .rposition(|it| it == text)
        .unwrap();
    let mut newer = whole;
    // The value follows its key: a field, its length, the digit.
    let digit = newer[at..].iter().position(|byte| *byte == b'2').unwrap();
    newer[at + digit] = b'9';
    fs::write(&path, &newer).unwrap();
    let error = read(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it has schema 9 of costs tables"),
        "{error}"
    );
    fs::write(&path, b"PAR1 no table PAR1").unwrap();
    assert!(matches!(read(&path), Err(CostsError::Parquet { .. })));
    assert!(matches!(read(dir.path()), Err(CostsError::Io { .. })));
}

#[test]
fn a_host_of_any_name_has_one_directory_in_a_lake() {
    let dir = tempfile::tempdir().unwrap();
    for (name, directory) in [
        ("web-1.example", "host=web-1.example"),
        ("../../etc", "host=%2E.%2F..%2Fetc"),
        (".", "host=%2E"),
        ("", "host=__HIVE_DEFAULT_PARTITION__"),
        ("a=b c", "host=a%3Db%20c"),
    ] {
        let host = Host {
            name: name.to_owned(),
            start_unix_ns: 1_764_075_600_123_000_000,
            ..host()
        };
        let place = Path::new(directory).join("date=2026-11-01");
        let path = lake::path(dir.path(), &host);
        assert_eq!(path, dir.path().join(place).join("130000123.parquet"));
        lake::write(dir.path(), &host, &encode(rows(3).into_iter()).unwrap().0).unwrap();
        assert!(path.exists());
    }
    fs::write(dir.path().join(".hidden.parquet"), b"").unwrap();
    fs::write(dir.path().join("other.txt"), b"").unwrap();
    let found = lake::files(&[dir.path().to_owned(), dir.path().join("host=%2E")]).unwrap();
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found.is_sorted());
    assert!(lake::files(&[dir.path().join("absent")]).is_err());
}

/// A link of that name would have a root's table written elsewhere; what others may write to is not ours.
#[test]
fn a_lake_whose_directories_are_not_ours_is_not_written_to() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let refused = |what: &str| {
        let error = lake::write(dir.path(), &host(), b"table").unwrap_err();
        assert!(
            error.to_string().contains("host=host-00001"),
            "{what}: {error}"
        );
    };
    let at = dir.path().join("host=host-00001");
    std::os::unix::fs::symlink(elsewhere.path(), &at).unwrap();
    refused("a link");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::remove_file(&at).unwrap();
    fs::create_dir(&at).unwrap();
    fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
    refused("anybody's");
    fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
    lake::write(dir.path(), &host(), b"table").unwrap();
}
