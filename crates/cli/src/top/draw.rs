//! The screens, drawn into a buffer. Pure: the same model and area give the same cells.
//!
//! | file | draws |
//! |---|---|
//! | [`pen`] | texts within an area, and their styles |
//! | [`head`] | the lines above: where, when, totals, settings, cost |
//! | [`table`] | rows and columns |
//! | [`parts`] | where halted time goes, what woke, which exits |
//! | [`charts`] | figures over time |
//! | [`vcpu`] | the screen of one vCPU |
//! | [`help`] | the page of help |
//! | [`foot`] | the lines below: keys or the filter, and what was lost |

mod charts;
mod foot;
mod head;
mod help;
mod parts;
pub(crate) mod pen;
mod table;
mod vcpu;

use haltwise_core::ids::VmIndex;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::pen::{Pen, Theme};
use super::columns::Table;
use super::model::{Model, Screen};
use super::piloted;
use super::rows::Key;

/// Below this there is no room for anything.
const LEAST: (u16, u16) = (20, 4);

/// Lines of a table that must remain before anything else is drawn: a heading and some rows.
const TABLE: u16 = 5;

pub(crate) fn draw(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, area, theme);
    pen.clear();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        pen.text(0, 0, "too small", Theme::plain());
        return;
    }
    if model.help {
        help::draw(model, &mut pen);
        return;
    }
    let below = foot::draw(model, &mut pen);
    let room = area.height - below;
    let above = head::draw(model, &mut pen, room.saturating_sub(TABLE));
    let (top, height) = (above, room - above);
    if model.step().is_none() {
        return;
    }
    match model.screen {
        Screen::Host => table::draw(model, Table::Vms, &mut pen, top, height),
        Screen::Vm(vm) => {
            let said = of_pilot(model, vm, &mut pen, top, height);
            of_vm(model, vm, &mut pen, top + said, height - said);
        }
        Screen::Vcpu(vm, id) => vcpu::draw(model, (vm, id), &mut pen, top, height),
    }
}

/// What the pilot says of a VM, where it says something and a table has room below; gives how many lines that takes.
fn of_pilot(model: &Model, vm: VmIndex, pen: &mut Pen<'_>, top: u16, height: u16) -> u16 {
    let Some(said) = model.step().and_then(|step| step.around.pilot.get(&vm)) else {
        return 0;
    };
    let lines = piloted::lines("Pilot: ", said, pen.width());
    let room = height.saturating_sub(TABLE + 1);
    let shown = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(room);
    for (y, line) in (top..top + shown).zip(&lines) {
        pen.text(0, y, line, Theme::plain());
    }
    // An empty line between them and the table.
    shown + u16::from(shown > 0)
}

/// A VM: its vCPUs, where its halted time goes, and what is left of the screen for charts.
fn of_vm(model: &Model, vm: VmIndex, pen: &mut Pen<'_>, top: u16, height: u16) {
    let rows = model.rows();
    let blind = rows.iter().all(|row| row.instead().is_some());
    let rows = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    // The table may have more than half of the room, if it needs it.
    let table = rows.saturating_add(1).min(height * 3 / 5).max(TABLE);
    let under = parts::height(model).min(height.saturating_sub(table));
    if blind || under < parts::LEAST {
        table::draw(model, Table::Vcpus, pen, top, height);
        return;
    }
    table::draw(model, Table::Vcpus, pen, top, table);
    let Some(step) = model.step() else { return };
    let y = top + table;
    parts::draw(model, &step.vm(vm), pen, y, under);
    let (from, end) = (y + under + 1, top + height);
    if from + CHARTS <= end {
        charts::four(model, Key::Vm(vm), pen, (from, end));
    }
}

/// Lines below which charts say nothing.
const CHARTS: u16 = 8;

/// How many rows of a table a screen of so many lines shows, to turn pages by.
pub(crate) fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(9).max(1))
}

/// The lines of all rows, as text: for `--once`.
pub(crate) fn text(model: &Model, width: u16) -> String {
    let rows = u16::try_from(model.rows().len()).unwrap_or(u16::MAX - 64);
    // Why figures are not known stands above what was lost, which is always the last line.
    let under = [foot::pilot(model, width), foot::dashes(model, width)].concat();
    let lines = u16::try_from(under.len()).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, width, rows.saturating_add(lines).saturating_add(32));
    let mut buffer = Buffer::empty(area);
    let mut pen = Pen::new(&mut buffer, area, Theme::bare());
    let above = head::draw_once(model, &mut pen);
    table::draw(model, Table::Vms, &mut pen, above, rows.saturating_add(1));
    let end = above + rows.saturating_add(1);
    let lines = (end..)
        .zip(&under)
        .map(|(y, line)| pen.text(0, y, line, Theme::plain()));
    let end = end + u16::try_from(lines.count()).unwrap_or(0);
    foot::losses(model, &mut pen, end);
    pen.lines(end + 1)
}

#[cfg(test)]
mod test;
