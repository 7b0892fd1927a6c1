//! The page of help, drawn from the tables of keys and of columns.

use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;

use super::{cut, filled};
use crate::top::columns::{Column, Table};
use crate::top::keys::BINDINGS;
use crate::top::model::Model;

/// Columns of the keys, and of a half of the page.
const KEYS: usize = 8;
const HALF: usize = 38;

/// Its lines: in two halves, where they fit side by side, else one below the other.
pub(super) fn lines(model: &Model, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let there = model.there();
    let is_there = |it: &Column| {
        [Table::Vms, Table::Vcpus]
            .iter()
            .any(|of| it.is_there(*of, there))
    };
    let columns: Vec<Column> = Column::all()
        .filter(|it| !it.help().is_empty() && is_there(it))
        .collect();
    let bindings = BINDINGS.iter().filter(|it| !it.help.is_empty());
    let each = bindings
        .clone()
        .count()
        .div_ceil((width / HALF).clamp(1, 2));
    // Empty lines stand between the parts where all of it fits then.
    let gap = (columns.len() + each + 4 <= height).then(Line::default);
    let mut lines: Vec<Line<'_>> = vec!["haltwise top: keys".bold().into()];
    lines.extend(gap.clone());
    for n in 0..each {
        let mut line = Line::default();
        for binding in bindings.clone().skip(n).step_by(each) {
            line.extend(filled(binding.shown.bold(), KEYS));
            let help = cut(binding.help.into(), HALF - KEYS - 1);
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
