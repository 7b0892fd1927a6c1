//! State that the agent keeps of one page. No I/O and no clock: times are the guest's TSC, and are arguments.

use super::page::Snapshot;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub fired: u64,
    pub backwards: u64,
    pub due_when_seen: u64,
    /// Writes seen whose deadline is further ahead than [`FAR`].
    pub far: u64,
    /// Deadlines put off, because the one before had fired just then.
    pub held: u64,
    /// Looks at a page that was being written.
    pub torn: u64,
}

/// Ticks ahead that no honest guest needs: days, on any CPU.
pub const FAR: u64 = 1 << 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Nothing,
    At(u64),
    /// Interrupt the guest for the deadline of this sequence, now.
    Fire(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    sequence: u32,
    /// Its deadline, until it has fired.
    armed: Option<u64>,
    held: bool,
    last_fired: Option<u64>,
    pub counts: Counts,
}

impl Slot {
    /// For a page whose deadline of sequence `fired` has fired already: 0 for a new one.
    pub fn new(fired: u32) -> Self {
        Self {
            sequence: fired,
            ..Self::default()
        }
    }

    /// Judges what was read at time `now`. Between two interrupts lie at least `least_gap` ticks.
    pub fn look(&mut self, read: Option<Snapshot>, now: u64, least_gap: u64) -> Look {
        let Some(read) = read else {
            // The armed deadline is being replaced; the new deadline is not there yet.
            self.counts.torn += 1;
            return Look::Nothing;
        };
        if read.sequence != self.sequence {
            self.take(read, now);
        }
        let Some(deadline) = self.armed else {
            return Look::Nothing;
        };
        // A guest may have set its TSC to just before it wraps.
        let since = |at| now.wrapping_sub(at).cast_signed();
        let left = self
            .last_fired
            .map_or(0, |at| least_gap.saturating_sub_signed(since(at)));
        let free = now.saturating_add(left);
        if now < deadline {
            return Look::At(deadline.max(free));
        }
        if left > 0 {
            self.counts.held += u64::from(!self.held);
            self.held = true;
            return Look::At(free);
        }
        self.armed = None;
        self.held = false;
        self.last_fired = Some(now);
        self.counts.fired += 1;
        Look::Fire(self.sequence)
    }

    fn take(&mut self, read: Snapshot, now: u64) {
        let deadline = (read.deadline != 0).then_some(read.deadline);
        let counts = &mut self.counts;
        counts.backwards += u64::from(deadline.is_some() && deadline < self.armed);
        counts.due_when_seen += u64::from(deadline.is_some_and(|at| at <= now));
        counts.far += u64::from(deadline.is_some_and(|at| at.saturating_sub(now) > FAR));
        self.sequence = read.sequence;
        self.armed = deadline;
        self.held = false;
    }
}
