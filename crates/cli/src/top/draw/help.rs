//! The page of help, drawn from the tables of keys and of columns.

use super::pen::{Pen, Theme};
use crate::top::columns::{Column, Table};
use crate::top::keys::BINDINGS;
use crate::top::model::Model;

/// Columns of the keys, and of a half of the page.
const KEYS: u16 = 8;
const HALF: u16 = 38;

/// Draws it: in two halves, where they fit side by side, else one below the other.
pub(super) fn draw(model: &Model, pen: &mut Pen<'_>) {
    pen.text(0, 0, "haltwise top: keys", Theme::strong());
    let columns: Vec<Column> = Column::ALL
        .into_iter()
        .filter(|it| !it.help().is_empty() && is_there(model, *it))
        .collect();
    let halves = pen.width() / HALF;
    let beside = halves.clamp(1, 2);
    let each = u16::try_from(BINDINGS.len()).unwrap_or(0).div_ceil(beside);
    // Empty lines stand between the parts where all of it fits then.
    let lines = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    let gap = u16::from(lines.saturating_add(each + 4) <= pen.height());
    for (n, binding) in (0..).zip(BINDINGS) {
        let (x, y) = (n / each * HALF, 1 + gap + n % each);
        pen.within(x, y, KEYS, binding.shown, Theme::strong());
        let room = HALF - KEYS - 1;
        pen.within(x + KEYS, y, room, binding.help, Theme::plain());
    }
    let mut y = 1 + gap + each + gap;
    pen.text(0, y, "Columns", Theme::strong());
    for column in columns {
        y += 1;
        let title = column.title(Table::Vms);
        pen.within(0, y, KEYS, title, Theme::strong());
        pen.text(KEYS + 1, y, column.help(), Theme::plain());
    }
    let last = pen.height() - 1;
    if last > y {
        pen.text(0, last, "Press any key to return.", Theme::faint());
    }
}

fn is_there(model: &Model, column: Column) -> bool {
    match column {
        Column::Exits | Column::Reasons => model.exits(),
        Column::Pilot | Column::Saved => model.there().pilot,
        Column::History => false,
        _ => true,
    }
}
