//! Prints the exact medians of a capture's halts as JSON: `medians DIR`.
//!
//! An example of reading a capture, and what `bench/overhead.py truth` compares with the lab's clock.
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::path::Path;

use haltwise_capture::capture::Capture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: medians DIR")?;
    let (mut gaps, mut latencies) = (Vec::new(), Vec::new());
    for halt in Capture::open(Path::new(&directory))?.halts()? {
        let halt = halt?;
        gaps.extend(halt.gap_ns());
        latencies.extend(halt.wake_latency_ns.filter(|_| halt.waited));
    }
    let median = |values: &mut Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let (halts, waits) = (gaps.len(), latencies.len());
    let medians = serde_json::json!({
        "halts": halts,
        "waits": waits,
        "gap_ns": median(&mut gaps),
        "wake_latency_ns": median(&mut latencies),
    });
    println!("{medians}");
    Ok(())
}
