//! Where steps come from: what is the same for all of them.

use haltwise_capture::info::Clock;
use haltwise_core::exit::names::Names;
use haltwise_core::recording::{Missing, Mode, Rung};

#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The capture's directory; `None` of a live view.
    pub(crate) capture: Option<String>,
    pub(crate) hostname: String,
    pub(crate) kernel: String,
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) clock: Clock,
    /// Names of the exits; `None` if exits are not counted.
    pub(crate) names: Option<Names>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    pub(crate) partial: bool,
}

impl Origin {
    pub(crate) fn is_live(&self) -> bool {
        self.capture.is_none()
    }

    /// A moment of the calendar, to the second (RFC 3339); `None` where the capture does not know it.
    pub(crate) fn utc(&self, time_ns: u64) -> Option<String> {
        if self.clock.start_unix_ns == 0 {
            return None;
        }
        let unix_ns = self.clock.unix_ns(time_ns)?;
        let text = Clock::new(time_ns, unix_ns).start_utc;
        let (whole, _millis) = text.split_once('.')?;
        Some(format!("{whole}Z"))
    }
}
