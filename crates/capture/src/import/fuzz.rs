//! Entry point for fuzzing the reader of text: any bytes in, no panic, no halt that contradicts itself.

use haltwise_core::event::{CeilingSource, Facts};
use haltwise_core::fuzz::must_be_sound;
use haltwise_core::ids::VmIndex;
use haltwise_core::parameter::Parameter;

use super::lines::{Line, Lines};
use super::reading::Reading;
use super::told::GivenSettings;

/// Reads bytes as a text; gives how many halts come out. The number of bytes chooses what is told of
/// the host.
///
/// # Panics
/// If a halt contradicts itself.
pub fn import_text(bytes: &[u8]) -> u64 {
    let told = |bit: usize| bytes.len() >> bit & 1 != 0;
    let ceiling = (Parameter::HaltPollNs, 200_000);
    let mut reading = Reading::new(GivenSettings {
        parameters: told(0).then_some(ceiling).into_iter().collect(),
        vm_max_halt_poll_ns: told(1).then_some(50_000),
        kernel_release: told(2).then(|| "5.15".to_owned()),
    });
    let mut lines = Lines::new(bytes);
    let mut facts = Facts::default();
    let mut halts = 0;
    while let Ok(Some(line)) = lines.next() {
        match line {
            Line::TooLong => reading.too_long(),
            Line::Text(line) => reading.line(line, &mut facts),
        }
        halts += check(&reading, &mut facts);
    }
    reading.finish(&mut facts);
    let settled = reading.places.settle();
    for place in &settled.places {
        let known = |vm: VmIndex| settled.roster.vms[vm.0 as usize].index == vm;
        assert!(place.vm.is_none_or(known), "{place:?}");
    }
    halts + check(&reading, &mut facts)
}

/// Checks the laws of all facts; takes the facts, and returns the number of halts.
fn check(reading: &Reading, facts: &mut Facts) -> u64 {
    let facts = std::mem::take(facts);
    for halt in &facts.halts {
        must_be_sound(halt, reading.text.last_ns);
        assert!(
            halt.vm
                .is_none_or(|vm| (vm.0 as usize) < reading.places.count())
        );
        let told = halt.ceiling_source != CeilingSource::Unknown;
        assert!(!told || halt.ceiling_ns.is_some(), "{halt:?}");
    }
    for lost in &facts.lost {
        assert!(lost.count > 0, "{lost:?}");
    }
    facts.halts.len() as u64
}
