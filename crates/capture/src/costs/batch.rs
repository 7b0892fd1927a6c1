//! The sums in a batch of a costs table, with every value checked: texts by their keys, whole numbers of any width.
//!
//! Rows of one VM follow each other, so that who they belong to is asked once for a run of them.

use std::ops::Range;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
    UInt64Array,
};
use haltwise_core::costs::table::{Host, VmOf, labels_of};
use haltwise_core::costs::{GRID, Half, Kind};
use haltwise_core::identity::Identity;
use haltwise_core::kvm::Knobs;
use haltwise_core::replay::Sums;

use super::columns::{COLUMNS, OF_HISTOGRAM};
use super::read::CostsError;
use crate::table::{self, Column};

#[derive(Debug)]
pub struct Batch<'a> {
    rows: &'a RecordBatch,
    at: Place<'a>,
    texts: Vec<Texts<'a>>,
    numbers: Vec<(&'static str, UInt64Array)>,
    /// Meaning of each key of `grid`, `kind` and `half`.
    is_our_grid: Vec<bool>,
    kinds: Vec<Option<Kind>>,
    halves: Vec<Option<Half>>,
}

#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    first_row: u64,
}

// Places among the columns of texts, in the order of `COLUMNS`: whose a row is; then grid, kind and half.
const TEXTS_OF_WHOM: usize = 18;
const VM: usize = 8;
const GRID_AT: usize = 18;
const KIND: usize = 19;
const HALF: usize = 20;

// Places among the columns of numbers: whose a row is, then the setting, then the sums.
const NUMBERS_OF_WHOM: usize = 6;
const KNOBS: usize = 6;
const SUMS: usize = 10;

const NULL: &str = "NULL where a value must be";

/// The shortest halt, with what comes before the next.
const SHORTEST_NS: u64 = 1_000;

/// How long a vCPU may have polled before the capture, in its first halt.
const POLLED_BEFORE_NS: u64 = 1_000_000_000;

/// How long it may have halted before, in all: 30 days.
const HALTED_BEFORE_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Texts<'a> {
    column: &'static str,
    dictionary: &'a DictionaryArray<Int32Type>,
    values: &'a StringArray,
}

impl<'a> Texts<'a> {
    fn key(&self, row: usize) -> Option<usize> {
        let keys = self.dictionary.keys();
        let key = usize::try_from(keys.is_valid(row).then(|| keys.value(row))?).ok()?;
        (key < self.values.len() && self.values.is_valid(key)).then_some(key)
    }

    fn at(&self, row: usize) -> Option<&'a str> {
        self.key(row).map(|key| self.values.value(key))
    }

    fn owned(&self, row: usize) -> Option<String> {
        self.at(row).map(str::to_owned)
    }
}

/// The row up to which all have the value of `first`.
fn alike<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, first: usize) -> usize {
    let end = array.len();
    let at = |row: usize| array.is_valid(row).then(|| array.value(row));
    let other = match array.null_count() {
        all if all == array.len() => None,
        0 => {
            let own = array.value(first);
            let mut rows = array.values()[first..].iter();
            rows.position(|value| *value != own)
        }
        _ => {
            let own = at(first);
            (first..end).position(|row| at(row) != own)
        }
    };
    other.map_or(end, |after| first + after)
}

/// A column of whole numbers, or the row and text of the first that is negative. Other programs write signed ones.
fn whole_numbers(array: &dyn Array) -> Option<Result<UInt64Array, (usize, String)>> {
    if let Some(numbers) = array.as_primitive_opt::<UInt64Type>() {
        return Some(Ok(numbers.clone()));
    }
    let narrow = array.as_primitive_opt::<UInt32Type>().map(widened);
    narrow
        .or_else(|| array.as_primitive_opt::<Int64Type>().map(widened))
        .or_else(|| array.as_primitive_opt::<Int32Type>().map(widened))
}

fn widened<T: ArrowPrimitiveType<Native: TryInto<u64>>>(
    array: &PrimitiveArray<T>,
) -> Result<UInt64Array, (usize, String)> {
    let wide = |(row, number): (usize, Option<T::Native>)| {
        let negative = |number| (row, format!("{number:?} is negative"));
        let widen = |number: T::Native| number.try_into().map_err(|_| negative(number));
        number.map(widen).transpose()
    };
    array.iter().enumerate().map(wide).collect()
}

/// The most that a VM's vCPUs can poll and halt in a capture, in nanoseconds.
pub type Limits = [u64; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingOf {
    pub kind: Kind,
    /// The parameters, of those kinds that have them.
    pub knobs: Option<Knobs>,
    pub half: Half,
}

impl<'a> Batch<'a> {
    /// Looks at the columns of a batch, whose first row has this number in its file.
    pub fn of(batch: &'a RecordBatch, path: &'a Path, first_row: u64) -> Result<Self, CostsError> {
        let at = Place { path, first_row };
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        for &Column { name, kind, .. } in COLUMNS {
            if OF_HISTOGRAM.contains(&name) {
                continue;
            }
            let found = batch.column_by_name(name);
            let array = found.ok_or_else(|| at.column(name, " is not there"))?;
            if kind == table::Kind::Text {
                let dictionary = array.as_dictionary_opt::<Int32Type>();
                let found = dictionary.and_then(|dictionary| {
                    Some(Texts {
                        column: name,
                        dictionary,
                        values: dictionary.values().as_string_opt::<i32>()?,
                    })
                });
                texts.push(found.ok_or_else(|| at.wrong_type(name, array, "text"))?);
            } else {
                let found = whole_numbers(array);
                let found = found.ok_or_else(|| at.wrong_type(name, array, "a whole number"))?;
                let found = found.map_err(|(row, what)| at.value(name, row, &what))?;
                numbers.push((name, found));
            }
        }
        let words = |at: usize| {
            let values = texts[at].values;
            (0..values.len()).map(move |key| values.is_valid(key).then(|| values.value(key)))
        };
        let half = |text: &str| Half::ALL.into_iter().find(|half| half.as_str() == text);
        Ok(Self {
            is_our_grid: words(GRID_AT).map(|it| it == Some(GRID)).collect(),
            kinds: words(KIND).map(|it| Kind::from_name(it?)).collect(),
            halves: words(HALF).map(|it| half(it?)).collect(),
            rows: batch,
            at,
            texts,
            numbers,
        })
    }

    fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Runs of rows of one VM in one capture.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        // Up to where each column has one value: looked for again only once the rows are past it.
        let mut texts_end = [0; TEXTS_OF_WHOM];
        let mut numbers_end = [0; NUMBERS_OF_WHOM];
        std::iter::from_fn(move || {
            let first = from;
            if first == self.len() {
                return None;
            }
            for (end, texts) in texts_end.iter_mut().zip(&self.texts) {
                if *end <= first {
                    *end = alike(texts.dictionary.keys(), first);
                }
            }
            for (end, (_, numbers)) in numbers_end.iter_mut().zip(&self.numbers) {
                if *end <= first {
                    *end = alike(numbers, first);
                }
            }
            from = (texts_end.iter().chain(&numbers_end)).fold(self.len(), |end, it| end.min(*it));
            Some(first..from)
        })
    }

    pub fn host(&self, row: usize) -> Result<Host, CostsError> {
        let text = |at: usize| self.texts[at].owned(row);
        let must = |at: usize| {
            let missing = || self.at.value(self.texts[at].column, row, NULL);
            text(at).ok_or_else(missing)
        };
        Ok(Host {
            name: must(0)?,
            date: text(1),
            start_unix_ns: self.must(0, row)?,
            end_unix_ns: self.must(1, row)?,
            kernel: must(2)?,
            kernel_release: must(3)?,
            arch: must(4)?,
            cpu_model: text(5),
            cpus: self.narrow(2, row)?.unwrap_or(0),
            switch_cpu_ns: self.must(3, row)?,
            switch_cpu_source: must(6)?,
            labels: self.texts[7].at(row).map(labels_of).unwrap_or_default(),
        })
    }

    pub fn vm(&self, row: usize) -> Result<VmOf, CostsError> {
        let text = |at: usize| self.texts[at].owned(row);
        let names = std::array::from_fn::<_, { Identity::KINDS }, _>(|kind| text(VM + 2 + kind));
        Ok(VmOf {
            name: text(VM),
            vmm: text(VM + 1),
            identity: Identity::from_names(names),
            vcpus: self.narrow(4, row)?.unwrap_or(0),
            class: text(VM + 2 + Identity::KINDS),
            goal: text(VM + 3 + Identity::KINDS),
            own_ceiling_ns: self.narrow(5, row)?,
        })
    }

    /// The setting of a row; `None` where it is of another grid than ours.
    pub fn setting(&self, row: usize) -> Result<Option<SettingOf>, CostsError> {
        let bad = |at: usize| {
            let column = self.texts[at].column;
            let text = self.texts[at].at(row).unwrap_or("NULL");
            let text: String = text.chars().take(40).collect();
            self.at
                .value(column, row, &format!("the unknown name `{text}`"))
        };
        let key = |at: usize| self.texts[at].key(row);
        if !key(GRID_AT).is_some_and(|key| self.is_our_grid[key]) {
            return Ok(None);
        }
        let kind = key(KIND).and_then(|key| *self.kinds.get(key)?);
        let half = key(HALF).and_then(|key| *self.halves.get(key)?);
        let kind = kind.ok_or_else(|| bad(KIND))?;
        let half = half.ok_or_else(|| bad(HALF))?;
        let knobs = if kind.has_knobs() {
            let must = |at: usize| {
                let found = self.narrow(KNOBS + at, row)?;
                let column = self.numbers[KNOBS + at].0;
                found.ok_or_else(|| self.at.value(column, row, "NULL in a setting"))
            };
            Some(Knobs {
                halt_poll_ns: must(0)?,
                grow: must(1)?,
                grow_start: must(2)?,
                shrink: must(3)?,
            })
        } else {
            None
        };
        Ok(Some(SettingOf { kind, knobs, half }))
    }

    /// The most that sums of a VM's rows can be: the same for all rows of a run.
    pub fn limits(&self, row: usize) -> Result<Limits, CostsError> {
        let lasted_ns = self.must(1, row)?.saturating_sub(self.must(0, row)?);
        // Halts of vCPUs without a number are in one row: as many poll at once as there are CPUs.
        let vcpus = self.narrow(2, row)?.max(self.narrow(4, row)?).unwrap_or(0);
        // Any number of vCPUs may be in the row of the halts without a VM.
        let most = |before_ns| match self.texts[VM].key(row) {
            Some(_) => u64::from(vcpus.max(1)).saturating_mul(lasted_ns.saturating_add(before_ns)),
            None => u64::MAX,
        };
        Ok([POLLED_BEFORE_NS, HALTED_BEFORE_NS].map(most))
    }

    pub fn sums(&self, row: usize, limits: Limits) -> Result<Sums, CostsError> {
        let sums = Sums {
            halts: self.must(SUMS, row)?,
            blocks: self.must(SUMS + 1, row)?,
            failed_polls: self.must(SUMS + 2, row)?,
            poll_ns: self.must(SUMS + 3, row)?,
            latency_ns: self.must(SUMS + 4, row)?,
            halt_ns: self.must(SUMS + 5, row)?,
            ..Sums::default()
        };
        if sums.blocks > sums.halts || sums.failed_polls > sums.blocks {
            let what = format!("{} sleeps of {} halts", sums.blocks, sums.halts);
            return Err(self.at.value("sleeps", row, &what));
        }
        let ([most_poll_ns, most_halt_ns], halt_ns) = (limits, sums.halt_ns);
        for (column, value, most) in [
            ("poll_ns", sums.poll_ns, halt_ns.min(most_poll_ns)),
            ("latency_ns", sums.latency_ns, halt_ns),
            ("halts", sums.halts, most_poll_ns / SHORTEST_NS),
            ("halt_ns", halt_ns, most_halt_ns),
        ] {
            if value > most {
                let what = format!("{value} is more than the {most} that is possible");
                return Err(self.at.value(column, row, &what));
            }
        }
        Ok(sums)
    }

    fn must(&self, at: usize, row: usize) -> Result<u64, CostsError> {
        let found = self.number(at, row);
        found.ok_or_else(|| self.at.value(self.numbers[at].0, row, NULL))
    }

    fn narrow(&self, at: usize, row: usize) -> Result<Option<u32>, CostsError> {
        let Some(value) = self.number(at, row) else {
            return Ok(None);
        };
        let what = || format!("{value} does not fit in 32 bits");
        let narrow = u32::try_from(value).map(Some);
        narrow.map_err(|_| self.at.value(self.numbers[at].0, row, &what()))
    }

    #[inline]
    fn number(&self, at: usize, row: usize) -> Option<u64> {
        let numbers = &self.numbers[at].1;
        numbers.is_valid(row).then(|| numbers.value(row))
    }
}

impl Place<'_> {
    fn column(&self, column: &str, what: &str) -> CostsError {
        CostsError::Refused {
            path: self.path.to_owned(),
            what: format!("column `{column}`{what}"),
        }
    }

    fn wrong_type(&self, column: &str, array: &dyn Array, wanted: &str) -> CostsError {
        self.column(column, &format!(" is {}, not {wanted}", array.data_type()))
    }

    fn value(&self, column: &str, row: usize, what: &str) -> CostsError {
        let row = self.first_row.saturating_add(row as u64);
        self.column(column, &format!(", row {row}: {what}"))
    }
}
