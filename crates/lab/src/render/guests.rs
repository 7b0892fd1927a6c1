//! The text of `haltwise-lab list`.

use std::fmt::Write as _;

use iced_x86::IcedError;

use crate::guest::{Guest, listing};

/// A line for each guest; with its disassembly and vectors if `verbose`.
pub fn guests(verbose: bool) -> Result<String, IcedError> {
    let mut text = String::new();
    for guest in Guest::all() {
        let _ = writeln!(text, "{guest:<18}{}", guest.purpose());
        if !verbose {
            continue;
        }
        let program = guest.program()?;
        for line in listing(&program).lines() {
            let _ = writeln!(text, "    {line}");
        }
        for (vector, ip) in &program.vectors {
            let _ = writeln!(text, "    vector {vector:#x} enters at {ip:04x}");
        }
        text.push('\n');
    }
    Ok(text)
}
