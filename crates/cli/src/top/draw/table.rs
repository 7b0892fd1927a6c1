//! A table: headings, rows, the marked row, and sparklines of what came before; and the page of help, drawn from the
//! tables of keys and of columns.

use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::Length;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{
    Cell, Paragraph, Row, StatefulWidget, Table as TableWidget, TableState, Widget,
};

use crate::page::{fit, fit_middle};
use crate::top::draw::{GOOD, WORTH, charts, cut, filled, text_of};
use crate::top::model::BINDINGS;
use crate::top::model::Model;
use crate::top::rows::TopRow;
use crate::top::rows::{Column, Table, fitting};

/// From so many percent of a CPU polling without success on, it is worth a look.
const MUCH: f64 = 10.0;

const HEADING: Style = Style::new()
    .fg(Color::Cyan)
    .add_modifier(Modifier::BOLD)
    .add_modifier(Modifier::UNDERLINED);

pub(super) fn draw(model: &Model, table: Table, rows: &[TopRow], area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(1));
    let place = model.standing().place(rows);
    // The marked row stands in the middle, where there are enough rows above and below.
    let first = place
        .saturating_sub(room / 2)
        .min(rows.len().saturating_sub(room));
    let last = rows.len().min(first + room);
    let mark = ['\u{25bc}', '\u{25b2}'][usize::from(model.standing().reversed)];
    let hidden = format!(" {}-{last} of {}", first + 1, rows.len());
    let title = |column: Column| {
        let mut title = column.title(table).to_owned();
        if column == model.sorted_by() {
            title.push(mark);
        }
        if column == Column::Name && last - first < rows.len() {
            title.push_str(&hidden);
        }
        title
    };
    let mut state = TableState::new().with_selected(place - first);
    let shown = widget(model, table, title, &rows[first..last], area.width);
    StatefulWidget::render(shown, area, buffer, &mut state);
    if rows.is_empty() {
        let below = area.rows().nth(1).unwrap_or_default();
        Paragraph::new(placeholder(model, table)).render(below, buffer);
    }
}

pub(super) fn text(model: &Model, rows: &[TopRow], width: u16) -> String {
    let mut text = String::new();
    let title = |column: Column| column.title(Table::Vms).to_owned();
    // A buffer has at most 65,535 lines.
    for from in (0..rows.len().max(1)).step_by(1_000) {
        let rows = &rows[from..rows.len().min(from + 1_000)];
        let height = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let shown = widget(model, Table::Vms, title, rows, width);
        Widget::render(shown, buffer.area, &mut buffer);
        let lines = text_of(&buffer).skip(usize::from(from > 0));
        lines.for_each(|line| text += &(line + "\n"));
    }
    if rows.is_empty() {
        text += &(placeholder(model, Table::Vms) + "\n");
    }
    text
}

fn widget<'a>(
    model: &Model,
    table: Table,
    title: impl Fn(Column) -> String,
    rows: &[TopRow],
    width: u16,
) -> TableWidget<'a> {
    let columns = fitting(table, model.there(), width.into());
    let titles = columns
        .iter()
        .map(|(column, width)| aligned(*column, fit(&title(*column), *width)));
    let heading = Row::new(titles).style(HEADING);
    let rows = rows.iter().map(|row| line(model, row, &columns, width));
    let widths = columns.iter().map(|(_, width)| *width);
    let widths = widths.map(|width| Length(u16::try_from(width).unwrap_or(u16::MAX)));
    TableWidget::new(rows.collect::<Vec<_>>(), widths)
        .header(heading)
        .row_highlight_style(Style::new().reversed())
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

fn line<'a>(model: &Model, row: &TopRow, columns: &[(Column, usize)], width: u16) -> Row<'a> {
    let mut cells = Vec::new();
    for (column, cell_width) in columns {
        let text = match column {
            Column::Name => fit_middle(&row.name, *cell_width),
            Column::History => charts::history(model, row.key, *cell_width),
            _ => fit(&column.text(row), *cell_width),
        };
        let style = match column {
            Column::Wasted if row.figures.wasted_cpu_percent >= Some(MUCH) => WORTH,
            Column::History => GOOD,
            Column::Reasons => Style::new().dim(),
            _ => Style::new(),
        };
        cells.push(aligned(*column, text).style(style));
        if let (Column::Name, Some(text)) = (column, &row.instead) {
            let room = usize::from(width).saturating_sub(cell_width + 1);
            let others = u16::try_from(columns.len() - 1).unwrap_or(u16::MAX);
            let text = Cell::new(fit(text, room)).style(WORTH);
            cells.push(text.column_span(others));
            break;
        }
    }
    Row::new(cells)
}

/// Names and lists at the left, numbers at the right.
fn aligned<'a>(column: Column, text: String) -> Cell<'a> {
    let alignment = match column {
        Column::Name | Column::Reasons => Alignment::Left,
        _ => Alignment::Right,
    };
    Line::from(text).alignment(alignment).into()
}

/// Columns of the keys, and of a half of the page.
const KEYS: usize = 8;
const HALF: usize = 38;

/// Its lines: in two halves, where they fit side by side, else one below the other.
pub(super) fn help(model: &Model, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let there = model.there();
    let tables = [Table::Vms, Table::Vcpus];
    let is_there = |it: &Column| tables.iter().any(|of| it.is_there(*of, there));
    let columns: Vec<Column> = Column::all()
        .filter(|it| !it.help().is_empty() && is_there(it))
        .collect();
    let bindings = BINDINGS.iter().filter(|(.., help)| !help.is_empty());
    let halves = (width / HALF).clamp(1, 2);
    let each = bindings.clone().count().div_ceil(halves);
    // Empty lines stand between the parts where all of it fits then.
    let gap = (columns.len() + each + 4 <= height).then(Line::default);
    let mut lines: Vec<Line<'_>> = vec!["haltwise top: keys".bold().into()];
    lines.extend(gap.clone());
    for n in 0..each {
        let mut line = Line::default();
        for (_, shown, _, help) in bindings.clone().skip(n).step_by(each) {
            line.extend(filled(shown.bold(), KEYS));
            let help = cut((*help).into(), HALF - KEYS - 1);
            line.extend(filled(help, HALF - KEYS));
        }
        lines.push(line);
    }
    lines.extend(gap);
    lines.push("Columns".bold().into());
    for column in columns {
        let mut line = filled(column.title(Table::Vms).bold(), KEYS);
        line.extend([" ", column.help()].map(ratatui::text::Span::from));
        lines.push(line);
    }
    if lines.len() < height {
        lines.resize(height - 1, Line::default());
        lines.push("Press any key to return.".dim().into());
    }
    lines
}
