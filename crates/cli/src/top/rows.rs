//! The rows of a table: a VM each, or a vCPU each, as one step has them. Pure.

use std::cmp::Ordering;
use std::rc::Rc;

use haltwise_core::event::{Observable, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::ids::VmIndex;
use haltwise_core::pilot::standing::PilotVm;

use crate::number::{nanos, nanos_f64, scaled};
use crate::page::harmless;
use crate::pilot_state::text::short;
use crate::top::figures::{CeilingRange, IntervalFigures};
use crate::top::step::{Key, Step};
use crate::top::timeline::Origin;
use crate::words::of_cpu;

/// Characters of a name that are looked at; no screen shows more.
const LONGEST_NAME: usize = 400;

/// Remark on a VM none of whose vCPUs was in `KVM_RUN`.
const NOT_RUNNING: &str = "not running: paused, not started or stopped after an error";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopRow {
    pub(crate) key: Key,
    /// Name of the row; steers no terminal.
    pub(crate) name: String,
    /// Why the row has no figures, if it has none; steers no terminal.
    pub(crate) instead: Option<String>,
    /// Remarks of the pilot on the row, if the row is a VM.
    pub(crate) pilot: Option<Rc<PilotVm>>,
    pub(crate) vcpus: usize,
    pub(crate) vetoes: usize,
    pub(crate) figures: IntervalFigures,
}

/// A stranger's text, made harmless, and cut where no screen would show more.
pub(crate) fn tame(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST_NAME).collect();
    if shown.len() < text.len() {
        shown.push('~');
    }
    harmless(&shown)
}

/// A row for each VM that was there in a step, and one for what could be given to none.
pub(crate) fn of_host(step: &Step, names: Option<&Names>) -> Vec<TopRow> {
    let vms = step.around.vms.iter().map(|vm| of_vm(step, vm, names));
    vms.chain(unplaced(step, None, names)).collect()
}

pub(crate) fn of_vm(step: &Step, vm: &Vm, names: Option<&Names>) -> TopRow {
    row(step, Some(vm), Key::Vm(vm.index), tame(&vm.name), names)
}

pub(crate) fn of_vcpus(step: &Step, vm: &Vm, names: Option<&Names>) -> Vec<TopRow> {
    let ids = step.vcpus(vm.index).into_iter();
    let rows = ids.map(|id| {
        let key = Key::Vcpu(vm.index, id);
        let name = match step.known(key).next() {
            None => format!("vCPU {id}"),
            Some(vcpu) => format!("vCPU {id} tid {}", vcpu.tid),
        };
        row(step, Some(vm), key, name, names)
    });
    rows.chain(unplaced(step, Some(vm.index), names)).collect()
}

pub(crate) fn of_all(step: &Step, names: Option<&Names>) -> TopRow {
    row(step, None, Key::Host, String::new(), names)
}

/// Data that could be assigned to no VM, or to no vCPU of this one, if there is any.
pub(crate) fn unplaced(step: &Step, vm: Option<VmIndex>, names: Option<&Names>) -> Option<TopRow> {
    let key = Key::Unplaced(vm);
    let name = match vm {
        None => "(unknown VM)",
        Some(_) => "(unknown vCPU)",
    };
    step.acted(key)
        .then(|| row(step, None, key, name.to_owned(), names))
}

/// `vm`: the VM that the subject is, or is in.
fn row(step: &Step, vm: Option<&Vm>, key: Key, name: String, names: Option<&Names>) -> TopRow {
    let vcpus = match key {
        Key::Host => {
            let vms = step.around.vms.iter();
            vms.map(|vm| step.vcpus(vm.index).len()).sum()
        }
        Key::Vm(vm) => step.vcpus(vm).len(),
        Key::Vcpu(..) => 1,
        Key::Unplaced(_) => 0,
    };
    let vetoes = step.known(key).filter(|it| it.guest_veto == Some(true));
    let pilot = match key {
        Key::Vm(index) => step.around.pilot.get(&index),
        _ => None,
    };
    TopRow {
        key,
        name,
        instead: vm.and_then(|vm| instead(step, vm)),
        pilot: pilot.cloned(),
        vcpus,
        vetoes: vetoes.count(),
        figures: IntervalFigures::of(step, key, vm, vcpus, names),
    }
}

fn instead(step: &Step, vm: &Vm) -> Option<String> {
    if let Observable::No(reason) = &vm.observable {
        return Some(format!("not observable: {}", tame(reason)));
    }
    let halted = || step.sum(Key::Vm(vm.index)).halts.halts > 0;
    (paused(step, vm) == Some(true) && !halted()).then(|| NOT_RUNNING.to_owned())
}

/// Whether a VM was paused at the end of a step; `None` where that is not known.
pub(crate) fn paused(step: &Step, vm: &Vm) -> Option<bool> {
    let paused = vm.paused?;
    match paused.from_ns {
        Some(from_ns) if from_ns < step.end_ns => Some(true),
        // The time of a pause that is over is not recorded.
        _ => (paused.over_ns == 0).then_some(false),
    }
}

/// Whether a row is meant by what the user typed: a piece of its name, in any case.
pub(crate) fn is_meant(row: &TopRow, filter: &str) -> bool {
    let name = row.name.to_lowercase();
    name.contains(&filter.to_lowercase())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Name,
    Vcpus,
    Cpu,
    Halts,
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
            Self::Cpu | Self::Wasted | Self::Useful => of_cpu(self.value(row)),
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
