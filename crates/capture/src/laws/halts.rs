//! Laws of single halts, and of those that follow each other on one vCPU.

use std::collections::BTreeMap;

use haltwise_core::event::Halt;

use super::{Halting, Law, Laws, MOST_VCPUS};

/// The halt of a thread that loses its CPU on its way out is reported late: at most so late.
const LATE_NS: u64 = 60_000_000_000;

#[derive(Debug, Default)]
pub(super) struct LatestHalts {
    of: BTreeMap<Halting, Latest>,
    batch: u64,
}

/// A halt that was the latest of its vCPU, and where it stands.
#[derive(Debug, Clone, Copy)]
struct Latest {
    start_ns: u64,
    end_ns: u64,
    batch: u64,
    place: usize,
}

impl Laws {
    /// The halts that obey, of the next rows of their table.
    pub(crate) fn halts(&mut self, rows: Vec<Halt>) -> Vec<Halt> {
        self.halts.batch += 1;
        let mut out = vec![false; rows.len()];
        let mut any = false;
        for (place, halt) in rows.iter().enumerate() {
            if let Err((law, false_one)) = self.halt(halt, place) {
                self.breaks(law);
                out[false_one] = true;
                any = true;
            }
        }
        if !any {
            return rows;
        }
        let mut out = out.into_iter();
        rows.into_iter()
            .filter(|_| !out.next().unwrap_or_default())
            .collect()
    }

    /// The law that is broken, and by which of the rows at hand.
    fn halt(&mut self, halt: &Halt, place: usize) -> Result<(), (Law, usize)> {
        self.alone(halt).map_err(|law| (law, place))?;
        if self.one_clock {
            self.after_another(halt, place)
        } else {
            Ok(())
        }
    }

    fn alone(&self, halt: &Halt) -> Result<(), Law> {
        let end_ns = halt.start_ns.checked_add(halt.halt_ns);
        self.holds(end_ns.ok_or(Law::WithinRecording)?)?;
        self.knows(halt.vm)?;
        if halt.poll_ns.is_some_and(|poll_ns| poll_ns > halt.halt_ns) {
            return Err(Law::PollWithinHalt);
        }
        let longest = halt.halt_ns.saturating_add(LATE_NS);
        if halt.wake_latency_ns.is_some_and(|ns| ns > longest) {
            return Err(Law::LatencyWithinHalt);
        }
        Ok(())
    }

    /// If two halts overlap, the longer halt is false: it would hold many halts that are not.
    ///
    /// Rows may stand after later ones, which alone breaks no law.
    fn after_another(&mut self, halt: &Halt, place: usize) -> Result<(), (Law, usize)> {
        let halting = (halt.vm, halt.vcpu, halt.tid);
        let now = Latest {
            start_ns: halt.start_ns,
            end_ns: halt.end_ns(),
            batch: self.halts.batch,
            place,
        };
        let all = &mut self.halts.of;
        let known = all.len();
        let Some(latest) = all.get_mut(&halting) else {
            if known < MOST_VCPUS {
                all.insert(halting, now);
            }
            return Ok(());
        };
        if now.start_ns >= latest.end_ns {
            *latest = now;
            return Ok(());
        }
        if now.end_ns <= latest.start_ns || now.start_ns == now.end_ns {
            return Ok(());
        }
        if halt.halt_ns >= latest.end_ns - latest.start_ns {
            return Err((Law::NoOverlap, place));
        }
        let before = std::mem::replace(latest, now);
        // A row that was handed out cannot be taken back: then this row goes, and the next are held against this row.
        let at_hand = before.batch == now.batch;
        let false_one = if at_hand { before.place } else { place };
        Err((Law::NoOverlap, false_one))
    }
}
