//! The screens, as lines of text with their styles. Pure: the same model and size give the same lines.
//!
//! | file | draws |
//! |---|---|
//! | [`theme`] | styles, and texts in so many columns |
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
mod table;
pub(crate) mod theme;
mod vcpu;

use haltwise_core::ids::VmIndex;
use ratatui::Frame;
use ratatui::text::Line;

use self::theme::{Theme, cut};
use super::columns::Table;
use super::model::{Model, Screen};
use super::piloted;
use super::step::Key;

/// Below this there is no room for anything.
const LEAST: (usize, usize) = (20, 4);

/// Lines of a table that must remain before anything else is drawn: a heading and some rows.
const TABLE: usize = 5;

pub(crate) fn draw(model: &Model, theme: Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = lines(model, theme, width, height);
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(cut(line, width), row);
    }
}

fn lines(model: &Model, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    if width < LEAST.0 || height < LEAST.1 {
        return vec!["too small".into()];
    }
    if model.help {
        return help::lines(model, width, height);
    }
    let below = foot::lines(model, theme, width);
    let room = height - below.len();
    let mut lines = head::lines(model, theme, width, room.saturating_sub(TABLE));
    if model.step().is_some() {
        let height = room - lines.len();
        lines.extend(match model.screen {
            Screen::Host => table::lines(model, Table::Vms, theme, width, height),
            Screen::Vm(vm) => {
                let mut said = of_pilot(model, vm, width, height);
                let height = height - said.len();
                said.extend(of_vm(model, vm, theme, width, height));
                said
            }
            Screen::Vcpu(vm, id) => vcpu::lines(model, (vm, id), theme, width, height),
        });
    }
    lines.resize(room, Line::default());
    lines.extend(below);
    lines
}

/// Remarks of the pilot on a VM, where there are any and a table has room below.
fn of_pilot(model: &Model, vm: VmIndex, width: usize, height: usize) -> Vec<Line<'static>> {
    let said = model.step().and_then(|step| step.around.pilot.get(&vm));
    let said = said.map_or_else(String::new, |said| {
        piloted::paragraph("Pilot: ", said, width)
    });
    let said = said.lines().take(height.saturating_sub(TABLE + 1));
    let mut lines: Vec<Line<'_>> = said.map(|line| line.to_owned().into()).collect();
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines
}

/// A VM: its vCPUs, where its halted time goes, and what is left of the screen for charts.
fn of_vm(
    model: &Model,
    vm: VmIndex,
    theme: Theme,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let rows = model.rows();
    let blind = rows.iter().all(|row| row.instead().is_some());
    // The table may have more than half of the room, if it needs it.
    let table = (rows.len() + 1).min(height * 3 / 5).max(TABLE);
    let under = parts::height(model).min(height.saturating_sub(table));
    if blind || under < parts::LEAST {
        return table::lines(model, Table::Vcpus, theme, width, height);
    }
    let mut lines = table::lines(model, Table::Vcpus, theme, width, table);
    lines.resize(table, Line::default());
    lines.extend(parts::lines(model, Key::Vm(vm), theme, width, under));
    // An empty line between the parts and the charts.
    lines.resize(table + under + 1, Line::default());
    let room = height.saturating_sub(lines.len());
    if room >= CHARTS {
        lines.extend(charts::four(model, Key::Vm(vm), theme, width, room));
    }
    lines
}

/// Lines below which charts say nothing.
const CHARTS: usize = 8;

/// How many rows of a table a screen of so many lines shows, to turn pages by.
pub(crate) fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(9).max(1))
}

/// The lines of all rows, as text: for `--once`.
pub(crate) fn text(model: &Model, width: usize) -> String {
    let theme = Theme::bare();
    let mut lines = head::lines(model, theme, width, usize::MAX);
    let rows = model.rows().len();
    lines.extend(table::lines(model, Table::Vms, theme, width, rows + 1));
    // Why figures are not known stands above what was lost, which is always the last line.
    let under = foot::pilot(model, width) + &foot::dashes(model, width);
    lines.extend(under.lines().map(|line| line.to_owned().into()));
    lines.push(foot::losses(model, theme));
    plain(lines, width)
}

fn plain(lines: Vec<Line<'static>>, width: usize) -> String {
    let lines = lines.into_iter().map(|line| cut(line, width).to_string());
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod test;
