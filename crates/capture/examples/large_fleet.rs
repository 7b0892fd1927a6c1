//! Writes the costs tables of a made-up fleet, one for each host and day, as a lake.
//!
//!     cargo run --release -p haltwise-capture --example large_fleet -- DIR 10000 28 1
//!
//! The numbers are hosts, VMs of each, and days; a fourth one is the seed. `bench/reading.py fleet` has them added up.
#![expect(clippy::print_stdout, reason = "prints what it measures")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use haltwise_capture::costs::{encode, lake};
use haltwise_core::costs::table::rows;

#[path = "../../core/src/costs/test/seeded.rs"]
mod seeded;
use seeded::{Which, table};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let directory = arguments.first().map_or("large-fleet", String::as_str);
    let (hosts, vms, days, seed) = (
        number(1, 100)?,
        number(2, 28)?,
        number(3, 1)?,
        number(4, 1)?,
    );
    let vms = u32::try_from(vms)?;
    let start = Instant::now();
    let (mut all_rows, mut all_bytes) = (0, 0);
    for host in 0..hosts {
        for day in 0..days {
            let which = Which {
                seed,
                host,
                day,
                vms,
            };
            let (of, vms) = table(which);
            let of = Arc::new(of);
            let (bytes, rows) = encode(rows(&of, vms))?;
            lake::write(Path::new(directory), &of, &bytes)?;
            all_rows += rows;
            all_bytes += bytes.len() as u64;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let tables = hosts * days;
    println!("{tables} tables, {all_rows} rows, {all_bytes} bytes in {seconds:.1} s");
    Ok(())
}
