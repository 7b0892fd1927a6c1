//! Rules that were proposed for the host and not taken, on the list in August and September 2015.
//!
//! None of them was ever in a kernel. They are here because their failures explain the rule that was
//! taken: v3 polls longest where nothing ever comes, v4 always polls as long as it may. The rule of 4.3
//! decides on the length of the halt instead.
//!
//! **Documented** (thread of 2015-09-01): v3 grows on long halts, so that the window of an idle vCPU
//! goes 0, 500 us, 1 ms, 2 ms, 4 ms, 0; v4 grows on every interrupt, so that the window is always at the
//! ceiling and never follows the halts down; toggling knows two windows, 0 and the ceiling.
//!
//! **Our reading** is all else, and each rule below says what of it: the patches themselves were not
//! at hand.

/// What the proposals had for knobs. Which names and values they gave them is not documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The first window above 0 in nanoseconds.
    pub grow_start: u32,
    /// The factor by which a window grows.
    pub grow: u32,
    /// What no window passes, in nanoseconds.
    pub ceiling: u32,
}

impl Proposal {
    /// The values behind the walk reported of v3: 500 us, doubled up to 4 ms.
    pub const REPORTED: Self = Self {
        grow_start: 500_000,
        grow: 2,
        ceiling: 4_000_000,
    };

    /// Version 3: a window that was too short grows; one that cannot grow any more starts again.
    ///
    /// Documented: the walk of an idle vCPU. Our reading: a halt is long if it outlasts its window; the
    /// window goes to 0 when the next step would pass the ceiling, rather than being cut to it; a
    /// successful poll changes nothing.
    pub fn v3(&self, window: u32, halt_ns: u64) -> u32 {
        if halt_ns <= u64::from(window) {
            return window;
        }
        let grown = self.grown(window);
        if grown > u64::from(self.ceiling) {
            0
        } else {
            self.cut(grown)
        }
    }

    /// Version 4: every wake-up by an interrupt grows the window.
    ///
    /// Documented: that it grows then, and that the window ends at the ceiling and stays. Our reading:
    /// growth is cut to the ceiling; any other wake-up changes nothing.
    pub fn v4(&self, window: u32, by_interrupt: bool) -> u32 {
        if by_interrupt {
            self.cut(self.grown(window))
        } else {
            window
        }
    }

    /// Toggling: all or nothing, by whether the halt would have fitted under the ceiling.
    ///
    /// Documented: the two windows. Our reading: the conditions are those of the rule that was taken,
    /// equality included, which with `grow_start` at the ceiling and a divisor of 2 or more is exactly
    /// this.
    pub fn toggle(&self, window: u32, halt_ns: u64) -> u32 {
        let ceiling = u64::from(self.ceiling);
        if halt_ns <= u64::from(window) || halt_ns == ceiling {
            window
        } else if halt_ns < ceiling {
            self.ceiling
        } else {
            0
        }
    }

    fn grown(&self, window: u32) -> u64 {
        if window == 0 {
            u64::from(self.grow_start)
        } else {
            u64::from(window) * u64::from(self.grow)
        }
    }

    fn cut(&self, grown: u64) -> u32 {
        u32::try_from(grown).map_or(self.ceiling, |ns| ns.min(self.ceiling))
    }
}

#[cfg(test)]
mod test;
