//! A table: headings, rows, the marked row, and sparklines of what came before.

use super::charts;
use super::pen::{Pen, Theme};
use crate::chart::sparkline;
use crate::page::fit_middle;
use crate::top::columns::{Column, GAP, Table, fitting};
use crate::top::model::Model;
use crate::top::rows::{Key, TopRow};

/// From so many CPUs polling without success on, it is worth a look.
const WORTH: f64 = 0.1;

/// Draws a table into so many lines from `top` on.
pub(super) fn draw(model: &Model, table: Table, pen: &mut Pen<'_>, top: u16, height: u16) {
    let columns = fitting(table, model.there(), pen.width());
    let rows = model.rows();
    let room = usize::from(height.saturating_sub(1));
    let place = model.standing().place(&rows);
    let first = place
        .saturating_sub(room / 2)
        .min(rows.len().saturating_sub(room));
    let hidden = (rows.len() > room && pen.theme.marks())
        .then(|| format!(" {}-{} of {}", first + 1, first + room, rows.len()));
    heading(model, table, &columns, hidden.as_deref(), pen, top);
    if rows.is_empty() {
        pen.text(0, top + 1, &nobody(model, table), Theme::plain());
        return;
    }
    let place = model.standing().place(&rows);
    let first = place
        .saturating_sub(room / 2)
        .min(rows.len().saturating_sub(room));
    for (n, row) in rows.iter().enumerate().skip(first).take(room) {
        let y = top + 1 + u16::try_from(n - first).unwrap_or(u16::MAX);
        draw_row(model, row, &columns, pen, y);
        if n == place && pen.theme.marks() {
            pen.restyle(0, y, pen.width(), Theme::marked());
        }
    }
}

fn nobody(model: &Model, table: Table) -> String {
    if !model.filter.is_empty() {
        return format!("No VM is named `{}`; Esc shows all.", model.filter);
    }
    match table {
        Table::Vms => "No VM was found. `haltwise doctor` lists possible reasons.".to_owned(),
        Table::Vcpus => "This VM was not present in this interval.".to_owned(),
    }
}

/// `hidden` says which rows are on the screen, if not all are.
fn heading(
    model: &Model,
    table: Table,
    columns: &[(Column, u16)],
    hidden: Option<&str>,
    pen: &mut Pen<'_>,
    y: u16,
) {
    let standing = model.standing();
    pen.restyle(0, y, pen.width(), pen.theme.heading());
    let mut x = 0;
    for (column, width) in columns {
        let mut title = column.title(table).to_owned();
        if *column == model.sorted_by() && pen.theme.marks() {
            title.push(if standing.reversed {
                '\u{25b2}'
            } else {
                '\u{25bc}'
            });
        }
        if *column == Column::Name {
            title.push_str(hidden.unwrap_or_default());
        }
        let style = pen.theme.heading();
        match column {
            Column::Name | Column::Reasons => {
                pen.within(x, y, *width, &title, style);
            }
            _ => pen.before(x + width, y, *width, &title, style),
        }
        x += width + GAP;
    }
}

fn draw_row(model: &Model, row: &TopRow, columns: &[(Column, u16)], pen: &mut Pen<'_>, y: u16) {
    let mut x = 0;
    for (column, width) in columns {
        let style = match column {
            Column::Wasted if row.figures.wasted.is_some_and(|cpus| cpus >= WORTH) => {
                pen.theme.worth()
            }
            _ => Theme::plain(),
        };
        match column {
            Column::Name => {
                let name = fit_middle(&row.name, usize::from(*width));
                pen.within(x, y, *width, &name, style);
                if let Some(text) = row.instead() {
                    pen.text(x + width + GAP, y, &text, pen.theme.worth());
                    return;
                }
            }
            Column::History => {
                history(model, row.key, pen, (x, y, *width));
            }
            Column::Reasons => {
                pen.within(x, y, *width, &column.text(row), Theme::faint());
            }
            _ => pen.before(x + width, y, *width, &column.text(row), style),
        }
        x += width + GAP;
    }
}

fn history(model: &Model, key: Key, pen: &mut Pen<'_>, (x, y, width): (u16, u16, u16)) {
    let values = charts::halts(model, key, usize::from(width));
    let full = values.iter().copied().flatten().max().unwrap_or(0);
    let theme: Theme = pen.theme;
    pen.before(x + width, y, width, &sparkline(&values, full), theme.good());
}
