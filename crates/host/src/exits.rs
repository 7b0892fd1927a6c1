//! Options for recording exits, and the running kernel's names of exit reasons.
//!
//! The counting itself is in [`crate::bpf`]: only that source can.

use std::collections::BTreeSet;

use haltwise_core::exit::names;
use haltwise_core::exit::{Isa, Named, SubKey};

use crate::root::Root;
use crate::tracefs::Tracefs;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExitOptions {
    pub sub_keys: BTreeSet<SubKey>,
}

/// The names that the running kernel has and our tables have not, or have otherwise.
///
/// From the format file of its tracepoint; none where that cannot be read.
pub fn kernel_names(root: &Root) -> Vec<Named> {
    let event = match std::env::consts::ARCH {
        "s390x" => "kvm_s390_sie_exit",
        _ => "kvm_exit",
    };
    let tracefs = Tracefs::find(root).ok();
    let Some(text) = tracefs.and_then(|at| at.format_of("kvm", event).ok()) else {
        return Vec::new();
    };
    let sets: &[Isa] = match std::env::consts::ARCH {
        "x86_64" => &[Isa::Vmx, Isa::Svm],
        // Its format has two tables, the first of which is not the reasons'.
        "aarch64" => &[Isa::None, Isa::Arm64],
        "s390x" => &[Isa::S390],
        "loongarch64" => &[Isa::Loongarch],
        "powerpc64" => &[Isa::Powerpc],
        _ => &[],
    };
    let mut told = Vec::new();
    for (isa, table) in sets.iter().zip(symbol_tables(&text)) {
        for (reason, name) in table {
            if *isa != Isa::None && names::known(*isa, reason) != Some(&name) {
                let isa = *isa;
                told.push(Named { isa, reason, name });
            }
        }
    }
    told
}

/// The tables of `__print_symbolic` in a format file, in their order: `{ 12, "HLT" }` and so on.
/// An entry of another form is left out.
pub fn symbol_tables(format: &str) -> Vec<Vec<(u32, String)>> {
    let mut tables = Vec::new();
    for part in format.split("__print_symbolic(").skip(1) {
        // Tables of flags may follow; they are not numbers to compare with.
        let part = part.split("__print_flags(").next().unwrap_or_default();
        let entries = part.split('{').skip(1).filter_map(entry);
        tables.push(entries.collect());
    }
    tables
}

fn entry(text: &str) -> Option<(u32, String)> {
    let (number, rest) = text.split_once(',')?;
    let (inside, _) = rest.split_once('}')?;
    // The preprocessor leaves pieces of one name side by side: "KVM_EXIT_" "HLT".
    let name: String = inside.split('"').skip(1).step_by(2).collect();
    Some((number_of(number.trim())?, name))
}

/// As the preprocessor leaves numbers: decimal, hexadecimal, negative, or the sum of two.
fn number_of(text: &str) -> Option<u32> {
    let text = text.trim_matches(['(', ')']);
    if let Some((left, right)) = text.split_once('+') {
        return number_of(left.trim())?.checked_add(number_of(right.trim())?);
    }
    if let Some(digits) = text.strip_prefix('-') {
        return number_of(digits).map(u32::wrapping_neg);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod test;
