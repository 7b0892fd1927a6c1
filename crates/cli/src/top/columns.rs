//! The columns of the tables: what each says, how it sorts, and which must go first on a narrow screen.

use std::cmp::Ordering;

use super::figures::CeilingRange;
use super::origin::Origin;
use super::rows::TopRow;
use crate::number::{nanos, nanos_f64, scaled, share};
use crate::page::harmless;
use crate::pilot_state::text::short;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Name,
    Vcpus,
    Cpu,
    Halts,
    /// CPU that polled without success.
    Wasted,
    Useful,
    P50,
    /// 99 of 100 wake-ups are no later.
    P99,
    Window,
    Ceiling,
    Pilot,
    Saved,
    Exits,
    History,
    Reasons,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Vms,
    Vcpus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a column of its own, or two"
)]
pub(crate) struct There {
    pub(crate) cpu: bool,
    pub(crate) exits: bool,
    pub(crate) history: bool,
    pub(crate) pilot: bool,
}

/// All columns, in their order: title, width, and which stays longer on a screen that is too narrow.
const COLUMNS: [(Column, &str, usize, u8); 15] = [
    (Column::Name, "VM", NAME, 14),
    (Column::Vcpus, "VCPUS", 6, 2),
    (Column::Cpu, "CPU", 8, 13),
    (Column::Halts, "HALTS/S", 8, 12),
    (Column::Wasted, "FAILED", 8, 11),
    (Column::Useful, "SUCCESS", 8, 9),
    (Column::P50, "SLEEP50", 8, 4),
    (Column::P99, "SLEEP99", 8, 10),
    (Column::Window, "WINDOW", 8, 3),
    (Column::Ceiling, "CEILING", 8, 8),
    (Column::Pilot, "PILOT", 12, 7),
    (Column::Saved, "SAVED", 9, 5),
    (Column::Exits, "EXITS/S", 8, 6),
    (Column::History, "HALTS/S OVER TIME", 20, 1),
    (Column::Reasons, "TOP EXITS /S", 26, 0),
];

const _: () = {
    let mut at = 0;
    while at < COLUMNS.len() {
        assert!(COLUMNS[at].0 as usize == at);
        at += 1;
    }
};

impl Column {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        COLUMNS.iter().map(|(column, ..)| *column)
    }

    /// Its heading: at most one column narrower than it, for the mark of sorting.
    pub(crate) fn title(self, table: Table) -> &'static str {
        match self {
            Self::Name if table == Table::Vcpus => "VCPU",
            _ => COLUMNS[self as usize].1,
        }
    }

    pub(crate) fn width(self) -> usize {
        COLUMNS[self as usize].2
    }

    /// Meaning of the column, for the page of help; empty where the title is enough.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Name => "the VM's name, or the vCPU and its thread",
            Self::Vcpus | Self::History => "",
            Self::Cpu => "CPU time of all threads, in percent of one CPU",
            Self::Halts => "halts per second",
            Self::Wasted => "failed polls, in percent of one CPU",
            Self::Useful => "successful polls, in percent of one CPU",
            Self::P50 => "median wake-up latency of sleeps",
            Self::P99 => "99th percentile of the wake-up latency of sleeps",
            Self::Window => "mean polling window",
            Self::Ceiling => "ceiling in force; \u{2264} where vCPUs differ",
            Self::Pilot => "the VM's state for `haltwise pilot` (see docs/pilot-json.md)",
            Self::Saved => "CPU time that it saved; in brackets: would have saved",
            Self::Exits => "exits per second (--exits)",
            Self::Reasons => "the most frequent reasons of exits",
        }
    }

    pub(crate) fn sorts(self) -> bool {
        !matches!(self, Self::History | Self::Reasons)
    }

    pub(crate) fn is_there(self, table: Table, there: There) -> bool {
        match self {
            Self::History => there.history,
            Self::Vcpus => table == Table::Vms,
            Self::Cpu => there.cpu,
            Self::Window => table == Table::Vcpus,
            Self::Pilot | Self::Saved => there.pilot && table == Table::Vms,
            Self::Exits | Self::Reasons => there.exits,
            _ => true,
        }
    }

    /// The number that it shows of a row; `None` where that is not known, and where it shows a text.
    fn value(self, row: &TopRow) -> Option<f64> {
        let said = &row.figures;
        match self {
            Self::Name | Self::Pilot => None,
            Self::Vcpus => Some(row.vcpus as f64),
            Self::Cpu => said.cpu_percent,
            Self::Halts | Self::History => said.halts_per_s,
            Self::Wasted => said.wasted_cpu_percent,
            Self::Useful => said.useful_cpu_percent,
            Self::P50 => said.wake_latency_ns.map(|spread| spread.p50 as f64),
            Self::P99 => said.wake_latency_ns.map(|spread| spread.p99 as f64),
            Self::Window => said.window_ns.map(|ns| ns as f64),
            Self::Ceiling => said.ceiling.as_ref().map(|it| f64::from(it.high_ns)),
            Self::Saved => Some(row.pilot.as_ref()?.saved_ns?.value),
            Self::Exits | Self::Reasons => said.exits.as_ref().map(|exits| exits.per_s),
        }
    }

    /// Text of the column for a row. History is drawn, not written.
    pub(crate) fn text(self, row: &TopRow) -> String {
        let figures = &row.figures;
        match self {
            Self::Name => row.name.clone(),
            Self::Vcpus if row.vcpus == 0 => dash(),
            Self::Vcpus => row.vcpus.to_string(),
            Self::Cpu | Self::Wasted | Self::Useful => cpu(self.value(row)),
            Self::Halts | Self::Exits => per_second(self.value(row)),
            Self::P50 | Self::P99 | Self::Window => self.value(row).map_or_else(dash, nanos_f64),
            Self::Ceiling if row.vetoes > 0 && row.vetoes == row.vcpus => "veto".into(),
            Self::Ceiling => figures.ceiling.as_ref().map_or_else(dash, ceiling),
            Self::Pilot => (row.pilot.as_ref()).map_or_else(dash, |vm| vm.state.to_string()),
            Self::Saved => (row.pilot.as_ref().and_then(|vm| short(vm))).unwrap_or_else(dash),
            Self::History => String::new(),
            Self::Reasons => figures.exits.as_ref().map_or_else(String::new, |exits| {
                let reasons = exits.reasons.iter();
                let each = reasons.map(|r| format!("{} {}", r.name, scaled(r.per_s)));
                each.collect::<Vec<_>>().join(", ")
            }),
        }
    }

    /// Why some of these rows have a dash in this column, if any has.
    pub(crate) fn why_dash(self, rows: &[TopRow], origin: &Origin) -> Option<String> {
        let is_dash = |row: &&TopRow| row.instead.is_none() && self.text(row) == dash();
        let mut dashes = rows.iter().filter(is_dash).peekable();
        dashes.peek()?;
        let (field, here) = match self {
            Self::Wasted | Self::Useful => ("poll_ns", "polling time was not recorded"),
            Self::P50 | Self::P99 => {
                let slept = !dashes.all(|row| row.figures.waits == Some(0));
                let of_known = "no sleep with a known wake event";
                (
                    "wake_latency_ns",
                    if slept { of_known } else { "no vCPU slept" },
                )
            }
            Self::Window => ("window_ns", "windows were not recorded"),
            Self::Ceiling => ("ceiling_ns", "ceilings were not recorded"),
            Self::Vcpus => ("", "halts of unknown VMs"),
            Self::Cpu => ("", "which threads run vCPUs is not known"),
            Self::Pilot => ("", "not among the pilot's VMs"),
            Self::Saved => ("", "the pilot can set nothing for the VM"),
            _ => ("", "not recorded"),
        };
        let told = origin.missing.iter().find(|it| it.field == field);
        Some(told.map_or_else(|| here.to_owned(), |missing| harmless(&missing.reason)))
    }

    /// The order of two rows by this column: what is not known comes first.
    fn order(self, a: &TopRow, b: &TopRow) -> Ordering {
        match self {
            // Names ascend where numbers descend.
            Self::Name => natural(&b.name, &a.name),
            Self::Pilot => known_last(a.pilot.as_ref(), b.pilot.as_ref(), |a, b| {
                natural(b.state.as_str(), a.state.as_str())
            }),
            _ => known_last(self.value(a), self.value(b), f64::total_cmp),
        }
    }
}

fn known_last<T>(a: Option<T>, b: Option<T>, order: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// A share of a CPU, given in percent; a dash where it is not known.
pub(crate) fn cpu(percent: Option<f64>) -> String {
    percent.map_or_else(dash, |percent| share(percent / 100.0))
}

pub(crate) fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(dash, scaled)
}

/// `200 us`, `\u{2264}200 us` where some are lower.
fn ceiling(ceiling: &CeilingRange) -> String {
    let high = nanos(u64::from(ceiling.high_ns));
    match (ceiling.low_ns, ceiling.high_ns) {
        (0, 0) => "off".to_owned(),
        (low_ns, high_ns) if low_ns == high_ns => high,
        _ => format!("\u{2264}{high}"),
    }
}

/// Text order in which `vCPU 10` comes after `vCPU 9`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.chars().peekable(), b.chars().peekable());
    loop {
        let digits = |of: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut number = 0_u128;
            while let Some(digit) = of.peek().and_then(|c| c.to_digit(10)) {
                number = number.saturating_mul(10).saturating_add(digit.into());
                of.next();
            }
            number
        };
        let order = match (a.peek(), b.peek()) {
            (None, None) => return Ordering::Equal,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                digits(&mut a).cmp(&digits(&mut b))
            }
            _ => a.next().cmp(&b.next()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Puts rows in order: by a column, the largest first, or the other way round. Those without
/// figures come last; those that are alike stand by name.
pub(crate) fn sort(rows: &mut [TopRow], by: Column, reversed: bool) {
    rows.sort_by(|a, b| {
        let order = by.order(b, a);
        let order = if reversed { order.reverse() } else { order };
        let without = a.instead.is_some().cmp(&b.instead.is_some());
        without
            .then(order)
            .then_with(|| natural(&a.name, &b.name))
            .then(a.key.cmp(&b.key))
    });
}

const NAME: usize = 12;

/// The most that a name is given while other columns could use them.
const NAME_WANTED: usize = 40;

const GAP: usize = 1;

/// The columns that fit, with their widths, from left to right.
pub(crate) fn fitting(table: Table, there: There, width: usize) -> Vec<(Column, usize)> {
    let mut columns: Vec<(Column, usize)> = Column::all()
        .filter(|column| column.is_there(table, there))
        .map(|column| (column, column.width()))
        .collect();
    let taken = |columns: &[(Column, usize)]| -> usize {
        let all = columns.iter().map(|(_, width)| width + GAP);
        all.sum::<usize>().saturating_sub(GAP)
    };
    while columns.len() > 1 && taken(&columns) > width {
        let rank = |column: Column| COLUMNS[column as usize].3;
        let least = columns.iter().map(|(column, _)| rank(*column)).min();
        columns.retain(|(column, _)| Some(rank(*column)) != least);
    }
    let mut spare = width.saturating_sub(taken(&columns));
    let mut give = |column: Column, most: usize| {
        if let Some((_, width)) = columns.iter_mut().find(|(there, _)| *there == column) {
            let more = spare.min(most.saturating_sub(*width));
            *width += more;
            spare -= more;
        }
    };
    give(Column::Name, NAME_WANTED);
    give(Column::History, 40);
    give(Column::Reasons, usize::MAX);
    give(Column::History, usize::MAX);
    give(Column::Name, usize::MAX);
    if let [(Column::Name, only)] = columns.as_mut_slice() {
        *only = width;
    }
    columns
}

#[cfg(test)]
mod test;
