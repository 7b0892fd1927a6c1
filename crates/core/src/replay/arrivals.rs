//! Whether waking earlier makes the next gap longer, and what a recording tells of that.
//!
//! A periodic timer is due at a fixed time: a vCPU that wakes sooner waits longer for it. A reply comes a
//! fixed time after the request, and so does a timer that is set anew after each wake (`nanosleep`, a
//! TSC deadline from now): there the gap stays. Nothing in a halt says which it was, but wake-ups that
//! were late by chance do: at a fixed time, a halt that follows a wake-up late by `x` has a gap shorter
//! by `x`; at a fixed gap, it has not. The slope of gap over the last wake-up latency is that share,
//! estimated for each vCPU and wake source by least squares.

use crate::event::{Halt, WakeSource};

/// Whether waking earlier makes the next gap longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// As far as the recording shows, by vCPU and wake source. Where it shows nothing, timers come at a
    /// fixed time, all else at a fixed gap.
    #[default]
    BySource,
    /// Every gap stays as it was.
    FixedGap,
    /// Every wake event comes when it came.
    FixedTime,
}

impl Arrivals {
    pub const ALL: [Self; 3] = [Self::BySource, Self::FixedGap, Self::FixedTime];
}

/// How far gaps follow: by which share of a wake-up's earliness the next gap grows, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    milli: [u16; WakeSource::ALL.len()],
    assumed: [bool; WakeSource::ALL.len()],
}

/// All of it: the wake event comes when it came.
pub(super) const ALL_OF_IT: u16 = 1_000;

impl Follow {
    /// Shares for a vCPU with this evidence under a reading.
    pub fn new(arrivals: Arrivals, evidence: &Evidence) -> Self {
        let fixed = |milli| Self {
            milli: [milli; WakeSource::ALL.len()],
            assumed: [false; WakeSource::ALL.len()],
        };
        match arrivals {
            Arrivals::FixedGap => fixed(0),
            Arrivals::FixedTime => fixed(ALL_OF_IT),
            Arrivals::BySource => {
                let shown =
                    WakeSource::ALL.map(|source| evidence.sources[index(source)].as_ref()?.share());
                let by_nature = WakeSource::ALL.map(|source| match source {
                    WakeSource::Timer => ALL_OF_IT,
                    _ => 0,
                });
                Self {
                    milli: std::array::from_fn(|n| shown[n].unwrap_or(by_nature[n])),
                    assumed: shown.map(|share| share.is_none()),
                }
            }
        }
    }

    /// The gap of a halt whose vCPU woke `ahead_ns` sooner than recorded (negative: later) last time.
    pub fn gap_ns(&self, gap_ns: u64, wake: WakeSource, ahead_ns: i64) -> u64 {
        match self.milli[index(wake)] {
            0 => gap_ns,
            ALL_OF_IT => gap_ns.saturating_add_signed(ahead_ns),
            milli => {
                let moved = i128::from(ahead_ns) * i128::from(milli) / i128::from(ALL_OF_IT);
                gap_ns.saturating_add_signed(i64::try_from(moved).unwrap_or(0))
            }
        }
    }

    /// By which share, in thousandths, the gaps follow that end so.
    pub fn share_milli(&self, wake: WakeSource) -> u16 {
        self.milli[index(wake)]
    }

    /// The same, did gaps stay as they were wherever nothing recorded shows how they follow. `seen` are the sources of the
    /// recorded halts; `None` where no gap of theirs changes.
    pub fn staying(&self, seen: SeenWakes) -> Option<Self> {
        let of = |n: usize| {
            if self.assumed[n] && seen.0[n] {
                0
            } else {
                self.milli[n]
            }
        };
        let milli = std::array::from_fn(of);
        (milli != self.milli).then_some(Self { milli, ..*self })
    }

    /// Whether nothing recorded shows how gaps that end so follow.
    pub fn is_assumed(&self, wake: WakeSource) -> bool {
        self.assumed[index(wake)]
    }
}

/// Wake sources of some halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenWakes([bool; WakeSource::ALL.len()]);

impl SeenWakes {
    pub fn add(&mut self, wake: WakeSource) {
        self.0[index(wake)] = true;
    }
}

fn index(wake: WakeSource) -> usize {
    usize::from(wake.code())
}

/// Evidence that a recording shows for one vCPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Boxed: the halts of most vCPUs have one or two sources.
    sources: [Option<Box<Slope>>; WakeSource::ALL.len()],
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Last {
    end_ns: u64,
    latency_ns: u64,
}

/// Wake-ups later than this are not looked at: timers that came due meanwhile pile up.
const LATE_NS: u64 = 1_000_000;

impl Evidence {
    /// Adds a halt; halts come in order.
    pub fn halt(&mut self, halt: &Halt) {
        let before = self.last.take();
        let (Some(gap_ns), Some(latency_ns)) = (halt.gap_ns(), halt.wake_latency_ns) else {
            return;
        };
        if let Some(last) = before
            && halt.start_ns >= last.end_ns
            && last.latency_ns <= LATE_NS
        {
            let slope = self.sources[index(halt.wake)].get_or_insert_default();
            slope.add(last.latency_ns as f64, gap_ns as f64);
        }
        self.last = Some(Last {
            end_ns: halt.end_ns(),
            latency_ns,
        });
    }
}

/// A least-squares line through points that come one by one, kept as sums of how far each lies from
/// the first, which takes no division for each point. The first is one of them, so that a far one
/// spreads them too: what the differences at the end lose is at most their number times 2^-53.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Slope {
    n: f64,
    first: (f64, f64),
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// The largest standard error of a slope that shows anything.
const SHOWS: f64 = 0.2;

impl Slope {
    fn add(&mut self, x: f64, y: f64) {
        if self.n == 0.0 {
            self.first = (x, y);
        }
        let (dx, dy) = (x - self.first.0, y - self.first.1);
        self.n += 1.0;
        self.x += dx;
        self.y += dy;
        self.xx += dx * dx;
        self.xy += dx * dy;
        self.yy += dy * dy;
    }

    /// The share by which gaps follow, in thousandths. `None` if the points do not show it. What
    /// cannot be told from nothing is nothing, and what cannot be told from all of it is all.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    fn share(&self) -> Option<u16> {
        if self.n < 20.0 {
            return None;
        }
        let xx = self.xx - self.x * self.x / self.n;
        let xy = self.xy - self.x * self.y / self.n;
        let yy = self.yy - self.y * self.y / self.n;
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let rest = (yy / xx - slope * slope).max(0.0);
        let error = (rest / (self.n - 2.0)).sqrt();
        let share = -slope;
        if error > SHOWS {
            return None;
        }
        let near = |end: f64| (share - end).abs() <= (3.0 * error).max(0.1);
        match () {
            () if share <= 0.0 || near(0.0) => Some(0),
            () if share >= 1.0 || near(1.0) => Some(ALL_OF_IT),
            () => Some((share * f64::from(ALL_OF_IT)).round() as u16),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workload::SplitMix64;

    const US: u64 = 1_000;

    /// Halts that a timer ends: set anew after each wake, or due every `period_ns`.
    fn timers(periodic: bool, spread_ns: u64, wake: WakeSource) -> Evidence {
        let mut draw = SplitMix64(3);
        let mut evidence = Evidence::default();
        let (mut now_ns, mut due_ns) = (0, 0);
        for _ in 0..2_000 {
            now_ns += 5 * US;
            let gap = 100 * US + draw.below(spread_ns + 1);
            due_ns = if periodic {
                due_ns + 200 * US
            } else {
                now_ns + gap
            };
            let latency_ns = 20 * US + draw.below(20 * US);
            let mut halt = Halt::under(0, now_ns, due_ns - now_ns, latency_ns);
            halt.wake = wake;
            now_ns = halt.end_ns();
            evidence.halt(&halt);
        }
        evidence
    }

    fn moved(evidence: &Evidence, wake: WakeSource) -> (u64, bool) {
        let follow = Follow::new(Arrivals::BySource, evidence);
        (follow.gap_ns(100, wake, 30), follow.is_assumed(wake))
    }

    #[test]
    fn a_recording_shows_whether_timers_are_periodic_or_set_anew() {
        use WakeSource::{Device, Timer};
        assert_eq!(moved(&timers(true, 0, Timer), Timer), (130, false));
        assert_eq!(moved(&timers(false, 5 * US, Timer), Timer), (100, false));
        // Frames of a display.
        assert_eq!(moved(&timers(true, 0, Device), Device), (130, false));
        assert_eq!(moved(&timers(false, 5 * US, Device), Device), (100, false));
    }

    #[test]
    fn where_it_shows_nothing_the_source_decides() {
        use WakeSource::{Device, Ipi, Timer};
        let nothing = Evidence::default();
        assert_eq!(moved(&nothing, Timer), (130, true));
        assert_eq!(moved(&nothing, Device), (100, true));
        assert_eq!(moved(&nothing, Ipi), (100, true));
        let noisy = timers(false, 900_000 * US, Timer);
        assert_eq!(moved(&noisy, Timer), (130, true));
    }
}
