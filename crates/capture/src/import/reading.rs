//! From lines to facts: clocks, order, who is who, halts. Pure; memory does not grow with the text.
//!
//! ```text
//! line ─► read ─► clock: each CPU's times ─► order: all CPUs' ─► places: who ─► decoder ─► facts
//! ```

use std::collections::BTreeMap;

use haltwise_core::decode::{Decoder, Event, Fact, Order, What as Happened};
use haltwise_core::event::{Facts, WakeSource};
use haltwise_core::ids::{Tid, VcpuId};

use super::clock::Clock;
use super::counts::{ExitCounts, IdleTimes};
use super::error::{Skipped, Tally};
use super::line::fields::What;
use super::line::{self, About, Head, Notice, Said};
use super::places::{Halting, Places};
use super::tables::Tables;
use super::text::{Sign, TextFacts};
use super::told::GivenSettings;

/// Events read in one round: one that is overtaken by two rounds of others comes too late.
const ROUND: u32 = 4096;

/// Times of different CPUs and halts printed in microseconds may seem to overlap by so much.
const OVERLAP_NS: u64 = 10_000;

/// An injection belongs to the waking that its thread does next, if that comes as soon.
const INJECTION_NS: u64 = 20_000;

/// Lines in which the architecture is looked for.
const ASKED: u64 = 4096;

const LONGEST_FACT: usize = 128;

#[derive(Debug)]
pub(super) struct Reading {
    /// Settings given by the user, and settings found in the text since.
    pub(super) told: GivenSettings,
    clock: Clock<Item>,
    order: Order<(u64, Item)>,
    decoder: Decoder,
    pub(super) places: Places,
    pub(super) tally: Tally,
    pub(super) tables: Tables,
    pub(super) exits: ExitCounts,
    pub(super) idle: IdleTimes,
    pub(super) text: TextFacts,
    /// KVM's last report on each thread's halts.
    latest: BTreeMap<Tid, Latest>,
    /// The last interrupt that was injected on each CPU: when, by which thread, and what it was.
    injected: BTreeMap<Option<u32>, (u64, Option<Tid>, WakeSource)>,
    in_round: u32,
    /// The time that was read last, and that when this round began. Not the latest: a wrong time must
    /// not make all others late.
    read_ns: u64,
    round_began_ns: u64,
}

#[derive(Debug, Default)]
struct Latest {
    call: Option<(u64, What)>,
    wakeup: Option<(u64, What)>,
    /// The halt among the facts that are not written yet, and when it began, until the guest runs again.
    halt: Option<(usize, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Event(Head, What),
    Gap,
    ThreadGap(Tid),
}

impl Reading {
    pub(super) fn new(told: GivenSettings) -> Self {
        let mut decoder = Decoder::new(told.clamp());
        if let Some(ceiling) = told.ceiling() {
            decoder.tell_ceiling(ceiling);
        }
        Self {
            told,
            clock: Clock::default(),
            order: Order::default(),
            decoder,
            places: Places::default(),
            tally: Tally::default(),
            tables: Tables::default(),
            exits: ExitCounts::default(),
            idle: IdleTimes::default(),
            text: TextFacts::default(),
            latest: BTreeMap::new(),
            injected: BTreeMap::new(),
            in_round: 0,
            read_ns: 0,
            round_began_ns: 0,
        }
    }

    /// Takes a line that is too long to be one.
    pub(super) fn too_long(&mut self) {
        self.tally.skip(Skipped::Damaged, 1);
        self.clock.gap();
    }

    pub(super) fn line(&mut self, line: &[u8], facts: &mut Facts) {
        self.text.lines += 1;
        if self.text.lines <= ASKED && !self.text.host.contains_key(&About::Arch) {
            self.text.note_arch(line);
        }
        match line::read(line) {
            Said::Event(head, what) => {
                self.tally.events += 1;
                self.text.note(what, false);
                if head.is_threadless {
                    self.text.threadless(what);
                }
                if self.is_cut(&head, what) {
                    self.tally.skip(Skipped::Damaged, 1);
                    self.clock.gap();
                } else {
                    self.event(&head, what, facts);
                }
            }
            Said::OtherEvent(name) => {
                self.tally.events += 1;
                self.tally.other(name);
            }
            Said::Notice(notice) => self.notice(notice),
            Said::Nothing => {}
            Said::Ticks(what) => {
                self.tally.skip(Skipped::Ticks, 1);
                if let Some(what) = what {
                    self.text.note(what, true);
                }
            }
            Said::RunTogether => {
                self.tally.skip(Skipped::RunTogether, 1);
                self.clock.gap();
            }
            Said::Damaged(whose, fault) => {
                self.tally.skip(Skipped::Damaged, 1);
                self.text.damage(line, fault);
                if self.tally.events == 0 {
                    self.tables.line(line);
                }
                if let Some(head) = whose {
                    let item = head.tid.map_or(Item::Gap, Item::ThreadGap);
                    self.pass(&head, item, facts);
                } else {
                    self.clock.gap();
                }
            }
        }
    }

    pub(super) fn finish(&mut self, facts: &mut Facts) {
        for (time_ns, item) in self.clock.finish() {
            self.order.push(time_ns, (time_ns, item));
        }
        let ready = self.order.finish();
        self.fold(&ready, facts);
        self.tally.skip(Skipped::OutOfOrder, self.order.take_late());
        facts.lost.extend(self.tally.take_lost(self.text.last_ns));
    }

    /// Whether a line lost its beginning or its end where that cannot be seen from it alone: a name
    /// that perf gives to all others, or KVM's word on the wake-up. Also whether it does not name
    /// the thread that halted.
    fn is_cut(&mut self, head: &Head, what: What) -> bool {
        let of_kvm = matches!(what, What::VcpuWakeup { .. } | What::HaltPollNs { .. });
        let threadless = of_kvm && head.tid.is_none();
        let nameless = head.is_perf && head.comm.is_empty() && self.text.saw(Sign::Names);
        if !head.comm.is_empty() {
            self.text.see(Sign::Names);
        }
        let mut wordless = false;
        if let What::VcpuWakeup {
            latency_ns: Some(_),
            ..
        } = what
        {
            self.text.see(Sign::LatencyTold);
        }
        match what {
            What::VcpuWakeup { valid: Some(_), .. } => self.text.see(Sign::ValidTold),
            What::VcpuWakeup { valid: None, .. } if self.text.saw(Sign::ValidTold) => {
                wordless = true;
            }
            What::VcpuWakeup { valid: None, .. } => self.text.see(Sign::ValidAssumed),
            _ => {}
        }
        threadless || nameless || wordless
    }

    fn event(&mut self, head: &Head, what: What, facts: &mut Facts) {
        if head.is_rounded {
            self.text.see(Sign::Rounded);
        }
        if what == What::Switched {
            // It names no thread that halts, but shows that the tracer saw context switches.
            self.text.see(Sign::Switches);
        } else {
            self.pass(head, Item::Event(*head, what), facts);
        }
    }

    fn pass(&mut self, head: &Head, item: Item, facts: &mut Facts) {
        let passed = self.clock.pass(head.cpu, head.time_ns, item);
        if let Some((time_ns, item)) = passed.ready {
            self.read_ns = time_ns;
            self.order.push(time_ns, (time_ns, item));
        }
        if let Some(time_ns) = passed.gap_ns {
            self.order.push(time_ns, (time_ns, Item::Gap));
        }
        if passed.first && self.text.saw(Sign::Overwritten) {
            // The events of this CPU before this one were overwritten.
            self.order.push(head.time_ns, (head.time_ns, Item::Gap));
        }
        if let Some(why) = passed.dropped {
            self.tally.skip(why, 1);
        }
        self.in_round += 1;
        if self.in_round >= ROUND {
            self.end_round(facts);
        }
    }

    fn end_round(&mut self, facts: &mut Facts) {
        self.in_round = 0;
        let ready = self.order.end_round(self.round_began_ns);
        self.round_began_ns = self.read_ns;
        self.fold(&ready, facts);
        let late = self.order.take_late();
        if late > 0 {
            self.tally.skip(Skipped::OutOfOrder, late);
            let time_ns = self.text.last_ns;
            let what = Happened::Gap;
            self.decoder.push(&Event { time_ns, what });
        }
        facts.lost.extend(self.tally.take_lost(self.text.last_ns));
    }

    fn fold(&mut self, ready: &[(u64, Item)], facts: &mut Facts) {
        for &(time_ns, item) in ready {
            self.text.first_ns.get_or_insert(time_ns);
            let what = match item {
                Item::Event(head, what) => self.place(&head, what),
                Item::Gap => {
                    self.exits.gap();
                    Some(Happened::Gap)
                }
                Item::ThreadGap(tid) => Some(Happened::ThreadGap { tid }),
            };
            let Some(what) = what else {
                if let Item::Event(head, what) = item {
                    self.between_halts(&head, what, facts);
                }
                continue;
            };
            self.text.last_ns = self.text.last_ns.max(time_ns);
            match self.decoder.push(&Event { time_ns, what }) {
                Some(Fact::Halt(mut halt)) => {
                    let (vm, vcpu) = self.places.of(halt.tid);
                    halt.vm = vm;
                    halt.vcpu = halt.vcpu.or(vcpu);
                    self.text.halts += 1;
                    self.latest.entry(halt.tid).or_default().halt =
                        Some((facts.halts.len(), halt.start_ns));
                    facts.halts.push(halt);
                }
                Some(Fact::Window(mut change)) => {
                    change.vm = self.places.of(change.tid).0;
                    self.text.window_calls += 1;
                    facts.windows.push(change);
                }
                None => {}
            }
        }
    }

    /// An event in the decoder's words; `None` if it concerns no vCPU.
    fn place(&mut self, head: &Head, what: What) -> Option<Happened> {
        match what {
            What::VcpuWakeup {
                ns,
                waited,
                valid,
                latency_ns,
            } => {
                let tid = self.halting(head)?;
                if let Some(why) = self.is_told_again(tid, head.time_ns, what) {
                    self.tally.skip(why, 1);
                    return (why == Skipped::Overlapping).then_some(Happened::ThreadGap { tid });
                }
                Some(Happened::VcpuWakeup {
                    tid,
                    ns,
                    waited,
                    valid: valid.unwrap_or(true),
                    latency_ns,
                })
            }
            What::HaltPollNs {
                vcpu,
                grow,
                old,
                new,
            } => {
                let tid = self.halting(head)?;
                if let Some(why) = self.is_told_again(tid, head.time_ns, what) {
                    self.tally.skip(why, 1);
                    return None;
                }
                self.places.runs(tid, Some(vcpu));
                Some(Happened::HaltPollNs {
                    tid,
                    vcpu,
                    grow,
                    old,
                    new,
                })
            }
            What::Waking { .. } | What::Slept { .. } if head.is_threadless => None,
            What::Waking { woken } => {
                self.text.see(Sign::Wakings);
                self.places.knows(woken).then(|| {
                    if head.flags.is_none() {
                        self.text.see(Sign::NoFlags);
                    }
                    let injected = self.injected.remove(&head.cpu).filter(|(time, by, _)| {
                        *by == head.tid && head.time_ns.saturating_sub(*time) <= INJECTION_NS
                    });
                    let source = injected.map(|(_, _, source)| source);
                    Happened::Waking {
                        tid: woken,
                        source: source.unwrap_or_else(|| self.places.source(woken, head)),
                    }
                })
            }
            What::Slept { tid } => {
                self.text.see(Sign::Switches);
                self.places.knows(tid).then(|| {
                    // Only who was seen to sleep can be said not to have slept.
                    self.decoder.watch(tid, head.time_ns);
                    Happened::Slept { tid }
                })
            }
            What::Switched
            | What::Injects(_)
            | What::Exit(..)
            | What::Entry(..)
            | What::Idle { .. } => None,
        }
    }

    /// Takes what is no event of a halt: exits and entries, interrupts, idle states.
    fn between_halts(&mut self, head: &Head, what: What, facts: &mut Facts) {
        match what {
            What::Injects(source) => self.inject(head, source, facts),
            What::Idle { cpu, state } => self.idle.see(cpu, state, head.time_ns),
            What::Exit(vcpu, _) | What::Entry(vcpu, _) => {
                let Some(tid) = self.running(head, vcpu) else {
                    return;
                };
                let is_new = match what {
                    What::Exit(_, reason) => self.exits.exit(tid, head.time_ns, reason),
                    What::Entry(_, address) => self.exits.entry(tid, head.time_ns, address),
                    _ => true,
                };
                self.tally.skip(Skipped::Repeated, u64::from(!is_new));
            }
            _ => {}
        }
    }

    /// Takes an interrupt of a vCPU. It belongs to the waking that follows it, or, if the vCPU's own thread injects it
    /// before the guest runs again, to the halt that it ended and whose wake source is unknown.
    fn inject(&mut self, head: &Head, source: WakeSource, facts: &mut Facts) {
        let own = head
            .tid
            .and_then(|tid| self.latest.get_mut(&tid)?.halt.take());
        let halt = own.and_then(|(at, start_ns)| {
            let halt = facts.halts.get_mut(at)?;
            (halt.start_ns == start_ns && Some(halt.tid) == head.tid).then_some(halt)
        });
        match halt {
            Some(halt) if halt.wake == WakeSource::Unknown => halt.wake = source,
            Some(_) => {}
            None => {
                self.injected
                    .insert(head.cpu, (head.time_ns, head.tid, source));
            }
        }
    }

    /// Why an event of a halt cannot be true: it is the last one again, or the thread had not ended its last halt
    /// when this one began.
    fn is_told_again(&mut self, tid: Tid, time_ns: u64, what: What) -> Option<Skipped> {
        let latest = self.latest.entry(tid).or_default();
        let told = Some((time_ns, what));
        let What::VcpuWakeup { ns, .. } = what else {
            let before = std::mem::replace(&mut latest.call, told);
            return (before == told).then_some(Skipped::Repeated);
        };
        if latest.wakeup == told {
            return Some(Skipped::Repeated);
        }
        let began_ns = time_ns.saturating_sub(ns).saturating_add(OVERLAP_NS);
        if latest
            .wakeup
            .is_some_and(|(ended_ns, _)| began_ns < ended_ns)
        {
            return Some(Skipped::Overlapping);
        }
        latest.wakeup = told;
        None
    }

    /// The thread that runs this vCPU's guest; the halt before is settled.
    fn running(&mut self, head: &Head, vcpu: Option<VcpuId>) -> Option<Tid> {
        let tid = self.halting(head)?;
        self.places.runs(tid, vcpu);
        self.text.last_ns = self.text.last_ns.max(head.time_ns);
        if let Some(latest) = self.latest.get_mut(&tid) {
            latest.halt = None;
        }
        Some(tid)
    }

    /// The thread of a vCPU, if it can be told apart.
    fn halting(&mut self, head: &Head) -> Option<Tid> {
        let tid = head.tid?;
        match self.places.vcpu(tid, head.process, head.comm) {
            Halting::Known => Some(tid),
            Halting::Reused => {
                self.decoder.forget(tid);
                self.latest.remove(&tid);
                Some(tid)
            }
            Halting::Refused => {
                self.tally.skip(Skipped::TooManyThreads, 1);
                None
            }
        }
    }

    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Lost { events } => {
                self.tally.skip(Skipped::ByTracer, events.unwrap_or(1));
                self.clock.gap();
            }
            Notice::Overwritten { events, cpus } => {
                self.tally.skip(Skipped::Overwritten, events);
                if events > 0 {
                    self.text.see(Sign::Overwritten);
                }
                if let Some(cpus) = cpus {
                    self.text.host.insert(About::Cpus, cpus.to_string());
                }
            }
            Notice::Host(about, value) => {
                let value = String::from_utf8_lossy(&value[..value.len().min(LONGEST_FACT)]);
                if about == About::Release && self.told.kernel_release.is_none() {
                    self.learn_kernel(&value);
                }
                self.text.host.insert(about, value.into_owned());
            }
        }
    }

    /// perf's header names the kernel before the first event.
    fn learn_kernel(&mut self, release: &str) {
        if self.tally.events > 0 {
            return;
        }
        self.told.kernel_release = Some(release.to_owned());
        *self = Self {
            tally: std::mem::take(&mut self.tally),
            text: std::mem::take(&mut self.text),
            ..Self::new(self.told.clone())
        };
    }
}
