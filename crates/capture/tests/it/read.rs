//! All that a capture holds, in memory.

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::rows::Rows;
use haltwise_core::event::Facts;
use haltwise_core::profile;

pub(crate) fn facts_of(capture: &Capture) -> Result<Facts, CaptureReadError> {
    Ok(Facts {
        halts: all(capture.halts())?,
        windows: all(capture.window_changes())?,
        counts: all(capture.halt_counts())?,
        knobs: all(capture.knobs())?,
        host: all(capture.host_samples())?,
        idle_states: all(capture.idle_states())?,
        lost: all(capture.lost())?,
        exits: all(capture.exits())?,
        profile: profile::Rows {
            frames: all(capture.sample_frames())?,
            stacks: all(capture.sample_stacks())?,
            threads: all(capture.sample_threads())?,
            samples: all(capture.samples())?,
        },
    })
}

pub(crate) fn all<T>(rows: Result<Rows<T>, CaptureReadError>) -> Result<Vec<T>, CaptureReadError> {
    rows?.collect()
}
