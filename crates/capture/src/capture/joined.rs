//! Captures of one recorder that follow each other, read as one.

use std::sync::Arc;

use super::Capture;
use crate::info::CaptureInfo;
use crate::note::Note;
use crate::ring::RingInfo;
use crate::table::Table;

/// Makes one of several, the oldest first; `None` of none.
pub(super) fn join(ring: &RingInfo, parts: Vec<Capture>) -> Option<Capture> {
    let mut joined = parts.first()?.clone();
    let last = parts.len() - 1;
    for part in &parts[1..] {
        append(Arc::make_mut(&mut joined.info), &part.info);
    }
    joined.rows.clear();
    for table in Table::ALL {
        let rows = parts.iter().filter_map(|part| part.rows.get(&table));
        let rows = rows.copied().reduce(u64::saturating_add);
        joined.rows.extend(rows.map(|rows| (table, rows)));
    }
    joined.notes.clear();
    for (nth, part) in parts.iter().enumerate() {
        for note in &part.notes {
            // All but the last have ended for their recorder, which may still be making tables of them.
            let is_ended = nth < last && *note == Note::StillRecording;
            if !is_ended && !joined.notes.contains(note) {
                joined.notes.push(note.clone());
            }
        }
    }
    if ring.dropped.segments > 0 {
        joined.notes.push(Note::Dropped(ring.dropped));
    }
    joined.parts = parts;
    Some(joined)
}

fn append(info: &mut CaptureInfo, later: &CaptureInfo) {
    info.state = later.state;
    info.ended.clone_from(&later.ended);
    // Each segment names all who were seen until its end.
    info.roster.clone_from(&later.roster);
    // How busy a CPU was is known of one segment alone.
    (info.roster.cpus.iter_mut()).for_each(|cpu| cpu.busy_ns = None);
    for missing in &later.missing {
        if !info.missing.contains(missing) {
            info.missing.push(missing.clone());
        }
    }
    for (place, count) in &later.lost {
        let sum = info.lost.entry(place.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    for (table, size) in &later.tables {
        let sum = info.tables.entry(table.clone()).or_default();
        sum.rows = sum.rows.saturating_add(size.rows);
        sum.bytes = sum.bytes.saturating_add(size.bytes);
    }
    info.overhead = match (info.overhead, later.overhead) {
        (Some(sum), Some(more)) => Some(sum.and(more)),
        (one, other) => one.or(other),
    };
    info.cut = info.cut.take().or_else(|| later.cut.clone());
}
