//! Tables added up, in any order and to the unit.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cell::{Cell, Costed, Places};
use super::cohort::{By, Cohort, cost};
use crate::account::sums::folds;
use crate::costs::table::{Host, VmOf};
use crate::costs::{GRID, Half, Kind};
use crate::kvm::Knobs;
use crate::replay::Sums;
use crate::stats::{Fold, folded};

/// From so many hosts on, they are the units of the jackknife.
pub const ENOUGH_HOSTS: usize = 8;

/// With fewer hosts, single captures are the units, up to this many captures; with more captures, days.
const MOST_CAPTURES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// By what VMs are put together.
    pub by: Vec<By>,
    /// Value of latency to VMs without a goal of their own, in thousandths of CPU.
    pub weight_milli: u64,
}

/// A capture: its host, and when it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureOf {
    pub host: String,
    /// The day; empty where it is not known.
    pub date: String,
    /// From when, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    pub end_unix_ns: u64,
}

impl CaptureOf {
    pub(super) fn of(host: &Host) -> Self {
        Self {
            host: host.name.clone(),
            date: host.date.clone().unwrap_or_default(),
            start_unix_ns: host.start_unix_ns,
            end_unix_ns: host.end_unix_ns.max(host.start_unix_ns),
        }
    }

    /// The unit that a capture, or a smaller unit, is of: only what it has in common with all of that unit is left.
    #[must_use]
    pub fn at(&self, level: Level) -> Unit {
        let mut unit = self.clone();
        unit.end_unix_ns = 0;
        if level > Level::Capture {
            unit.start_unix_ns = 0;
        }
        if level == Level::Host {
            unit.date.clear();
        }
        unit
    }
}

/// A host, or of it a day or a capture, by what [`CaptureOf::at`] leaves.
pub type Unit = CaptureOf;

/// A row of a VM: its kind, its parameters if it has any, its half, its sums.
pub type RowOf<'a> = (Kind, Option<&'a Knobs>, Half, &'a Sums);

#[derive(Debug, Clone)]
pub struct Part {
    asked: Asked,
    places: Places,
    captures: BTreeMap<CaptureOf, BTreeMap<Cohort, Cell>>,
    /// Settings that the grid does not have.
    pub unknown: u64,
    pub rows: u64,
    /// Hashes of all that is in a row: the same sums of the same VM under the same setting are the same halts. Two VMs of
    /// one name have other sums.
    seen: BTreeSet<u64>,
    /// The host of a row that came twice.
    twice: Option<String>,
}

impl Part {
    pub fn new(asked: &Asked) -> Self {
        Self {
            asked: asked.clone(),
            places: Places::default(),
            captures: BTreeMap::new(),
            unknown: 0,
            rows: 0,
            seen: BTreeSet::new(),
            twice: None,
        }
    }

    /// Adds rows of a VM, at least one.
    pub fn add<'a>(&mut self, host: &Host, vm: &VmOf, rows: impl IntoIterator<Item = RowOf<'a>>) {
        let capture = CaptureOf::of(host);
        // The host and the VM, as far as all rows have them.
        let mut whose = DefaultHasher::new();
        (&capture, vm).hash(&mut whose);
        let cohorts = self.captures.entry(capture).or_default();
        let cell = cohorts.entry(Cohort::of(&self.asked.by, host, vm));
        let cell = cell.or_insert_with(|| Cell::new(self.places.count()));
        let cost = cost(host, vm, self.asked.weight_milli);
        let mut last = 0;
        for (kind, knobs, half, sums) in rows {
            self.rows += 1;
            // Rows without halts add nothing, and may be alike.
            if sums.halts > 0 {
                let mut row = whose.clone();
                (kind, knobs, half, sums).hash(&mut row);
                if !self.seen.insert(row.finish()) {
                    self.twice = Some(host.name.clone());
                }
            }
            // Recorded rows and bounds for other goals are not compared.
            if !kind.has_knobs() && Kind::oracle(cost.latency_weight_milli) != Some(kind) {
                continue;
            }
            let Some(place) = self.places.of(kind, knobs, last) else {
                self.unknown += 1;
                continue;
            };
            last = place;
            cell.add(place, half, &Costed::of(sums, &cost));
        }
    }
}

/// Kind of unit of the jackknife.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    Capture,
    Day,
    Host,
}

#[derive(Debug, Clone, Default)]
pub struct OfUnit {
    /// How long its captures are, in nanoseconds.
    pub span_ns: u64,
    pub cohorts: BTreeMap<Cohort, Cell>,
}

folds! {
    OfUnit { span_ns, cohorts }
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error(
        "host {host}: its time overlaps that of another table, of which the halts are counted already"
    )]
    Overlaps { host: String },
    #[error("host {host}: a row is in the table more than once")]
    Twice { host: String },
    #[error("none of its {rows} rows is of the grid {GRID}")]
    OtherGrid { rows: u64 },
}

/// From when to when captures were, by the time at which they began.
#[derive(Debug, Clone, Default)]
struct Times(BTreeMap<u64, u64>);

impl Times {
    /// Whether a capture shares time with one that is here. Those without a calendar time all begin at 0: the second is
    /// refused.
    fn overlaps(&self, capture: &CaptureOf) -> bool {
        let same = self.0.contains_key(&capture.start_unix_ns);
        let before = self.0.range(..=capture.start_unix_ns).next_back();
        let after = self.0.range(capture.start_unix_ns..).next();
        same || before.is_some_and(|(_, end)| *end > capture.start_unix_ns)
            || after.is_some_and(|(start, _)| *start < capture.end_unix_ns)
    }

    fn insert(&mut self, capture: &CaptureOf) {
        self.0.insert(capture.start_unix_ns, capture.end_unix_ns);
    }
}

impl Part {
    /// Why nothing of it counts, whatever else was counted.
    fn check(&self) -> Result<(), Refused> {
        if let Some(host) = self.twice.clone() {
            return Err(Refused::Twice { host });
        }
        if self.captures.is_empty() && self.unknown > 0 {
            let rows = self.unknown;
            return Err(Refused::OtherGrid { rows });
        }
        let mut times = BTreeMap::<&str, Times>::new();
        for capture in self.captures.keys() {
            let times = times.entry(&capture.host).or_default();
            if times.overlaps(capture) {
                return Err(Refused::overlaps(capture));
            }
            times.insert(capture);
        }
        Ok(())
    }
}

impl Refused {
    fn overlaps(capture: &CaptureOf) -> Self {
        Self::Overlaps {
            host: capture.host.clone(),
        }
    }
}

#[derive(Debug)]
pub struct Fleet {
    pub asked: Asked,
    pub places: Places,
    level: Level,
    units: BTreeMap<Unit, OfUnit>,
    /// Recorded intervals of each host.
    times: BTreeMap<String, Times>,
    days: BTreeSet<String>,
    captures: usize,
    pub rows: u64,
    /// Settings that the grid does not have.
    pub unknown: u64,
}

impl Fleet {
    pub fn new(asked: Asked) -> Self {
        Self {
            asked,
            places: Places::default(),
            level: Level::Capture,
            units: BTreeMap::new(),
            times: BTreeMap::new(),
            days: BTreeSet::new(),
            captures: 0,
            rows: 0,
            unknown: 0,
        }
    }

    /// Adds a file, all of it or nothing. Fails where halts of it are counted already, here or in the file, and where it has
    /// no row of the grid.
    pub fn add(&mut self, part: Part) -> Result<(), Refused> {
        part.check()?;
        if let Some(twice) = part.captures.keys().find(|capture| self.overlaps(capture)) {
            return Err(Refused::overlaps(twice));
        }
        self.rows += part.rows;
        self.unknown += part.unknown;
        for (capture, cohorts) in part.captures {
            let times = self.times.entry(capture.host.clone()).or_default();
            times.insert(&capture);
            self.days.insert(capture.date.clone());
            self.captures += 1;
            let of_capture = OfUnit {
                span_ns: capture.end_unix_ns - capture.start_unix_ns,
                cohorts,
            };
            let unit = self.units.entry(capture.at(self.level));
            unit.or_default().fold(&of_capture);
        }
        self.settle();
        Ok(())
    }

    /// Whether a capture shares time with one that was counted.
    fn overlaps(&self, capture: &CaptureOf) -> bool {
        let times = self.times.get(&capture.host);
        times.is_some_and(|times| times.overlaps(capture))
    }

    /// Larger units where there are enough: which they are depends on what was added, and not on the order.
    fn settle(&mut self) {
        let level = if self.times.len() >= ENOUGH_HOSTS {
            Level::Host
        } else if self.captures > MOST_CAPTURES {
            Level::Day
        } else {
            Level::Capture
        };
        if level == self.level {
            return;
        }
        self.level = level;
        for (unit, of) in std::mem::take(&mut self.units) {
            self.units.entry(unit.at(level)).or_default().fold(&of);
        }
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn units(&self) -> &BTreeMap<Unit, OfUnit> {
        &self.units
    }

    pub fn captures_of(&self, host: &str) -> usize {
        self.times.get(host).map_or(0, |times| times.0.len())
    }

    pub fn counts(&self) -> [usize; 3] {
        [self.times.len(), self.days.len(), self.captures]
    }

    pub fn cohorts(&self) -> BTreeMap<Cohort, Cell> {
        let all: OfUnit = folded(self.units.values());
        all.cohorts
    }

    pub fn total(&self) -> Cell {
        let mut total = Cell::new(self.places.count());
        let cells = self.units.values().flat_map(|of| of.cohorts.values());
        cells.for_each(|cell| total.fold(cell));
        total
    }
}
