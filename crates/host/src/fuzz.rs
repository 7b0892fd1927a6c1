//! Entry points for the fuzz targets and their smoke run: any bytes in, no panic, no contradiction.
//!
//! Not part of the library's interface. Each gives how much it could read.

use haltwise_core::account::parts::Parts;
use haltwise_core::event::{Halt, WindowChange};

use crate::bpf;
use crate::exits;
use crate::tracefs::EventFormat;

pub use crate::discovery::fuzz::cmdline;
pub use crate::guest_agent::reply::agent_reply;
pub use crate::knob::fuzz::baseline;
pub use crate::perf::fuzz::perf_record;
pub use crate::profile::fuzz::sample;

/// Reads bytes up to the first 0 as an event's format file, and the rest as such an event; gives how
/// many fields have a value.
///
/// # Panics
/// If a value does not fit into its field, or is read out of bytes that end before it.
pub fn format(bytes: &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (text, event) = bytes.split_at(end.unwrap_or(bytes.len()));
    let event = event.get(1..).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    for (_, name) in exits::symbol_tables(&text).iter().flatten() {
        assert!(!name.contains('"'), "{name}");
    }
    let Ok(format) = EventFormat::parse(&text) else {
        return 0;
    };
    let mut read = 0;
    for field in format.fields() {
        let Some(value) = field.read(event) else {
            continue;
        };
        read += 1;
        assert!(field.offset + field.size <= event.len(), "{field:?}");
        assert!(matches!(field.size, 1 | 2 | 4 | 8), "{field:?}");
        if field.size < 8 {
            let high = value >> (8 * field.size - 1);
            let negative = u64::MAX >> (8 * field.size - 1);
            let fits = high <= 1 || (field.signed && high == negative);
            assert!(fits, "{field:?} is {value:#x}");
        }
        let low = field.read_u32(event).map(u64::from);
        assert_eq!(low, Some(value & 0xffff_ffff), "{field:?}");
        assert_eq!(field.read(&event[..field.offset]), None, "{field:?}");
        assert!(format.field(&field.name).is_some(), "{field:?}");
    }
    read
}

/// Reads bytes as a halt and as an idle period that a BPF program sent, and as a count of exits; 1 if there are enough of
/// them for the first.
///
/// # Panics
/// If the halt says what its own flags do not, or the count of exits contradicts itself.
pub fn bpf_record(bytes: &[u8]) -> u64 {
    if let Some(row) = bpf::fuzz_cell(bytes) {
        let times: u64 = row.handling_ns.used().map(|(_, count)| count).sum();
        assert_eq!(times, row.handling_ns.count(), "{row:?}");
        assert_eq!(row.cause.sub.is_some(), row.cause.kind.is_sub(), "{row:?}");
    }
    if let Some((halt, change)) = bpf::fuzz_idle(bytes) {
        check_halt(&halt, change);
    }
    let Some((halt, change)) = bpf::fuzz_record(bytes) else {
        return 0;
    };
    check_halt(&halt, change);
    1
}

fn check_halt(halt: &Halt, change: Option<WindowChange>) {
    assert!(halt.waited || halt.wake_latency_ns == Some(0), "{halt:?}");
    assert!(halt.gap_ns() <= Some(halt.halt_ns), "{halt:?}");
    assert_eq!(Parts::of_halt(halt).total_ns(), halt.halt_ns, "{halt:?}");
    assert!(!halt.is_preempted() || halt.waited, "{halt:?}");
    if let Some(change) = change {
        assert_eq!(change.tid, halt.tid, "{change:?}");
    }
}
