//! A vCPU that halts as KVM would have it: gaps drawn from a seeded process, windows by KVM's own
//! rule (`virt/kvm/kvm_main.c`, 6.11 and later), wake-up latencies drawn evenly from a range.

use haltwise_core::event::{CeilingSource, Facts, Halt, WakeSource, WindowCall, WindowChange};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::workload::{Gaps, SplitMix64};

#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) vm: u32,
    pub(crate) vcpu: u32,
    /// Process of gaps, as [`haltwise_core::workload::GapSpec`] reads it.
    pub(crate) gaps: &'static str,
    pub(crate) seed: u64,
    pub(crate) run_ns: u64,
    pub(crate) ceiling_ns: u32,
    pub(crate) source: CeilingSource,
    pub(crate) latency_ns: (u64, u64),
    /// Share of the polls that another task cuts short.
    pub(crate) cut: f64,
    pub(crate) wakes: &'static [WakeSource],
    pub(crate) veto: bool,
    pub(crate) shrink: u32,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            vm: 0,
            vcpu: 0,
            gaps: "exp:40us",
            seed: 1,
            run_ns: 15_000,
            ceiling_ns: 200_000,
            source: CeilingSource::Param,
            latency_ns: (24_000, 40_000),
            cut: 0.0,
            wakes: &[WakeSource::Device],
            veto: false,
            shrink: 2,
            from_ns: super::START_NS,
            until_ns: super::START_NS + super::LENGTH_NS,
        }
    }
}

/// The rule's other two parameters, at their defaults.
const GROW: u32 = 2;
const GROW_START: u32 = 10_000;

impl Guest {
    pub(crate) fn run(&self, facts: &mut Facts) {
        self.run_for(facts, u64::MAX);
    }

    /// Runs for at most `most` halts; the end of the run may come first.
    pub(crate) fn run_for(&self, facts: &mut Facts, most: u64) {
        let mut gaps = Gaps::new(self.gaps.parse().unwrap(), self.seed).unwrap();
        let mut random = SplitMix64(self.seed);
        let mut window = 0;
        let mut now = self.from_ns + self.run_ns;
        for _ in 0..most {
            // A window that has grown past the ceiling is cut when the next halt begins.
            window = window.min(self.ceiling_ns);
            let mut halt = self.halt(now, gaps.draw().0, window, &mut random);
            if halt.end_ns() > self.until_ns {
                return;
            }
            if !self.veto {
                window = self.next_window(window, &mut halt, facts);
            }
            halt.window_next_ns = Some(window);
            now = halt.end_ns() + self.run_ns;
            facts.halts.push(halt);
        }
    }

    fn halt(&self, start_ns: u64, gap_ns: u64, window: u32, random: &mut SplitMix64) -> Halt {
        let polls = window > 0 && !self.veto;
        let is_cut = polls && random.unit() < self.cut;
        let reach = match u64::from(window) {
            window if is_cut => random.below(window),
            window => window,
        };
        let caught = polls && gap_ns <= reach;
        let (low, high) = self.latency_ns;
        let latency = low + random.below(high - low + 1);
        let which = random.below(self.wakes.len() as u64);
        let poll_ns = if polls { reach.min(gap_ns) } else { 0 };
        Halt {
            start_ns,
            halt_ns: if caught { gap_ns } else { gap_ns + latency },
            vm: Some(VmIndex(self.vm)),
            vcpu: Some(VcpuId(self.vcpu)),
            tid: tid(self.vm, self.vcpu),
            waited: !caught,
            valid: true,
            window_ns: Some(window),
            ceiling_ns: Some(self.ceiling_ns),
            ceiling_source: self.source,
            poll_ns: Some(poll_ns),
            wake_latency_ns: Some(if caught { 0 } else { latency }),
            wake: self.wakes[usize::try_from(which).unwrap()],
            poll_cut: Some(is_cut && !caught),
            ..Halt::default()
        }
    }

    fn next_window(&self, window: u32, halt: &mut Halt, facts: &mut Facts) -> u32 {
        let (length, ceiling) = (halt.halt_ns, u64::from(self.ceiling_ns));
        let window_ns = u64::from(window);
        if length <= window_ns || ceiling == 0 {
            return if ceiling == 0 { 0 } else { window };
        }
        let new = if window > 0 && length > ceiling {
            halt.change = WindowCall::Shrink;
            let shrunk = window.checked_div(self.shrink).unwrap_or(0);
            if shrunk < GROW_START { 0 } else { shrunk }
        } else if window_ns < ceiling && length < ceiling {
            halt.change = WindowCall::Grow;
            (window * GROW).max(GROW_START)
        } else {
            return window;
        };
        facts.windows.push(WindowChange {
            time_ns: halt.end_ns(),
            vm: halt.vm,
            vcpu: halt.vcpu,
            tid: halt.tid,
            grow: halt.change == WindowCall::Grow,
            old_ns: window,
            new_ns: new,
        });
        new
    }
}

pub(crate) fn tid(vm: u32, vcpu: u32) -> Tid {
    Tid(4_712 + vm * 100 + vcpu)
}
