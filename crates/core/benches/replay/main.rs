//! How fast a replay is, next to its peers in the same run: `cargo bench -p haltwise-core`.
//!
//! | part | what is measured | what against |
//! |---|---|---|
//! | grid | KVM's rule under 1024 settings, halt-settings per second | a plain loop, `NumPy` |
//! | policy | ten million halts under one policy: survey, both starts, all figures | a second |
//!
//! Rounds are interleaved: each peer comes once in each, on the same halts. Printed are medians with
//! the interval that holds the true one in 95 of 100 cases. Peers must agree on what they computed.
//!
//! `--raw FILE` writes every round, `--load NAME` and `--part NAME` leave out others. Without `--bench`,
//! which `cargo bench` gives, all of it runs once on few halts, and the figures mean nothing.
//! Not measured: reading a capture.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod grid;
mod load;
mod numpy;
mod plain;
mod policy;
mod rounds;
mod settings;

use rounds::{Rounds, Scale};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).cloned()
    };
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let scale = if measures { Scale::FULL } else { Scale::SMOKE };
    let mut rounds = Rounds::default();
    let wanted = |part: &str| value("--part").is_none_or(|only| only == part);
    let is_wanted = |load: &&load::Load| value("--load").is_none_or(|only| only == load.name);
    let loads: Vec<&load::Load> = load::LOADS.iter().filter(is_wanted).collect();
    if wanted("grid") {
        grid::measure(&loads, &scale, &mut rounds);
    }
    if wanted("policy") {
        policy::measure(&loads, &scale, &mut rounds);
    }
    if let Some(path) = value("--raw") {
        std::fs::write(&path, rounds.csv()).expect("a file to write to");
    }
}
