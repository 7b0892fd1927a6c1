//! The screens, drawn with ratatui. Pure: the same model and size give the same cells.
//!
//! | file | draws |
//! |---|---|
//! | [`head`] | the lines above and below: where, when, totals, cost; keys, and what was lost |
//! | [`table`] | VMs, or the vCPUs of a VM; the page of help |
//! | [`charts`] | figures over time; where halted time goes, what woke, which exits |

mod charts;
mod head;
mod table;

use haltwise_core::ids::{VcpuId, VmIndex};
use ratatui::Frame;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};
use unicode_width::UnicodeWidthStr;

use super::model::{Model, Screen};
use super::piloted;
use super::rows::Table;
use super::rows::TopRow;
use super::step::Key;
use crate::page::fit;

/// Below this there is no room for anything.
const LEAST: (u16, u16) = (20, 4);

/// Lines of a table that must remain before anything else is drawn: a heading and some rows.
const TABLE: u16 = 5;

const GOOD: Style = Style::new().fg(Color::Green);
const WORTH: Style = Style::new().fg(Color::Yellow);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

pub(crate) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return lines(vec!["too small".into()], area, buffer);
    }
    if model.help {
        return lines(table::help(model, area), area, buffer);
    }
    let rows = model.rows();
    let [above, below] = Layout::vertical([Fill(1), Length(2)]).areas(area);
    lines(head::below(model, &rows, area.width), below, buffer);
    let head = head::lines(model, area.width);
    let most = above.height.saturating_sub(TABLE).max(1);
    let body = on_top(head, most, above, buffer);
    if model.step().is_none() {
        return;
    }
    match model.screen {
        Screen::Host => table::draw(model, Table::Vms, &rows, body, buffer),
        Screen::Vm(index) => vm(model, index, &rows, body, buffer),
        Screen::Vcpu(vm, id) => vcpu(model, vm, id, &rows, body, buffer),
    }
}

pub(crate) fn without_colours(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
    }
}

/// Lines of text, each in a line of the area; one that was cut says so.
fn lines(lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    let lines = lines.into_iter().map(|line| cut(line, area.width.into()));
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}

/// Draws as many lines as there may be, and an empty one where there is room; gives the area below them.
fn on_top(mut text: Vec<Line<'_>>, most: u16, area: Rect, buffer: &mut Buffer) -> Rect {
    text.truncate(most.into());
    if !text.is_empty() && text.len() < most.into() {
        text.push(Line::default());
    }
    let height = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let [top, rest] = Layout::vertical([Length(height), Fill(1)]).areas(area);
    lines(text, top, buffer);
    rest
}

/// A VM: what the pilot says of it, its vCPUs, and what is left of the screen for the rest.
fn vm(model: &Model, vm: VmIndex, rows: &[TopRow], area: Rect, buffer: &mut Buffer) {
    let pilot = model.step().and_then(|step| step.around.pilot.get(&vm));
    let pilot = pilot.map(|vm| piloted::paragraph("Pilot: ", vm, area.width.into()));
    let pilot = pilot.iter().flat_map(|text| text.lines());
    let most = area.height.saturating_sub(TABLE);
    let area = on_top(pilot.map(Line::from).collect(), most, area, buffer);
    let needed = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    // The table may have more than half of the room, if it needs it.
    let height = needed.min(area.height * 3 / 5).max(TABLE);
    let is_seen = rows.iter().any(|row| row.instead.is_none());
    if !is_seen || area.height < height + charts::PARTS_LEAST {
        return table::draw(model, Table::Vcpus, rows, area, buffer);
    }
    let [table, _, rest] = Layout::vertical([Length(height - 1), Length(1), Fill(1)]).areas(area);
    table::draw(model, Table::Vcpus, rows, table, buffer);
    details(model, Key::Vm(vm), rows.len() as u64, rest, buffer);
}

fn vcpu(model: &Model, vm: VmIndex, id: VcpuId, rows: &[TopRow], area: Rect, buffer: &mut Buffer) {
    let key = Key::Vcpu(vm, id);
    let Some(row) = rows.iter().find(|row| row.key == key) else {
        let text = format!("vCPU {id} was not present in this interval.");
        return lines(vec![Line::styled(text, WORTH)], area, buffer);
    };
    if let Some(text) = &row.instead {
        let text = Span::styled(format!(": {text}"), WORTH);
        let text = Line::from(vec![row.name.as_str().bold(), text]);
        return lines(vec![text], area, buffer);
    }
    let [figures, rest] = Layout::vertical([Length(3), Fill(1)]).areas(area);
    lines(head::of_vcpu(row, area.width), figures, buffer);
    details(model, key, 1, rest, buffer);
}

/// Reasons of exits that are shown, and how many of them go before charts.
const REASONS: u16 = 5;
const FEW: u16 = 3;

fn details(model: &Model, key: Key, vcpus: u64, area: Rect, buffer: &mut Buffer) {
    let room = area.height;
    let has_room = room >= charts::parts_height(model, FEW) + charts::LEAST;
    let room = room - if has_room { charts::LEAST } else { 0 };
    let parts = charts::parts_height(model, REASONS).min(room);
    let [above, below] = Layout::vertical([Fill(1), Length(parts)]).areas(area);
    if above.height >= charts::LEAST {
        charts::draw(model, key, above, buffer);
    }
    lines(charts::parts(model, key, vcpus, below), below, buffer);
}

/// How many rows of a table a screen of so many lines shows, to turn pages by.
pub(crate) fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(9).max(1))
}

/// One interval as text: for `--once`.
pub(crate) fn text(model: &Model, width: u16) -> String {
    let rows = model.rows();
    let text = |lines: Vec<Line<'_>>| -> String {
        let lines = lines.into_iter().map(|line| cut(line, width.into()));
        lines.map(|line| line.to_string() + "\n").collect()
    };
    [
        text(head::of_interval(model, width)),
        "\n".to_owned(),
        table::text(model, &rows, width),
        // Why figures are not known stands above what was lost, which is always the last line.
        head::pilot(&rows, width.into()),
        head::dashes(model, &rows, width.into()),
        text(vec![head::losses(model, &rows)]),
    ]
    .concat()
}

/// The lines of a buffer. A wide character stands in several cells.
fn text_of(buffer: &Buffer) -> impl Iterator<Item = String> {
    let lines = buffer.content().chunks(buffer.area.width.into());
    lines.map(|cells| {
        let mut line = String::new();
        let mut taken = 0;
        for symbol in cells.iter().map(Cell::symbol) {
            if taken == 0 {
                line.push_str(symbol);
                taken = symbol.width();
            }
            taken = taken.saturating_sub(1);
        }
        line.truncate(line.trim_end().len());
        line
    })
}

/// As many of the pieces as fit, from the first on, with `, ` between them.
fn fitting(pieces: &[String], width: usize) -> String {
    let mut line = String::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let joint = if line.is_empty() { "" } else { ", " };
        if !line.is_empty() && line.width() + joint.len() + piece.width() > width {
            break;
        }
        line.push_str(joint);
        line.push_str(piece);
    }
    line
}

/// A line in at most so many columns; a text that was cut says so.
fn cut(line: Line<'_>, width: usize) -> Line<'_> {
    let mut room = width;
    let mut spans = Vec::new();
    for span in line.spans {
        if room == 0 {
            break;
        }
        let text = fit(&span.content, room);
        room = room.saturating_sub(text.width());
        spans.push(Span::styled(text, span.style));
    }
    Line { spans, ..line }
}

/// A text in exactly so many columns.
fn filled<'a>(line: impl Into<Line<'a>>, width: usize) -> Line<'a> {
    let mut line = cut(line.into(), width);
    line.push_span(" ".repeat(width.saturating_sub(line.width())));
    line
}

#[cfg(test)]
mod test;
