//! Prints each halt of a capture as a line of CSV, in the order of the capture: `capture-halts DIR`.
//!
//! For tests that compare two captures of the same time. No example: these need what tests need, and
//! building that takes minutes.
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::fmt::Display;
use std::path::Path;

use haltwise_capture::capture::Capture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: capture-halts DIR")?;
    println!("tid,start_ns,halt_ns,waited,change,window_ns,window_next_ns,wake,polled,poll_ns");
    for halt in Capture::open(Path::new(&directory))?.as_stored().halts()? {
        let halt = halt?;
        println!(
            "{},{},{},{},{},{},{},{},{},{}",
            halt.tid.0,
            halt.start_ns,
            halt.halt_ns,
            halt.waited,
            halt.change.as_str(),
            known(halt.window_ns),
            known(halt.window_next_ns),
            halt.wake.as_str(),
            known(halt.polled),
            known(halt.poll_ns),
        );
    }
    Ok(())
}

/// Unknown values are empty fields.
fn known(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
