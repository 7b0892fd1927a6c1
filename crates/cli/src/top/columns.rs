//! The columns of the tables: what each says, how it sorts, and which must go first on a narrow screen.

use std::cmp::Ordering;

use super::figures::Ceilings;
use super::origin::Origin;
use super::rows::TopRow;
use crate::number::{maybe_nanos, nanos, scaled, share};
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
    /// What the pilot does with the VM.
    Pilot,
    Saved,
    Exits,
    History,
    /// The most frequent reasons of exits.
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

impl Column {
    /// All of them, from left to right.
    pub(crate) const ALL: [Self; 15] = [
        Self::Name,
        Self::Vcpus,
        Self::Cpu,
        Self::Halts,
        Self::Wasted,
        Self::Useful,
        Self::P50,
        Self::P99,
        Self::Window,
        Self::Ceiling,
        Self::Pilot,
        Self::Saved,
        Self::Exits,
        Self::History,
        Self::Reasons,
    ];

    /// Its heading: at most one column narrower than it, for the mark of sorting.
    pub(crate) fn title(self, table: Table) -> &'static str {
        match self {
            Self::Name if table == Table::Vms => "VM",
            Self::Name => "VCPU",
            Self::Vcpus => "VCPUS",
            Self::Cpu => "CPU",
            Self::Halts => "HALTS/S",
            Self::Wasted => "FAILED",
            Self::Useful => "SUCCESS",
            Self::P50 => "SLEEP50",
            Self::P99 => "SLEEP99",
            Self::Window => "WINDOW",
            Self::Ceiling => "CEILING",
            Self::Pilot => "PILOT",
            Self::Saved => "SAVED",
            Self::Exits => "EXITS/S",
            Self::History => "HALTS/S OVER TIME",
            Self::Reasons => "TOP EXITS /S",
        }
    }

    /// What it says, for the page of help; empty where its title says it.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Name => "the VM's name, or the vCPU and its thread",
            Self::Vcpus => "",
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
            Self::History => "halts per second over time, newest at the right",
            Self::Reasons => "the most frequent reasons of exits",
        }
    }

    pub(crate) fn width(self) -> u16 {
        match self {
            Self::Name => NAME,
            Self::Vcpus => 6,
            Self::Cpu
            | Self::Halts
            | Self::Wasted
            | Self::Useful
            | Self::P50
            | Self::P99
            | Self::Window
            | Self::Ceiling
            | Self::Exits => 8,
            Self::Pilot => 12,
            Self::Saved => 9,
            Self::History => 20,
            Self::Reasons => 26,
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Name => 14,
            Self::Cpu => 13,
            Self::Halts => 12,
            Self::Wasted => 11,
            Self::P99 => 10,
            Self::Useful => 9,
            Self::Ceiling => 8,
            Self::Pilot => 7,
            Self::Exits => 6,
            Self::Saved => 5,
            Self::P50 => 4,
            Self::Window => 3,
            Self::Vcpus => 2,
            Self::History => 1,
            Self::Reasons => 0,
        }
    }

    /// Whether rows can stand in its order.
    pub(crate) fn sorts(self) -> bool {
        !matches!(self, Self::History | Self::Reasons)
    }

    fn is_there(self, table: Table, there: There) -> bool {
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

    /// What it says of a row. History is drawn, not said.
    pub(crate) fn text(self, row: &TopRow) -> String {
        let figures = &row.figures;
        match self {
            Self::Name => row.name.clone(),
            Self::Vcpus if figures.vcpus == 0 => dash(),
            Self::Vcpus => figures.vcpus.to_string(),
            Self::Cpu => cpu(figures.cpu),
            Self::Halts => scaled(figures.halts_per_s),
            Self::Wasted => cpu(figures.wasted),
            Self::Useful => cpu(figures.useful),
            Self::P50 => maybe_nanos(figures.latency.map(|spread| spread.p50)),
            Self::P99 => maybe_nanos(figures.latency.map(|spread| spread.p99)),
            Self::Window => maybe_nanos(figures.window_ns),
            Self::Ceiling if figures.vetoes > 0 && figures.vetoes == figures.vcpus => "veto".into(),
            Self::Ceiling => figures.ceilings.map_or_else(dash, ceiling),
            Self::Pilot => (row.pilot.as_ref()).map_or_else(dash, |vm| harmless(&vm.state)),
            Self::Saved => (row.pilot.as_ref().and_then(|vm| short(vm))).unwrap_or_else(dash),
            Self::Exits => (figures.exits.as_ref()).map_or_else(dash, |e| scaled(e.per_s)),
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
        let is_dash = |row: &&TopRow| row.instead().is_none() && self.text(row) == dash();
        let mut dashes = rows.iter().filter(is_dash).peekable();
        dashes.peek()?;
        let fields: &[&str] = match self {
            Self::Wasted | Self::Useful => &["poll_ns"],
            Self::P50 | Self::P99 => &["wake_latency_ns"],
            Self::Window => &["window_ns"],
            Self::Ceiling => &["ceiling_ns"],
            _ => &[],
        };
        let mut missing = origin.missing.iter();
        let told = missing.find(|missing| fields.contains(&missing.field.as_str()));
        let mut here = || match self {
            Self::Wasted | Self::Useful => "polling time was not recorded",
            Self::P50 | Self::P99 if dashes.all(|row| row.figures.waits == 0) => "no vCPU slept",
            Self::P50 | Self::P99 => "no sleep with a known wake event",
            Self::Window => "windows were not recorded",
            Self::Ceiling => "ceilings were not recorded",
            Self::Vcpus => "halts of unknown VMs",
            Self::Cpu => "which threads run vCPUs is not known",
            Self::Pilot => "not among the pilot's VMs",
            Self::Saved => "the pilot can set nothing for the VM",
            _ => "not recorded",
        };
        Some(told.map_or_else(|| here().to_owned(), |missing| harmless(&missing.reason)))
    }

    /// The order of two rows by this column: what is not known comes first.
    fn order(self, a: &TopRow, b: &TopRow) -> Ordering {
        let by = |of: &dyn Fn(&TopRow) -> Option<f64>| match (of(a), of(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        match self {
            // Names ascend where numbers descend.
            Self::Name => natural(&b.name, &a.name),
            Self::Vcpus => a.figures.vcpus.cmp(&b.figures.vcpus),
            Self::Cpu => by(&|row| row.figures.cpu),
            Self::Halts | Self::History => by(&|row| Some(row.figures.halts_per_s)),
            Self::Wasted => by(&|row| row.figures.wasted),
            Self::Useful => by(&|row| row.figures.useful),
            Self::P50 => by(&|row| row.figures.latency.map(|l| l.p50 as f64)),
            Self::P99 => by(&|row| row.figures.latency.map(|l| l.p99 as f64)),
            Self::Window => by(&|row| row.figures.window_ns.map(|ns| ns as f64)),
            Self::Ceiling => by(&|row| row.figures.ceilings.map(|c| f64::from(c.high_ns))),
            Self::Pilot => match (&a.pilot, &b.pilot) {
                (Some(a), Some(b)) => natural(&b.state, &a.state),
                (a, b) => a.is_some().cmp(&b.is_some()),
            },
            Self::Saved => by(&|row| Some(row.pilot.as_ref()?.saved_ns?.value)),
            Self::Exits | Self::Reasons => by(&|row| row.figures.exits.as_ref().map(|e| e.per_s)),
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// A share of a CPU; a dash where it is not known.
pub(crate) fn cpu(cpus: Option<f64>) -> String {
    cpus.map_or_else(dash, share)
}

/// `200 us`, `\u{2264}200 us` where some are lower.
pub(crate) fn ceiling(ceilings: Ceilings) -> String {
    let high = nanos(u64::from(ceilings.high_ns));
    if ceilings.low_ns == ceilings.high_ns {
        return if ceilings.high_ns == 0 {
            "off".to_owned()
        } else {
            high
        };
    }
    format!("\u{2264}{high}")
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
        let without = a.instead().is_some().cmp(&b.instead().is_some());
        without
            .then(order)
            .then_with(|| natural(&a.name, &b.name))
            .then(a.key.cmp(&b.key))
    });
}

/// The least columns of a name.
const NAME: u16 = 12;

/// The most that a name is given while other columns could use them.
const NAME_WANTED: u16 = 40;

pub(crate) const GAP: u16 = 1;

/// The columns that fit, with their widths, from left to right.
pub(crate) fn fitting(table: Table, there: There, width: u16) -> Vec<(Column, u16)> {
    let mut columns: Vec<(Column, u16)> = Column::ALL
        .into_iter()
        .filter(|column| column.is_there(table, there))
        .map(|column| (column, column.width()))
        .collect();
    let taken = |columns: &[(Column, u16)]| -> u16 {
        let all = columns.iter().map(|(_, width)| width + GAP);
        all.sum::<u16>().saturating_sub(GAP)
    };
    while columns.len() > 1 && taken(&columns) > width {
        let least = columns.iter().map(|(column, _)| column.rank()).min();
        columns.retain(|(column, _)| Some(column.rank()) != least);
    }
    let mut spare = width.saturating_sub(taken(&columns));
    let mut give = |column: Column, most: u16| {
        if let Some((_, width)) = columns.iter_mut().find(|(there, _)| *there == column) {
            let more = spare.min(most.saturating_sub(*width));
            *width += more;
            spare -= more;
        }
    };
    give(Column::Name, NAME_WANTED);
    give(Column::History, 40);
    give(Column::Reasons, u16::MAX);
    give(Column::History, u16::MAX);
    give(Column::Name, u16::MAX);
    if let [(Column::Name, only)] = columns.as_mut_slice() {
        *only = width;
    }
    columns
}

#[cfg(test)]
mod test;
