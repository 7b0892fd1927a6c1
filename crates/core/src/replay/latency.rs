//! `L`: how long a wake-up takes, by how long the vCPU has slept.
//!
//! Longer sleeps wake more slowly: deeper C-states, colder caches. Sleeps are put in classes of a
//! power of two from 1 us up, and each vCPU keeps some of its recorded latencies of each class. A
//! replayed sleep takes the one whose turn it is, by the number of the halt: no dice, every policy
//! gets the same, and the spread of the latencies stays what it was. (One median for a class would
//! lose that spread, and with it whether a noisy latency now and then opens or shuts the window.)
//!
//! **Which sleeps stand for others.** Where nearly every poll is met, the halts that sleep are those that something
//! disturbed; where nothing polls, gaps shorter than the load has any are those of halts that began late. A class speaks
//! for itself only where one in [`TYPICAL`] of the vCPU's halts slept in it. Another class takes the latencies of its VM,
//! else of the host; else the `Price` that was measured on purpose, corrected by the nearest class that speaks; else
//! the few sleeps there are, which may be disturbed: [`Table::early`] and [`Table::late`] say how far either may be off.

use std::ops::Range;
use std::sync::Arc;

use super::overrun::{HaltEnds, Overrun, Overruns};
use crate::event::{Halt, WakeSource};

/// Classes of sleep: below 1 us, then by powers of two; the last begins at 2^24 us (17 s).
pub const CLASSES: usize = 26;

/// Latencies kept of each class: enough for a 99th percentile, small for ten thousand vCPUs.
const KEPT: usize = 512;

/// One in so many halts must have slept in a class for its sleeps to stand for others of that length. A steady VM whose
/// polls are met has 1 to 4 % of halts that sleep, in several classes, and their wake-ups took ten times as long as
/// those of the same VM without polling; the rarest of ten classes that exponential gaps fill has 2 to 3 %.
pub const TYPICAL: u64 = 32;

/// Whether so many sleeps of a length, among so many halts, stand for others of that length.
pub const fn is_typical(sleeps: u64, halts: u64) -> bool {
    sleeps >= ENOUGH && sleeps.saturating_mul(TYPICAL) >= halts
}

/// A latency that was measured at another time may be so many times shorter or longer in the VM. Seen: 22 us calibrated
/// and 47 us in a VM woken each 60 us (measurements/2026-11-22-vm-tune); 18.3 us calibrated and 8.8 us in the demo's VM.
pub const TIMES: u64 = 2;

/// The class of a sleep of `ns` nanoseconds.
pub fn class_of(ns: u64) -> usize {
    let units = ns >> 10;
    let class = u64::BITS - units.leading_zeros();
    (class as usize).min(CLASSES - 1)
}

/// The longest sleep of a class, in nanoseconds.
pub fn class_end(class: usize) -> u64 {
    if class + 1 >= CLASSES {
        u64::MAX
    } else {
        (1 << (10 + class)) - 1
    }
}

/// Every `stride`th value of a sequence, where `stride` doubles whenever the room is full: an even
/// selection in a fixed room, the same each time. A `stride` is a power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Selection {
    /// Shared with every table that draws from it: what the host saw stands in those of all vCPUs that saw too little.
    kept: Option<Arc<Vec<u64>>>,
    stride: u64,
    seen: u64,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            kept: None,
            stride: 1,
            seen: 0,
        }
    }
}

impl Selection {
    fn is_next_kept(&self) -> bool {
        self.seen & (self.stride - 1) == 0
    }

    fn kept(&self) -> &[u64] {
        self.kept.as_deref().map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, to: impl Fn(u64) -> u64) {
        let kept = Arc::make_mut(self.kept.get_or_insert_default());
        for value in kept {
            *value = to(*value);
        }
    }

    fn add(&mut self, value: u64) {
        if self.is_next_kept() {
            let kept = Arc::make_mut(self.kept.get_or_insert_default());
            if kept.len() == KEPT {
                let mut keep = false;
                kept.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen & (self.stride - 1) == 0 {
                kept.push(value);
            }
        }
        self.seen += 1;
    }
}

/// Recorded wake-up latencies of one vCPU, VM or host, by class of sleep; of a host also how halts ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latencies {
    halts: u64,
    /// A bit for each class of which there are any.
    seen: u32,
    /// These, in rising order: each vCPU has a handful.
    classes: Vec<Selection>,
    halt_ends: Option<Box<HaltEnds>>,
    /// Latency of a wake-up by a thread on the sleeper's CPU, which is not idle then; measured on purpose.
    same_cpu_ns: Option<u64>,
}

impl Latencies {
    /// Takes what was measured of wake-ups by a thread on the sleeper's CPU.
    pub(super) fn on_the_same_cpu(&mut self, latency_ns: u64) {
        self.same_cpu_ns = Some(latency_ns);
    }

    /// Adds a wake-up that was recorded.
    pub fn add(&mut self, slept_ns: u64, latency_ns: u64) {
        self.class_mut(class_of(slept_ns)).add(latency_ns);
    }

    /// Counts a halt, whether it slept or not.
    pub fn halted(&mut self) {
        self.halts += 1;
    }

    /// Adds those classes of others that speak for themselves.
    pub(super) fn add_typical(&mut self, others: &Self) {
        for class in (0..CLASSES).filter(|&class| others.speaks(class)) {
            let kept = others.class(class).map_or(&[][..], Selection::kept);
            let own = self.class_mut(class);
            for &ns in kept {
                own.add(ns);
            }
        }
    }

    /// Whether enough halts slept in a class, in all and of those that there were.
    fn speaks(&self, class: usize) -> bool {
        is_typical(self.seen(class), self.halts)
    }

    /// The nearest class of those that are asked for, and its median latency.
    fn nearest(&self, class: usize, is_asked: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
        let asked = (0..CLASSES).filter(|&other| is_asked(other));
        let nearest = asked.min_by_key(|other| (class.abs_diff(*other), *other))?;
        Some((nearest, median(self.class(nearest)?.kept())?))
    }

    /// Adds how a halt of the host ended.
    pub fn halt_ended(&mut self, halt: &Halt) {
        self.halt_ends.get_or_insert_default().halt(halt);
    }

    /// How long after its window a halt does not sleep, as far as they show it.
    pub fn overruns(&self) -> Overruns {
        let ends = self.halt_ends.as_ref();
        ends.map_or_else(Overruns::default, |ends| ends.overruns())
    }

    fn place(&self, class: usize) -> usize {
        (self.seen & ((1 << class) - 1)).count_ones() as usize
    }

    fn class_mut(&mut self, class: usize) -> &mut Selection {
        let place = self.place(class);
        if self.seen & (1 << class) == 0 {
            self.seen |= 1 << class;
            self.classes.insert(place, Selection::default());
        }
        &mut self.classes[place]
    }

    fn class(&self, class: usize) -> Option<&Selection> {
        (self.seen & (1 << class) != 0).then(|| &self.classes[self.place(class)])
    }

    fn seen(&self, class: usize) -> u64 {
        self.class(class).map_or(0, |class| class.seen)
    }

    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The median latency of the shortest sleeps that are typical; where there are none, the fastest tenth of the shortest
    /// sleeps of which there are [`ENOUGH`], or of any, and their median. In nanoseconds.
    pub fn shortest_sleeps_ns(&self) -> Option<[u64; 2]> {
        let first = |asked: &dyn Fn(usize) -> bool| (0..CLASSES).find(|&class| asked(class));
        if let Some(class) = first(&|class| self.speaks(class)) {
            return median(self.class(class)?.kept()).map(|ns| [ns; 2]);
        }
        let class = first(&|class| self.seen(class) >= ENOUGH);
        let class = class.or_else(|| first(&|class| self.seen(class) > 0))?;
        let kept = self.class(class)?.kept();
        Some([percentile(kept, FASTEST)?, median(kept)?])
    }
}

fn median(values: &[u64]) -> Option<u64> {
    percentile(values, 0.5)
}

fn percentile(values: &[u64], share: f64) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    crate::stats::percentile_of_sorted(&sorted, share)
}

/// Latencies measured on purpose, as far as the latencies stand for the sleeps of a capture.
#[derive(Debug, Clone, Default)]
pub(crate) struct Price {
    latencies: Latencies,
    /// By how much the capture's own sleeps of the nearest length take longer; `None` where it has none that speak.
    longer_ns: [Option<i64>; CLASSES],
    /// The least that a wake-up takes where it need not find its CPU idle.
    same_cpu_ns: Option<u64>,
}

impl Price {
    /// `is_busy`: polls of the capture were preempted, so that its wake-ups need not find their CPU idle.
    pub(crate) fn new(measured: &Latencies, typical: &Latencies, is_busy: bool) -> Self {
        let longer_ns: [Option<i64>; CLASSES] = std::array::from_fn(|class| {
            let (nearest, recorded_ns) = typical.nearest(class, |it| typical.speaks(it))?;
            let (_, measured_ns) = measured.nearest(nearest, |it| measured.seen(it) > 0)?;
            Some(recorded_ns.cast_signed() - measured_ns.cast_signed())
        });
        let mut latencies = measured.clone();
        for (class, by) in longer_ns.iter().enumerate() {
            if let Some(by) = by.filter(|_| latencies.seen(class) > 0) {
                let place = latencies.place(class);
                latencies.classes[place].change(|ns| ns.saturating_add_signed(by));
            }
        }
        Self {
            latencies,
            longer_ns,
            same_cpu_ns: measured.same_cpu_ns.filter(|_| is_busy),
        }
    }
}

/// Sources of wake-up latencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Sleeps of this capture that stand for others of their length, in order of preference: the vCPU's own first.
    pub(crate) typical: &'a [&'a Latencies],
    pub(crate) price: Option<&'a Price>,
    /// All sleeps of this capture, and those that began because another task wanted the CPU, which then held up the
    /// wake-up: better than nothing, no more.
    pub(crate) few: [&'a Latencies; 2],
    /// How long after its window a halt of the host does not sleep.
    pub(crate) overruns: Overruns,
}

/// Fewest sleeps of a length that stand for all sleeps of that length.
pub const ENOUGH: u64 = 16;

impl<'a> Sources<'a> {
    /// Whether the same knows of each class as of another's.
    pub(super) fn answer_as(&self, others: &Sources<'_>) -> bool {
        (0..CLASSES).all(
            |class| match (self.of_class(class), others.of_class(class)) {
                (Some((own, _)), Some((other, _))) => std::ptr::eq(own, other),
                (own, other) => own.is_none() && other.is_none(),
            },
        )
    }

    fn of_class(&self, class: usize) -> Option<(&'a Latencies, Origin)> {
        let known = |source: &&Latencies| source.seen(class) > 0;
        let mut typical = self.typical.iter().copied();
        let typical = typical.find(|source| source.speaks(class));
        let price = || self.price.map(|price| &price.latencies).filter(known);
        let few = || self.few.iter().copied().find(known);
        (typical.map(|source| (source, Origin::Recorded)))
            .or_else(|| Some((price()?, Origin::Calibrated)))
            .or_else(|| Some((few()?, Origin::Few)))
    }
}

/// Where the latencies of a class come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Enough sleeps of the capture.
    Recorded,
    /// Measured another time.
    Calibrated,
    /// A few sleeps of the capture, or disturbed ones.
    Few,
}

/// `L` for one vCPU: an answer for every class; and how long after its window a halt does not sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Latencies in turn; none is empty.
    turns: [Arc<Vec<u64>>; CLASSES],
    /// A bit for each class whose latencies are those of the next longer class: a replay asks for several classes of each
    /// halt, and most of them have the same source.
    alike: u32,
    /// No sleep of this class was recorded anywhere.
    guessed: [bool; CLASSES],
    /// Where they come from; for a class that was guessed, where those of the nearest do.
    origins: [Origin; CLASSES],
    /// By how much a price was corrected.
    longer_ns: [Option<i64>; CLASSES],
    same_cpu_ns: Option<u64>,
    overruns: Overruns,
}

/// A class that was guessed from one that is further off than this counts as one of few sleeps: wake-ups of sleeps that are
/// 16 times as long take up to twice as long (docs/tuning.md).
const NEAR: usize = 2;

impl Table {
    /// Puts a table together from the nearest source that knows. `None` if none saw any sleep.
    pub(crate) fn new(sources: &Sources<'_>) -> Option<Self> {
        let of_class = |class: usize| {
            let (source, origin) = sources.of_class(class)?;
            Some((source.class(class)?.kept.clone()?, origin))
        };
        let known: [Option<(Arc<Vec<u64>>, Origin)>; CLASSES] = std::array::from_fn(of_class);
        let is_firm = |class: usize| (known[class].as_ref()).is_some_and(|it| it.1 != Origin::Few);
        // Few sleeps stand back where a class nearby, or a price, says more.
        let nearest = |class: usize| {
            let by_distance = |other: &usize| (class.abs_diff(*other), *other);
            let all = (0..CLASSES).filter(|other| known[*other].is_some());
            let firm = all
                .clone()
                .filter(|&other| is_firm(other))
                .min_by_key(by_distance);
            let is_far = |other: usize| {
                let (_, origin) = known[other].as_ref()?;
                Some(class.abs_diff(other) > NEAR && *origin == Origin::Recorded)
            };
            let near = firm.filter(|&other| is_far(other) == Some(false));
            let nearest = near.or_else(|| all.min_by_key(by_distance))?;
            let (turns, origin) = known[nearest].as_ref()?;
            let origin = if is_far(nearest)? {
                Origin::Few
            } else {
                *origin
            };
            Some((nearest, turns, origin))
        };
        let first = nearest(0)?;
        // Where one class is known, each has a nearest.
        let nearest: [_; CLASSES] = std::array::from_fn(|class| nearest(class).unwrap_or(first));
        let turns = nearest.map(|(_, turns, _)| Arc::clone(turns));
        Some(Self {
            alike: alike(&turns),
            turns,
            guessed: std::array::from_fn(|class| nearest[class].0 != class),
            origins: nearest.map(|(.., origin)| origin),
            longer_ns: sources
                .price
                .map_or([None; CLASSES], |price| price.longer_ns),
            same_cpu_ns: sources.price.and_then(|price| price.same_cpu_ns),
            overruns: sources.overruns,
        })
    }

    #[cfg(test)]
    #[must_use]
    pub(crate) fn with_overruns(self, overruns: Overruns) -> Self {
        Self { overruns, ..self }
    }

    /// Up to which time after its window a halt does not sleep that a wake of this source ends.
    pub fn overrun(&self, wake: WakeSource) -> Overrun {
        self.overruns.of(wake)
    }

    /// A table of a price alone.
    pub fn of_price(measured: &Latencies) -> Option<Self> {
        let nothing = Latencies::default();
        Self::new(&Sources {
            typical: &[],
            price: Some(&Price::new(measured, &nothing, false)),
            few: [&nothing; 2],
            overruns: Overruns::default(),
        })
    }

    /// The latency of a class at its turn, in nanoseconds, and whether it had to be guessed.
    pub fn at(&self, class: usize, turn: u64) -> (u64, bool) {
        let turns = &self.turns[class];
        let index = turn.checked_rem(turns.len() as u64).unwrap_or(0);
        let index = usize::try_from(index).unwrap_or(0);
        let latency_ns = turns.get(index).copied().unwrap_or(0);
        (latency_ns, self.guessed[class])
    }

    /// A bit for each of some classes whose latency may differ from that of the next longer class, where a sample has its
    /// own latency in one class.
    pub(super) fn differing(&self, classes: Range<usize>, own: usize) -> u32 {
        let around_own = (1_u32 << own) | (1 << own >> 1);
        let below = |class: usize| (1_u32 << class) - 1;
        (!self.alike | around_own) & below(classes.end) & !below(classes.start)
    }

    /// Where the latencies of a class come from; for one that was guessed, those of the nearest.
    pub fn origin(&self, class: usize) -> Origin {
        self.origins[class]
    }

    /// The same, were doubtful wake-ups as early as they may be: a price [`TIMES`] shorter, or as short as a wake-up on a busy
    /// CPU where polls were preempted; a corrected price without its correction; a few sleeps [`TIMES`] shorter than the fastest
    /// tenth of them, since a disturbance only adds and may have met all.
    ///
    /// `None` where that changes no latency.
    pub fn early(&self) -> Option<Self> {
        let fastest_ns = self.fastest_ns();
        self.otherwise(|class, ns| self.early_ns(class, ns, &fastest_ns))
    }

    /// The fastest tenth of the few sleeps of each class; without meaning for others.
    fn fastest_ns(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| {
            let turns = Some(&self.turns[class]).filter(|_| self.origins[class] == Origin::Few);
            let fastest_ns = turns.and_then(|turns| percentile(turns, FASTEST));
            fastest_ns.unwrap_or(u64::MAX)
        })
    }

    fn early_ns(&self, class: usize, ns: u64, fastest_ns: &[u64; CLASSES]) -> u64 {
        match self.origins[class] {
            Origin::Recorded => ns,
            Origin::Calibrated => self.longer_ns[class].map_or_else(
                || (ns / TIMES).min(self.same_cpu_ns.unwrap_or(u64::MAX)),
                |by| ns.saturating_add_signed(-by.max(0)),
            ),
            Origin::Few => ns.min(fastest_ns[class] / TIMES),
        }
    }

    /// The same, were doubtful wake-ups as late as they may be: a price [`TIMES`] longer, or corrected twice. A few
    /// sleeps are as late as they were.
    ///
    /// `None` where that changes no latency.
    pub fn late(&self) -> Option<Self> {
        self.otherwise(|class, ns| self.late_ns(class, ns))
    }

    fn late_ns(&self, class: usize, ns: u64) -> u64 {
        match self.origins[class] {
            Origin::Recorded | Origin::Few => ns,
            Origin::Calibrated => self.longer_ns[class].map_or(ns.saturating_mul(TIMES), |by| {
                ns.saturating_add(by.unsigned_abs())
            }),
        }
    }

    fn otherwise(&self, latency_ns: impl Fn(usize, u64) -> u64) -> Option<Self> {
        let other = |class: usize| {
            let turns = &self.turns[class];
            let is_other = |ns: &u64| latency_ns(class, *ns) != *ns;
            let other = || Arc::new(turns.iter().map(|&ns| latency_ns(class, ns)).collect());
            turns.iter().any(is_other).then(other)
        };
        let others: [Option<Arc<Vec<u64>>>; CLASSES] = std::array::from_fn(other);
        others.iter().any(Option::is_some).then(|| {
            let mut table = self.clone();
            for (turns, other) in table.turns.iter_mut().zip(others) {
                if let Some(other) = other {
                    *turns = other;
                }
            }
            table.alike = alike(&table.turns);
            table
        })
    }

    /// The median latency of a class, in nanoseconds.
    pub fn median(&self, class: usize) -> u64 {
        median(&self.turns[class]).unwrap_or(0)
    }
}

/// Classes whose latencies are those of the next longer class, a bit each.
fn alike(turns: &[Arc<Vec<u64>>; CLASSES]) -> u32 {
    let pairs = turns.windows(2).enumerate();
    pairs.fold(0, |alike, (class, pair)| {
        alike | u32::from(Arc::ptr_eq(&pair[0], &pair[1]) || pair[0] == pair[1]) << class
    })
}

/// The share of few sleeps that is taken for undisturbed.
const FASTEST: f64 = 0.1;

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn classes_are_powers_of_two_from_a_microsecond_up() {
        for (ns, class) in [
            (0, 0),
            (1_023, 0),
            (1_024, 1),
            (2_047, 1),
            (2_048, 2),
            (1 << 33, 24),
            (1 << 34, 25),
            (u64::MAX, 25),
        ] {
            assert_eq!(class_of(ns), class, "{ns}");
        }
        for class in 0..CLASSES {
            assert_eq!(class_of(class_end(class)), class);
            let next = class_of(class_end(class).saturating_add(1));
            assert_eq!(next, (class + 1).min(CLASSES - 1));
        }
    }

    #[test]
    fn a_selection_is_even_and_bounded() {
        let mut selection = Selection::default();
        for value in 0..100_000 {
            selection.add(value);
        }
        let kept = selection.kept();
        assert!(kept.len() <= KEPT && kept.len() * 2 >= KEPT);
        let mut steps = kept.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(steps.all(|step| step == selection.stride), "{kept:?}");
    }

    /// Latencies of `sleeps` sleeps of one length, among `halts` halts.
    fn slept(slept_ns: u64, latency_ns: u64, sleeps: u64, halts: u64) -> Latencies {
        let mut latencies = Latencies::default();
        (0..halts).for_each(|_| latencies.halted());
        (0..sleeps).for_each(|_| latencies.add(slept_ns, latency_ns));
        latencies
    }

    fn table(typical: &[&Latencies], price: Option<&Price>, few: &Latencies) -> Option<Table> {
        Table::new(&Sources {
            typical,
            price,
            few: [few, &Latencies::default()],
            overruns: Overruns::default(),
        })
    }

    #[test]
    fn sleeps_speak_where_they_are_enough_and_one_halt_in_32() {
        let price = Price::new(&slept(40_000, 20, 1, 0), &Latencies::default(), false);
        let own = (90, Origin::Recorded);
        let [priced, few] = [(20, Origin::Calibrated), (90, Origin::Few)];
        for (sleeps, halts, with_price, alone) in [
            (15, 15, priced, few),
            (16, 16, own, own),
            (16, 512, own, own),
            (16, 513, priced, few),
        ] {
            let latencies = slept(40_000, 90, sleeps, halts);
            let class = class_of(40_000);
            for (price, expected) in [(Some(&price), with_price), (None, alone)] {
                let table = table(&[&latencies], price, &latencies).unwrap();
                let found = (table.at(class, 0).0, table.origin(class));
                assert_eq!(found, expected, "{sleeps} of {halts}");
            }
        }
        let nothing = Latencies::default();
        assert_eq!(table(&[&nothing], None, &nothing), None);
    }

    /// A length without a sleep takes the nearest length; from far away it is doubtful.
    #[test]
    fn the_nearest_length_answers_for_others() {
        let own = slept(40_000, 30, 100, 100);
        let nothing = Latencies::default();
        let table = table(&[&own], None, &nothing).unwrap();
        let at = |ns| (table.at(class_of(ns), 0), table.origin(class_of(ns)));
        assert_eq!(at(40_000), ((30, false), Origin::Recorded));
        assert_eq!(at(20_000), ((30, true), Origin::Recorded));
        assert_eq!(at(10_000_000), ((30, true), Origin::Few));
    }

    /// A price stands for a vCPU's sleeps as far as those of the host take as long; else it is shifted, and doubtful by as
    /// much. Without any it is doubtful by a factor of two, and a few sleeps downwards.
    #[test]
    fn how_early_and_how_late_a_wake_up_may_be() {
        let measured = slept(40_000, 20_000, 1, 0);
        let nothing = Latencies::default();
        let class = class_of(40_000);
        let ends = |table: &Table| {
            let [early, late] = [table.early(), table.late()].map(|it| it.unwrap_or(table.clone()));
            [early, table.clone(), late].map(|it| it.at(class, 0).0)
        };
        let price = Price::new(&measured, &nothing, false);
        let alone = table(&[&nothing], Some(&price), &nothing).unwrap();
        assert_eq!(ends(&alone), [10_000, 20_000, 40_000]);
        let mut of_both = measured.clone();
        of_both.on_the_same_cpu(4_000);
        for (is_busy, early_ns) in [(false, 10_000), (true, 4_000)] {
            let price = Price::new(&of_both, &nothing, is_busy);
            let table = table(&[&nothing], Some(&price), &nothing).unwrap();
            assert_eq!(ends(&table), [early_ns, 20_000, 40_000]);
        }
        let typical = slept(1_000_000, 26_000, 100, 100);
        let price = Price::new(&measured, &typical, true);
        let corrected = table(&[&nothing], Some(&price), &nothing).unwrap();
        assert_eq!(ends(&corrected), [20_000, 26_000, 32_000]);
        let mut few = slept(40_000, 24_000, 10, 10_000);
        (0..10).for_each(|_| few.add(40_000, 300_000));
        let few = table(&[&nothing], None, &few).unwrap();
        assert_eq!(ends(&few), [12_000, 24_000, 24_000]);
        let own = slept(40_000, 90, 100, 100);
        let known = table(&[&own], None, &nothing).unwrap();
        assert_eq!(ends(&known), [90; 3]);
    }
}
