//! `L`: how long a wake-up takes, by how long the vCPU has slept.
//!
//! Longer sleeps wake more slowly: deeper C-states, colder caches. Sleeps are put in classes of a
//! power of two from 1 us up, and each vCPU keeps some of its recorded latencies of each class. A
//! replayed sleep takes the one whose turn it is, by the number of the halt: no dice, every policy
//! gets the same, and the spread of the latencies stays what it was. (One median for a class would
//! lose that spread, and with it whether a noisy latency now and then opens or shuts the window.)
//! What a vCPU never did is taken from its VM, else from the host, else from the nearest class.

mod round;

use std::sync::Arc;

use round::Round;

use super::overrun::{HaltEnds, Overrun, Overruns};
use crate::event::{Halt, WakeSource};

/// Classes of sleep: below 1 us, then by powers of two; the last begins at 2^24 us (17 s).
pub const CLASSES: usize = 26;

/// Latencies kept of each class: enough for a 99th percentile, small for ten thousand vCPUs.
const KEPT: usize = 512;

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
    /// A bit for each class of which there are any.
    seen: u32,
    /// These, in rising order: each vCPU has a handful.
    classes: Vec<Selection>,
    halt_ends: Option<Box<HaltEnds>>,
}

impl Latencies {
    /// Adds a wake-up that was recorded.
    pub fn add(&mut self, slept_ns: u64, latency_ns: u64) {
        let class = class_of(slept_ns);
        let place = self.place(class);
        if self.seen & (1 << class) == 0 {
            self.seen |= 1 << class;
            self.classes.insert(place, Selection::default());
        }
        self.classes[place].add(latency_ns);
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

    /// How many classes below this one there are.
    fn place(&self, class: usize) -> usize {
        (self.seen & ((1 << class) - 1)).count_ones() as usize
    }

    fn class(&self, class: usize) -> Option<&Selection> {
        (self.seen & (1 << class) != 0).then(|| &self.classes[self.place(class)])
    }

    /// How many of a class were added.
    fn seen(&self, class: usize) -> u64 {
        self.class(class).map_or(0, |class| class.seen)
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The median latency of the shortest sleeps of which there are [`ENOUGH`], in nanoseconds; where there
    /// are so many of no length, of the shortest there are.
    pub fn shortest_sleeps_ns(&self) -> Option<u64> {
        let from = |least| self.classes.iter().find(move |class| class.seen >= least);
        median(from(ENOUGH).or_else(|| from(1))?.kept())
    }
}

fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    crate::stats::percentile_of_sorted(&sorted, 0.5)
}

/// Who may know how long a wake-up takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// Sleeps of this capture, in order of preference: the vCPU's own first.
    pub recorded: &'a [&'a Latencies],
    /// What was measured another time, on purpose.
    pub elsewhere: Option<&'a Latencies>,
    /// Sleeps of this capture that began because another task wanted the CPU, which then held up the
    /// wake-up: better than nothing, no more.
    pub disturbed: Option<&'a Latencies>,
    /// How long after its window a halt of the host does not sleep.
    pub overruns: Overruns,
}

/// So many sleeps of a length stand for the others of that length. Where nearly every poll is met, the
/// few sleeps that there are were the first ones or were disturbed, and those measured on purpose say
/// more.
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

    /// The first to have seen enough sleeps of a class; then what was measured; then whoever saw one. And
    /// which of these it is.
    fn of_class(&self, class: usize) -> Option<(&'a Latencies, Origin)> {
        let seen = |latencies: &Latencies| latencies.seen(class);
        let recorded = || self.recorded.iter().copied();
        let known = |source: &&Latencies| seen(source) > 0;
        let enough = || recorded().find(|source| seen(source) >= ENOUGH);
        let few = || {
            recorded()
                .find(known)
                .or_else(|| self.disturbed.filter(known))
        };
        let firm = enough().map(|source| (source, Origin::Recorded));
        firm.or_else(|| Some((self.elsewhere.filter(known)?, Origin::Calibrated)))
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
    rounds: [Round; CLASSES],
    /// No sleep of this class was recorded anywhere.
    guessed: [bool; CLASSES],
    /// Where they come from; for a class that was guessed, where those of the nearest do.
    origins: [Origin; CLASSES],
    overruns: Overruns,
}

impl Table {
    /// Puts a table together from the nearest source that knows. `None` if none saw any sleep.
    pub fn new(sources: &Sources<'_>) -> Option<Self> {
        let of_class = |class: usize| {
            let (source, origin) = sources.of_class(class)?;
            Some((source.class(class)?.kept.clone()?, origin))
        };
        let known: [Option<(Arc<Vec<u64>>, Origin)>; CLASSES] = std::array::from_fn(of_class);
        let nearest = |class: usize| {
            let distance = |other: &usize| (class.abs_diff(*other), *other);
            let others = (0..CLASSES).filter(|&other| known[other].is_some());
            known[others.min_by_key(distance)?].as_ref()
        };
        let (_, first) = nearest(0)?;
        let turns = |class| nearest(class).map(|(turns, _)| Arc::clone(turns));
        let origin = |class| nearest(class).map_or(*first, |(_, origin)| *origin);
        let turns: [Arc<Vec<u64>>; CLASSES] =
            std::array::from_fn(|class| turns(class).unwrap_or_default());
        Some(Self {
            rounds: std::array::from_fn(|class| Round::new(turns[class].len())),
            turns,
            guessed: std::array::from_fn(|class| known[class].is_none()),
            origins: std::array::from_fn(origin),
            overruns: sources.overruns,
        })
    }

    /// The same on a host with these overruns.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn with_overruns(self, overruns: Overruns) -> Self {
        Self { overruns, ..self }
    }

    /// Those of its host.
    pub(super) fn overruns(&self) -> Overruns {
        self.overruns
    }

    /// Up to which time after its window a halt does not sleep that a wake of this source ends.
    pub fn overrun(&self, wake: WakeSource) -> Overrun {
        self.overruns.of(wake)
    }

    /// A table of latencies measured elsewhere: (length of sleep, latency), both in nanoseconds.
    pub fn measured(points: &[(u64, u64)]) -> Option<Self> {
        let mut latencies = Latencies::default();
        for &(slept_ns, latency_ns) in points {
            latencies.add(slept_ns, latency_ns);
        }
        Self::new(&Sources {
            elsewhere: Some(&latencies),
            ..Sources::default()
        })
    }

    /// The latency of a class at its turn, in nanoseconds, and whether it had to be guessed.
    pub fn at(&self, class: usize, turn: u64) -> (u64, bool) {
        let turns = &self.turns[class];
        let index = self.rounds[class].at(turn);
        let latency_ns = usize::try_from(index)
            .ok()
            .and_then(|index| turns.get(index));
        (latency_ns.copied().unwrap_or(0), self.guessed[class])
    }

    /// Where the latencies of a class come from; for one that was guessed, those of the nearest.
    pub fn origin(&self, class: usize) -> Origin {
        self.origins[class]
    }

    /// Whether any latency of it was measured another time.
    pub fn is_calibrated(&self) -> bool {
        self.origins.contains(&Origin::Calibrated)
    }

    /// The same, were what was measured another time so many `times` as late; `None` where nothing of it
    /// was.
    #[must_use]
    pub fn calibrated_times(&self, times: u64) -> Option<Self> {
        let mut late = self.is_calibrated().then(|| self.clone())?;
        for (turns, origin) in late.turns.iter_mut().zip(&late.origins) {
            if *origin == Origin::Calibrated {
                for latency_ns in Arc::make_mut(turns) {
                    *latency_ns = latency_ns.saturating_mul(times);
                }
            }
        }
        Some(late)
    }

    /// The median latency of a class, in nanoseconds.
    pub fn median(&self, class: usize) -> u64 {
        median(&self.turns[class]).unwrap_or(0)
    }
}

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
            assert_eq!(
                class_of(class_end(class).saturating_add(1)),
                (class + 1).min(CLASSES - 1)
            );
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
        let steps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            steps.iter().all(|&step| step == selection.stride),
            "{steps:?}"
        );
    }

    #[test]
    fn the_nearest_source_that_knows_a_class_answers() {
        let (mut own, mut vm, mut host) = (
            Latencies::default(),
            Latencies::default(),
            Latencies::default(),
        );
        assert_eq!(Table::new(&Sources::default()), None);
        own.add(5_000, 20);
        own.add(5_000, 21);
        vm.add(5_000, 99);
        vm.add(40_000, 30);
        host.add(40_000, 98);
        host.add(1_000_000, 50);
        let sources = Sources {
            recorded: &[&own, &vm, &host],
            ..Sources::default()
        };
        let table = Table::new(&sources).unwrap();
        let at = |ns, turn| table.at(class_of(ns), turn);
        assert_eq!(
            (at(5_000, 0), at(5_000, 1), at(5_000, 2)),
            ((20, false), (21, false), (20, false))
        );
        assert_eq!(at(40_000, 7), (30, false));
        assert_eq!(at(1_000_000, 7), (50, false));
        assert_eq!(at(100_000_000, 3), (50, true));
        assert_eq!(at(100, 0), (20, true));
        assert_eq!(table.median(class_of(5_000)), 20);
        assert_eq!(own.shortest_sleeps_ns(), Some(20));
        for _ in 0..ENOUGH {
            own.add(40_000, 30);
        }
        assert_eq!(own.shortest_sleeps_ns(), Some(30), "two sleeps are few");
    }

    /// A hundred thousand vCPUs that hardly slept have the latencies of the host, and not each a copy.
    #[test]
    fn tables_share_what_they_have_from_the_same_source() {
        let mut host = Latencies::default();
        (0..1_000).for_each(|n| host.add(5_000, n));
        let sources = Sources {
            recorded: &[&host],
            ..Sources::default()
        };
        let tables = [(); 2].map(|()| Table::new(&sources).unwrap());
        let own = host.class(class_of(5_000)).unwrap().kept.as_ref();
        for turns in tables.iter().flat_map(|table| &table.turns) {
            assert!(Arc::ptr_eq(turns, own.unwrap()));
        }
        // The copy that is made later is another's own.
        let late = Table::new(&Sources {
            elsewhere: Some(&host),
            ..Sources::default()
        });
        let late = late.unwrap().calibrated_times(2).unwrap();
        assert_eq!(
            late.at(class_of(5_000), 1).0,
            2 * tables[0].at(class_of(5_000), 1).0
        );
    }

    /// Nearly every poll was met: what few sleeps there are say less than those measured on purpose.
    #[test]
    fn a_few_sleeps_stand_back_behind_those_that_were_measured() {
        let mut all: [Latencies; 4] = std::array::from_fn(|_| Latencies::default());
        let [own, host, elsewhere, disturbed] = &mut all;
        for _ in 1..ENOUGH {
            own.add(5_000, 90);
            host.add(5_000, 80);
        }
        own.add(1_000_000, 91);
        elsewhere.add(5_000, 20);
        elsewhere.add(40_000, 25);
        disturbed.add(5_000, 700);
        disturbed.add(1_000_000, 700);
        disturbed.add(30_000_000, 800);
        let at = |all: &[Latencies; 4], ns| {
            let [own, host, elsewhere, disturbed] = all;
            let sources = Sources {
                recorded: &[own, host],
                elsewhere: Some(elsewhere),
                disturbed: Some(disturbed),
                ..Sources::default()
            };
            let table = Table::new(&sources).unwrap();
            let class = class_of(ns);
            let twice = table.calibrated_times(2).unwrap_or(table.clone());
            (
                table.at(class, 0),
                table.origin(class),
                twice.at(class, 0).0,
            )
        };
        let calibrated = |ns, guessed| ((ns, guessed), Origin::Calibrated, 2 * ns);
        let recorded = |ns| ((ns, false), Origin::Recorded, ns);
        let few = |ns, guessed| ((ns, guessed), Origin::Few, ns);
        assert_eq!(at(&all, 5_000), calibrated(20, false), "on purpose");
        assert_eq!(at(&all, 100), calibrated(20, true), "the nearest was");
        assert_eq!(at(&all, 40_000), calibrated(25, false));
        assert_eq!(at(&all, 1_000_000), few(91, false));
        assert_eq!(at(&all, 30_000_000), few(800, false), "disturbed ones");
        assert_eq!(at(&all, 8_000_000_000), few(800, true), "guessed");
        all[1].add(5_000, 80);
        assert_eq!(at(&all, 5_000), recorded(80), "the host has enough of them");
        all[0].add(5_000, 90);
        assert_eq!(at(&all, 5_000), recorded(90), "the vCPU has enough itself");
    }
}
