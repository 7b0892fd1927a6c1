//! A table: headings, rows, the marked row, and sparklines of what came before.

use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::charts;
use super::theme::Theme;
use crate::page::{fit, fit_middle};
use crate::top::columns::{Column, Table, fitting};
use crate::top::model::Model;
use crate::top::rows::TopRow;

/// From so many percent of a CPU polling without success on, it is worth a look.
const WORTH: f64 = 10.0;

pub(super) fn lines(
    model: &Model,
    table: Table,
    theme: Theme,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let columns = fitting(table, model.there(), width);
    let rows = model.rows();
    let room = height.saturating_sub(1);
    let place = model.standing().place(&rows);
    let first = place
        .saturating_sub(room / 2)
        .min(rows.len().saturating_sub(room));
    let hidden = (rows.len() > room && theme.marks())
        .then(|| format!(" {}-{} of {}", first + 1, first + room, rows.len()));
    let mut lines = vec![heading(model, table, &columns, hidden.as_deref(), theme)];
    if rows.is_empty() {
        lines.push(placeholder(model, table).into());
    }
    for (n, row) in rows.iter().enumerate().skip(first).take(room) {
        let line = line(model, row, &columns, theme);
        let is_marked = n == place && theme.marks();
        lines.push(if is_marked { line.reversed() } else { line });
    }
    lines
}

fn placeholder(model: &Model, table: Table) -> String {
    if !model.filter.is_empty() {
        return format!("No VM is named `{}`; Esc shows all.", model.filter);
    }
    match table {
        Table::Vms => {
            "No VM was found. `haltwise status --check` lists possible reasons.".to_owned()
        }
        Table::Vcpus => "This VM was not present in this interval.".to_owned(),
    }
}

/// `hidden` says which rows are on the screen, if not all are.
fn heading(
    model: &Model,
    table: Table,
    columns: &[(Column, usize)],
    hidden: Option<&str>,
    theme: Theme,
) -> Line<'static> {
    let mark = if model.standing().reversed {
        '\u{25b2}'
    } else {
        '\u{25bc}'
    };
    let titles = columns.iter().map(|(column, width)| {
        let mut title = column.title(table).to_owned();
        if *column == model.sorted_by() && theme.marks() {
            title.push(mark);
        }
        if *column == Column::Name {
            title.push_str(hidden.unwrap_or_default());
        }
        cell(*column, &title, *width)
    });
    let titles = titles.collect::<Vec<_>>().join(" ");
    Line::from(titles).style(theme.heading())
}

fn line(model: &Model, row: &TopRow, columns: &[(Column, usize)], theme: Theme) -> Line<'static> {
    let mut line = Line::default();
    for (column, width) in columns {
        if !line.spans.is_empty() {
            line.push_span(" ");
        }
        let wasted = row.figures.said.wasted_cpu_percent;
        let style = match column {
            Column::Wasted if wasted >= Some(WORTH) => theme.worth(),
            Column::History => theme.good(),
            Column::Reasons => Style::new().dim(),
            _ => Style::new(),
        };
        let text = match column {
            Column::Name => fit_middle(&row.name, *width),
            Column::History => charts::history(model, row.key, *width),
            _ => column.text(row),
        };
        line.push_span(Span::styled(cell(*column, &text, *width), style));
        if let (Column::Name, Some(text)) = (column, row.instead()) {
            line.push_span(Span::styled(format!(" {text}"), theme.worth()));
            break;
        }
    }
    line
}

/// A text in exactly so many columns: names and lists at the left, numbers at the right.
fn cell(column: Column, text: &str, width: usize) -> String {
    let text = fit(text, width);
    let pad = " ".repeat(width.saturating_sub(text.width()));
    match column {
        Column::Name | Column::Reasons => text + &pad,
        _ => pad + &text,
    }
}
