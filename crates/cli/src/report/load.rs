//! From a capture on disk to a recording with its accounts. Rows are read in batches: memory does
//! not grow with the capture.

use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::info::Clock;
use haltwise_capture::note::Note;
use haltwise_capture::rows::Rows;
use haltwise_core::account::ledger::Ledger;
use haltwise_core::recording::{Mode, Overhead};

use super::recording::Recording;
use crate::exit::Failure;
use crate::open::explain;

/// Reads a capture.
///
/// A table that breaks off counts up to there, and a note says so. Only where nothing of the halts
/// can be read is there no report.
pub(crate) fn load(dir: &Path) -> Result<Recording, Failure> {
    let capture = Capture::open(dir).map_err(explain)?;
    let info = capture.info();
    let mut recording = Recording {
        rung: info.rung,
        mode: info.mode,
        hostname: info
            .host
            .hostname
            .clone()
            .unwrap_or_else(|| "unnamed".to_owned()),
        kernel: info.host.kernel_release.clone(),
        recorder: format!("{} {}", info.tool.name, info.tool.version),
        started_utc: started_utc(&info.clock),
        start_ns: info.clock.start_monotonic_ns,
        end_ns: 0,
        cut: false,
        damaged: false,
        notes: Vec::new(),
        roster: info.roster.clone(),
        missing: info.missing.clone(),
        overhead: info.overhead,
        lost: Vec::new(),
        ledger: Ledger::default(),
    };
    take_notes(&mut recording, capture.notes());
    let broken = read_tables(&mut recording, &capture);
    let accounts = recording.ledger.places().map(|(_, account)| account);
    let nothing_read = accounts
        .map(|account| account.halts)
        .all(|halts| halts == 0);
    for (is_main, error) in broken {
        if is_main && nothing_read {
            return Err(explain(error));
        }
        let note = format!("{:#}", anyhow::Error::new(error));
        if !recording.notes.iter().any(|known| known.contains(&note)) {
            recording.notes.push(note);
        }
        recording.damaged = true;
    }
    let lost = capture.lost_by_place().unwrap_or_default();
    recording.lost = lost.into_iter().filter(|(_, n)| *n > 0).collect();
    let ended = info.ended.as_ref().map(|ended| ended.time_ns);
    recording.end_ns = ended.unwrap_or_else(|| last_seen(&recording));
    recording.overhead = recording
        .overhead
        .or_else(|| sampled_cost(&recording.ledger));
    Ok(recording)
}

fn take_notes(recording: &mut Recording, notes: &[Note]) {
    for note in notes {
        match note {
            Note::Cut => recording.cut = true,
            Note::OutOfOrder { .. } => recording.notes.push(note.to_string()),
            _ => {
                recording.damaged = true;
                recording.notes.push(note.to_string());
            }
        }
    }
}

/// Feeds every table into the ledger; gives back what broke, and whether it was the table of halts.
fn read_tables(recording: &mut Recording, capture: &Capture) -> Vec<(bool, CaptureReadError)> {
    let full = recording.mode == Mode::Full;
    let start_knobs = &capture.info().knobs;
    let ledger = &mut recording.ledger;
    for knob in start_knobs {
        ledger.knob(knob);
    }
    let mut broken = Vec::new();
    let mut book = |is_main: bool, fed: Result<(), CaptureReadError>| {
        broken.extend(fed.err().map(|error| (is_main, error)));
    };
    book(
        full,
        feed(capture.halts().map(Rows::ahead), |halt| ledger.halt(&halt)),
    );
    book(
        !full,
        feed(capture.halt_counts(), |counts| ledger.counts(&counts)),
    );
    book(
        false,
        feed(capture.window_changes(), |change| ledger.window(&change)),
    );
    let knobs = feed(capture.knobs(), |knob| {
        // A value told once more says until when it was there, and is no change.
        let told = ledger.knob_value(knob.scope, &knob.name) == Some(&knob.value);
        if !told && !start_knobs.contains(&knob) {
            ledger.knob(&knob);
        }
    });
    book(false, knobs);
    book(
        false,
        feed(capture.host_samples(), |sample| ledger.host(&sample)),
    );
    book(false, feed(capture.lost(), |lost| ledger.lost(&lost)));
    broken
}

fn feed<T>(
    rows: Result<impl Iterator<Item = Result<T, CaptureReadError>>, CaptureReadError>,
    mut take: impl FnMut(T),
) -> Result<(), CaptureReadError> {
    for row in rows? {
        take(row?);
    }
    Ok(())
}

/// The calendar time, computed anew: the text in the file is for people only.
fn started_utc(clock: &Clock) -> Option<String> {
    let known = clock.start_unix_ns > 0;
    known.then(|| Clock::new(clock.start_monotonic_ns, clock.start_unix_ns).start_utc)
}

/// The last thing that a recording without an end tells of.
fn last_seen(recording: &Recording) -> u64 {
    let ledger = &recording.ledger;
    let accounts = ledger.places().map(|(_, account)| account.span.last_ns);
    let last = accounts.chain(ledger.host.last_ns()).max();
    last.unwrap_or(0).max(recording.start_ns)
}

/// What the recorder said of itself while it ran, where it could not say so at the end.
fn sampled_cost(ledger: &Ledger) -> Option<Overhead> {
    Some(Overhead {
        recorder_cpu_ns: ledger.host.recorder_cpu_ns()?,
        bpf_cpu_ns: ledger.host.bpf_cpu_ns(),
        recorder_rss_bytes: ledger.host.recorder_rss_bytes,
        added_ns_per_halt: None,
        added_ns_per_exit: None,
    })
}
