//! From a capture on disk to a recording with its accounts. Rows are read in batches: memory does
//! not grow with the capture.

use haltwise_capture::info::{CaptureInfo, Clock};
use haltwise_capture::table::Table;
use haltwise_core::account::ledger::Ledger;
use haltwise_core::account::within::Interval;
use haltwise_core::event::{Halt, HaltCounts, WindowChange};
use haltwise_core::recording::{Mode, Overhead};
use haltwise_core::stats::total;

use super::opened::{Broken, Opened, explain_shared};
use super::pass::{PassEnds, Sink, pass};
use super::recording::Recording;
use crate::exit::Failure;
use crate::report::view::{ReportedLoss, ReportedRecording};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverTime {
    /// All of the host together: of many VMs, each by itself would be most of the memory.
    Host,
    Vcpus,
}

/// Reads a capture, in one pass with `others` who want its rows.
///
/// A table that breaks off counts up to there, and a note says so. Only where nothing of the halts
/// can be read is there no report.
pub(crate) fn load(
    opened: &Opened,
    over_time: OverTime,
    others: &mut [&mut dyn Sink],
) -> Result<(Recording, PassEnds), Failure> {
    let info = opened.info();
    let mut recording = Recording {
        reported: reported(info),
        info: opened.capture().shared_info(),
        damaged: false,
        ledger: match over_time {
            OverTime::Host => Ledger::in_outline(),
            OverTime::Vcpus => Ledger::default(),
        },
    };
    let (ends, broken) = read_tables(&mut recording, opened, others);
    // Not before: what was left out is known by now.
    recording.take_notes(opened.capture());
    let ledger = &recording.ledger;
    let nothing_read = ledger.places().all(|(_, of)| of.halts == 0);
    for (is_main, error) in broken {
        if is_main && nothing_read {
            return Err(explain_shared(&error));
        }
        recording.breaks_off(&error);
    }
    let reported = &mut recording.reported;
    let lost = opened.lost_by_place().into_iter();
    let lost = lost.filter(|(_, count)| *count > 0);
    let lost = lost.map(|(place, count)| ReportedLoss { place, count });
    reported.lost_by_place = lost.collect();
    reported.lost = total(reported.lost_by_place.iter().map(|loss| loss.count));
    let ended = info.ended.as_ref().map(|ended| ended.time_ns);
    let end_ns = ended.or_else(|| last_seen(&recording.ledger)).unwrap_or(0);
    let start_ns = reported.start_ns;
    let interval = recording.ledger.widened(Interval {
        start_ns,
        end_ns: end_ns.max(start_ns),
    });
    (reported.start_ns, reported.duration_ns) = (interval.start_ns, interval.length_ns());
    reported.overhead = (reported.overhead).or_else(|| sampled_cost(&recording.ledger));
    Ok((recording, ends))
}

fn reported(info: &CaptureInfo) -> ReportedRecording {
    ReportedRecording {
        rung: info.rung,
        side: info.side,
        mode: info.mode,
        recorder: format!("{} {}", info.tool.name, info.tool.version),
        started_utc: started_utc(&info.clock),
        start_ns: info.clock.start_monotonic_ns,
        duration_ns: 0,
        cut: false,
        lost: 0,
        lost_by_place: Vec::new(),
        missing: info.missing.clone(),
        notes: Vec::new(),
        overhead: info.overhead,
    }
}

struct Accounts<'a>(&'a mut Ledger);

impl Sink for Accounts<'_> {
    fn wants(&self, table: Table) -> bool {
        matches!(
            table,
            Table::Halts | Table::HaltCounts | Table::WindowChanges
        )
    }

    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        self.0.halt(halt);
    }

    fn change(&mut self, change: &WindowChange) {
        self.0.window(change);
    }

    fn counts(&mut self, counts: &HaltCounts) {
        self.0.counts(counts);
    }
}

/// Feeds every table into the ledger; gives back what broke, and whether it was the table of halts.
fn read_tables(
    recording: &mut Recording,
    opened: &Opened,
    others: &mut [&mut dyn Sink],
) -> (PassEnds, Vec<(bool, Broken)>) {
    let full = recording.reported.mode == Mode::Full;
    let start_knobs = &opened.info().knobs;
    let ledger = &mut recording.ledger;
    for knob in start_knobs {
        ledger.knob(knob);
    }
    let mut accounts = Accounts(ledger);
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut accounts];
    sinks.extend(others.iter_mut().map(|it| &mut **it as &mut dyn Sink));
    let ends = pass(opened, "reading", &mut sinks);
    let ledger = &mut recording.ledger;
    for knob in &opened.knobs().rows {
        // A value told once more says until when it was there, and is no change.
        let told = ledger.knob_value(knob.scope, &knob.name) == Some(&knob.value);
        if !told && !start_knobs.contains(knob) {
            ledger.knob(knob);
        }
    }
    let samples = opened.host_samples();
    samples.rows.iter().for_each(|sample| ledger.host(sample));
    let states = opened.idle_states();
    (states.rows.iter()).for_each(|state| ledger.idle_state(state));
    let lost = opened.lost();
    lost.rows.iter().for_each(|lost| ledger.lost(lost));
    let tables = [
        (full, ends.broken(Table::Halts)),
        (!full, ends.broken(Table::HaltCounts)),
        (false, ends.broken(Table::WindowChanges)),
        (false, opened.knobs().broken.as_ref()),
        (false, samples.broken.as_ref()),
        (false, states.broken.as_ref()),
        (false, lost.broken.as_ref()),
    ];
    let broken =
        (tables.into_iter()).filter_map(|(is_main, broken)| Some((is_main, broken?.clone())));
    let broken = broken.collect();
    (ends, broken)
}

/// The calendar time, computed anew: the text in the file is for people only.
fn started_utc(clock: &Clock) -> Option<String> {
    let known = clock.start_unix_ns > 0;
    known.then(|| Clock::new(clock.start_monotonic_ns, clock.start_unix_ns).start_utc)
}

/// The last thing that a recording without an end tells of.
fn last_seen(ledger: &Ledger) -> Option<u64> {
    let accounts = ledger.places().map(|(_, account)| account.span.last_ns);
    let sampled = ledger.host.last_sample().map(|sample| sample.time_ns);
    accounts.chain(sampled).max()
}

/// Cost of the recorder as sampled while it ran, where the recorder could not report the cost at the end.
fn sampled_cost(ledger: &Ledger) -> Option<Overhead> {
    let last = ledger.host.last_sample()?;
    Some(Overhead {
        recorder_cpu_ns: last.recorder_cpu_ns,
        bpf_cpu_ns: last.bpf_cpu_ns,
        recorder_rss_bytes: ledger.host.recorder_rss_bytes,
        added_ns_per_halt: None,
        added_ns_per_exit: None,
        most_waiting_bytes: None,
    })
}
