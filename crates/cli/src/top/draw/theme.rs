//! How texts look, and how they fit into so many columns.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::page::fit;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    colours: bool,
    marks: bool,
}

impl Theme {
    pub(crate) fn new(colours: bool) -> Self {
        Self {
            colours,
            marks: true,
        }
    }

    /// No colours, no marked row, no signs of sorting: a page of text.
    pub(crate) fn bare() -> Self {
        Self {
            colours: false,
            marks: false,
        }
    }

    pub(super) fn marks(self) -> bool {
        self.marks
    }

    pub(super) fn heading(self) -> Style {
        self.coloured(Color::Cyan)
            .add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn worth(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Style of text that must not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// As many of the pieces as fit, from the first on, with `, ` between them.
pub(super) fn fitting(pieces: &[String], width: usize) -> String {
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
pub(super) fn cut(line: Line<'static>, width: usize) -> Line<'static> {
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

pub(super) fn filled(line: impl Into<Line<'static>>, width: usize) -> Line<'static> {
    let mut line = cut(line.into(), width);
    line.push_span(" ".repeat(width.saturating_sub(line.width())));
    line
}
