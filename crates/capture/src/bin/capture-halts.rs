//! Prints each halt of a capture as a line of JSON, in the order of the capture: `capture-halts DIR`.
//!
//! For tests that compare two captures of the same time. No example: these need what tests need, and
//! building that takes minutes.
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::path::Path;

use haltwise_capture::capture::Capture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: capture-halts DIR")?;
    for halt in Capture::open(Path::new(&directory))?.as_stored().halts()? {
        println!("{}", serde_json::to_string(&halt?)?);
    }
    Ok(())
}
