//! Activity of one thread since its last halt, and the halt that this activity amounts to.

use crate::account::Ceiling;
use crate::event::{CeilingSource, Halt, WakeSource, WindowChange};
use crate::ids::{Tid, VcpuId};
use crate::kvm::Call;

/// How well the start of a halt is known. It is the time of the halt's event less its length, and that
/// event comes some time after KVM took the end of the halt: the start is late by as much, seldom by
/// more than this. So a sleep or wake-up up to this much earlier belongs to the halt (a thread cannot
/// have slept elsewhere and halted since in so short a time), and a poll counts as cut only if the
/// thread slept this much before its window's end. It says nothing of the call of grow or shrink, see
/// [`Thread::own_call`].
const MARGIN_NS: u64 = 2_000;

#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Since when its sleeping and waking is seen.
    pub(super) watched_since: Option<u64>,
    vcpu: Option<VcpuId>,
    window: Option<u32>,
    ceiling: SeenCeiling,
    change: Option<WindowChange>,
    pub(super) woken: Option<(u64, WakeSource)>,
    pub(super) slept: Sleeps,
}

/// When a thread went to sleep since its last halt: once per halt, and whenever its VMM waited for
/// something between halts. Only the latest few are kept.
#[derive(Debug, Default)]
pub(super) struct Sleeps {
    times: Vec<u64>,
    forgotten: bool,
}

impl Sleeps {
    const KEPT: usize = 16;

    pub(super) fn push(&mut self, time_ns: u64) {
        if self.times.len() == Self::KEPT {
            self.times.remove(0);
            self.forgotten = true;
        }
        self.times.push(time_ns);
    }

    /// The first sleep since a time: `None` if there was none, or it may have been forgotten.
    fn first_since(&self, since_ns: u64) -> Option<u64> {
        let at = self.times.partition_point(|&time| time < since_ns);
        if at == 0 && self.forgotten {
            return None;
        }
        self.times.get(at).copied()
    }

    fn any_after(&self, time_ns: u64) -> bool {
        self.times.last().is_some_and(|&time| time > time_ns)
    }

    fn clear(&mut self) {
        self.times.clear();
        self.forgotten = false;
    }
}

/// A halt as `kvm_vcpu_wakeup` tells it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) time_ns: u64,
    pub(super) halt_ns: u64,
    pub(super) waited: bool,
    pub(super) valid: bool,
    /// Wake-up latency, where KVM tells it; 0 where it does not know it.
    pub(super) latency_ns: Option<u64>,
}

/// Assumptions about a ceiling that did not show itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assumed {
    /// Windows are cut down to this when a halt begins; `None` where this kernel does not, or where it
    /// is not known.
    pub(super) clamp: Option<u32>,
    pub(super) told: Option<Ceiling>,
}

#[derive(Debug, Clone, Copy)]
struct Poll {
    ns: u64,
    cut: Option<bool>,
}

impl Thread {
    pub(super) fn change(&mut self, change: WindowChange, clamps_at_entry: bool) {
        if clamps_at_entry {
            self.ceiling = self.ceiling.not_below(change.old_ns);
            if let Some(left) = self.window {
                self.ceiling = self.ceiling.seen(left, change.old_ns);
            }
        }
        self.vcpu = change.vcpu;
        self.window = Some(change.new_ns);
        self.change = Some(change);
    }

    pub(super) fn forget_ceiling(&mut self) {
        self.ceiling = SeenCeiling::default();
    }

    /// Events are missing: what they might have said is unknown from here on.
    pub(super) fn gap(&mut self, time_ns: u64) {
        self.window = None;
        self.change = None;
        self.woken = None;
        self.slept.clear();
        if let Some(since) = &mut self.watched_since {
            *since = time_ns.max(*since);
        }
    }

    pub(super) fn end(&mut self, tid: Tid, ended: Ended, assumed: Assumed) -> Halt {
        let change = self.own_call();
        // The first event after the halt is closest to its end.
        let end_ns = change.map_or(ended.time_ns, |c| c.time_ns);
        let start_ns = end_ns.saturating_sub(ended.halt_ns);
        let window = match change {
            Some(change) => Some(change.old_ns),
            None => self.without_call(assumed),
        };
        let since = start_ns.saturating_sub(MARGIN_NS);
        let woken = self.woken.take().filter(|(time, _)| *time >= since);
        let watched = self.watched_since.is_some_and(|since| since <= start_ns);
        let (ceiling_ns, ceiling_source) = self.ceiling.known(window, assumed.told);
        let poll = self.poll(start_ns, ended, window, watched, woken);
        self.slept.clear();
        Halt {
            start_ns,
            halt_ns: ended.halt_ns,
            vm: None,
            vcpu: self.vcpu,
            tid,
            waited: ended.waited,
            valid: ended.valid,
            window_ns: window,
            window_next_ns: self.window,
            ceiling_ns,
            ceiling_source,
            change: change.as_ref().map(Call::from).into(),
            poll_ns: poll.map(|poll| poll.ns),
            polled: None,
            wake_latency_ns: match (ended.waited, ended.latency_ns, woken) {
                (false, ..) => Some(0),
                (true, Some(latency_ns), _) => {
                    Some(latency_ns.min(ended.halt_ns)).filter(|&ns| ns > 0)
                }
                // The last wake-up counts: once one was seen, none after it was held back. The margin
                // may put it before the start.
                (true, None, Some((time, _))) => {
                    Some(end_ns.saturating_sub(time).min(ended.halt_ns))
                }
                (true, None, None) => None,
            },
            wake: woken.map_or(WakeSource::Unknown, |(_, source)| source),
            poll_cut: poll.and_then(|poll| poll.cut),
            cpu: None,
            waker_cpu: None,
        }
    }

    /// The call that the halt which ends here made. In every kernel that has both tracepoints,
    /// `kvm_vcpu_block` (since 5.17 `kvm_vcpu_halt`) calls grow or shrink and tells the wake-up after
    /// that, with nothing in between that sleeps. So the last call of a thread belongs to its next
    /// wake-up, whatever time an interrupt, another task or the host's own hypervisor takes from the
    /// thread in between. Where events are missing the call was forgotten, see [`Thread::gap`]; one
    /// after which the thread slept was made by a halt whose end was not recorded.
    fn own_call(&mut self) -> Option<WindowChange> {
        let change = self.change.take()?;
        (!self.slept.any_after(change.time_ns)).then_some(change)
    }

    /// The window of a halt that made no call. It stays, unless the ceiling is known to be 0: then KVM
    /// leaves a window of 0, whatever it was before, and where it clamps at entry it begins with that.
    fn without_call(&mut self, assumed: Assumed) -> Option<u32> {
        let (known, _) = self.ceiling.known(self.window, assumed.told);
        let left = match (known, assumed.clamp) {
            (Some(0), Some(0)) => Some(0),
            _ => self.window,
        };
        let window = left.map(|left| self.ceiling.clamp(left, assumed.clamp));
        self.window = if known == Some(0) { Some(0) } else { window };
        window
    }

    fn poll(
        &self,
        start_ns: u64,
        ended: Ended,
        window: Option<u32>,
        watched: bool,
        woken: Option<(u64, WakeSource)>,
    ) -> Option<Poll> {
        let cut = Some(false);
        if !ended.waited {
            // It polled until its end, unless its wake-up was pending and polling is off.
            let longest = match window {
                Some(window) => u64::from(window),
                None if ended.halt_ns <= MARGIN_NS => 0,
                None => u64::MAX,
            };
            let ns = ended.halt_ns.min(longest);
            return Some(Poll { ns, cut });
        }
        let window = window.map(u64::from);
        let whole = window.map(|window| ended.halt_ns.min(window));
        if window == Some(0) {
            return Some(Poll { ns: 0, cut });
        }
        if !watched {
            // Whether it was cut short is not known.
            let woken_ns = woken.map_or(u64::MAX, |(time, _)| time.saturating_sub(start_ns));
            return whole.map(|whole| Poll {
                ns: whole.min(woken_ns),
                cut: None,
            });
        }
        let slept = self.slept.first_since(start_ns.saturating_sub(MARGIN_NS));
        // A sleep after the halt's end is not its own.
        match slept.filter(|slept| *slept <= start_ns.saturating_add(ended.halt_ns)) {
            // It polled until it slept; what lies between the two is KVM's way there.
            Some(slept) => {
                let until_slept = slept.saturating_sub(start_ns);
                let Some((window, whole)) = window.zip(whole) else {
                    // So soon, it was on its way to sleep from the start; no window is as short.
                    let polled = until_slept > 2 * MARGIN_NS;
                    let ns = if polled { until_slept } else { 0 };
                    return Some(Poll { ns, cut: None });
                };
                let is_cut = until_slept.saturating_add(MARGIN_NS) < window;
                Some(Poll {
                    ns: if is_cut { until_slept } else { whole },
                    cut: Some(is_cut),
                })
            }
            // Woken before it slept: it polled until then at the longest.
            None => whole.zip(woken).map(|(whole, (time, _))| Poll {
                ns: whole.min(time.saturating_sub(start_ns)),
                cut,
            }),
        }
    }
}

/// A vCPU's ceiling, as far as its windows showed it: since 6.1 KVM lets a window grow past the ceiling and clamps it when
/// the next halt begins. So a halt's `old` is either what the halt before left, and then the ceiling is no smaller, or it
/// is the ceiling itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SeenCeiling {
    #[default]
    Unseen,
    /// A larger window was cut down to this.
    Is(u32),
    /// A window of this size was left as it was.
    AtLeast(u32),
}

impl SeenCeiling {
    /// The rule left a window of `left`, and the next halt that tells began with `old`.
    pub(super) fn seen(self, left: u32, old: u32) -> Self {
        // A window of 0 may also mean that polling was off for a while, in silence.
        if old == 0 || old > left {
            return self;
        }
        if old < left {
            return Self::Is(old);
        }
        match self {
            Self::Is(ceiling) if ceiling >= left => self,
            Self::AtLeast(seen) => Self::AtLeast(seen.max(left)),
            Self::Is(_) | Self::Unseen => Self::AtLeast(left),
        }
    }

    /// A halt began with a window of `old`: a ceiling below it is not in force any more. What raised
    /// it may lie where events were lost.
    pub(super) fn not_below(self, old: u32) -> Self {
        match self {
            Self::Is(ceiling) if ceiling < old => Self::AtLeast(old),
            _ => self,
        }
    }

    /// The window with which a halt begins, if the rule left `left`. Where the ceiling was not seen
    /// it is taken to be `param`, the module's.
    pub(super) fn clamp(self, left: u32, param: Option<u32>) -> u32 {
        match (self, param) {
            (Self::Is(ceiling), _) => left.min(ceiling),
            (Self::AtLeast(seen), Some(param)) => left.min(param.max(seen)),
            (Self::Unseen, Some(param)) => left.min(param),
            (_, None) => left,
        }
    }

    /// The ceiling of a halt that began with `window`, and who set it: the observed one, else the
    /// reported one, unless a larger window contradicts that.
    pub(super) fn known(
        self,
        window: Option<u32>,
        told: Option<Ceiling>,
    ) -> (Option<u32>, CeilingSource) {
        let seen = match self {
            Self::Is(ceiling) => {
                let told = told.filter(|told| told.ns == ceiling);
                return (
                    Some(ceiling),
                    told.map(|told| told.source).unwrap_or_default(),
                );
            }
            Self::AtLeast(seen) => seen.max(window.unwrap_or(0)),
            Self::Unseen => window.unwrap_or(0),
        };
        match told.filter(|told| seen <= told.ns) {
            Some(told) => (Some(told.ns), told.source),
            None => (None, CeilingSource::Unknown),
        }
    }
}
