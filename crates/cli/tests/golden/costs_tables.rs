//! `fleet add` and `fleet show` on captures whose answers can be added up here: sums of tables.

use std::path::{Path, PathBuf};

use haltwise_capture::costs::Batch;
use haltwise_capture::costs::read::{Reader, Wants};
use haltwise_core::costs::{Half, Kind};
use serde_json::Value;

use super::{haltwise, home, schema};

const CAPTURES: [&str; 3] = ["transactional", "fleet", "over-committed"];

fn json(line: &str, code: i32) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let (text, found) = haltwise(&home(), &words);
    assert_eq!(found, Some(code), "{line}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// A lake of so many hosts, each with one of the captures.
fn lake(hosts: usize) -> tempfile::TempDir {
    let lake = tempfile::tempdir().unwrap();
    let path = lake.path().to_str().unwrap();
    for host in 0..hosts {
        let capture = format!("captures/{}", CAPTURES[host % CAPTURES.len()]);
        let name = format!("host-{host}");
        let label = format!("rack=r{}", host / 4);
        let line = format!(
            "fleet add {capture} --lake {path} --host {name} --label {label} --class web-*=web --json"
        );
        let said = json(&line, 0);
        schema::conforms("costs", &said);
        assert_eq!(said["tables"][0]["host"], name.as_str());
        assert_eq!(said["tables"][0]["date"], "2026-01-01");
    }
    lake
}

fn tables(lake: &Path) -> Vec<PathBuf> {
    haltwise_capture::costs::lake::files(&[lake.to_owned()]).unwrap()
}

/// Halts, polled, slept and latency of all rows of a kind on the half that validates.
fn by_hand(files: &[PathBuf], kind: Kind) -> [u64; 4] {
    let mut sums = [0; 4];
    for path in files {
        for batch in Reader::open(path, Wants::All).unwrap() {
            let batch = batch.unwrap();
            let batch = Batch::of(&batch, path, 0).unwrap();
            for row in batch.runs().flatten() {
                let of = batch.setting(row).unwrap().unwrap();
                if of.kind == kind && of.half == Half::Validate {
                    let row = batch.sums(row, batch.limits(row).unwrap()).unwrap();
                    let more = [row.halts, row.poll_ns, row.blocks, row.latency_ns];
                    sums.iter_mut()
                        .zip(more)
                        .for_each(|(sum, more)| *sum += more);
                }
            }
        }
    }
    sums
}

/// The output of `fleet show` is the sum of its tables, and conforms to the published schema.
#[test]
fn a_fleet_is_the_sum_of_its_tables() {
    let lake = lake(9);
    let path = lake.path().to_str().unwrap();
    let said = json(&format!("fleet show {path} --goal density --json"), 0);
    schema::conforms("fleet", &said);
    let files = tables(lake.path());
    assert_eq!(files.len(), 9);
    assert_eq!(said["read"]["hosts"], 9);
    assert_eq!(said["read"]["unit"], "host");
    let [halts, poll_ns, sleeps, latency_ns] = by_hand(&files, Kind::InForce);
    assert_eq!(said["read"]["halts"], halts);
    let in_force = &said["plans"][0];
    assert_eq!(in_force["plan"], "in-force");
    let latency = in_force["latency_mean_ns"].as_f64().unwrap();
    assert!((latency - latency_ns as f64 / halts as f64).abs() < 1e-6);
    // One host was calibrated like the other: none was, and each assumes its own cost of a sleep.
    let cost = in_force["cost_per_halt_ns"].as_f64().unwrap();
    assert!(cost >= poll_ns as f64 / halts as f64 && sleeps > 0);
    let recorded = by_hand(&files, Kind::Recorded);
    assert_eq!(recorded[0], halts, "what is replayed is what was recorded");
    // In whatever order and pieces they are named, the bytes are the same.
    let mut named: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    named.reverse();
    let line = format!("fleet show {} --goal density --json", named.join(" "));
    assert_eq!(json(&line, 0), said);
}
