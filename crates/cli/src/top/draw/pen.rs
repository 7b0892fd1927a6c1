//! Texts within an area: nothing is drawn outside it, and what does not fit says so.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::page::fit;

/// How things look: with colours, or without (`NO_COLOR`).
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

    pub(super) fn plain() -> Style {
        Style::new()
    }

    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn heading(self) -> Style {
        self.coloured(Color::Cyan)
            .add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(super) fn marked() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn worth(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// What must not be overlooked.
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

#[derive(Debug)]
pub(crate) struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    pub(super) theme: Theme,
}

pub(super) fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// As many of the pieces as fit, from the first on, with `, ` between them.
pub(super) fn fitting(pieces: &[String], width: u16) -> String {
    let mut line = String::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let joint = if line.is_empty() { "" } else { ", " };
        if !line.is_empty() && columns(&line) + columns(joint) + columns(piece) > width {
            break;
        }
        line.push_str(joint);
        line.push_str(piece);
    }
    line
}

impl<'a> Pen<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect, theme: Theme) -> Self {
        let area = area.intersection(*buffer.area());
        Self {
            buffer,
            area,
            theme,
        }
    }

    pub(super) fn width(&self) -> u16 {
        self.area.width
    }

    pub(super) fn height(&self) -> u16 {
        self.area.height
    }

    pub(super) fn clear(&mut self) {
        for y in self.area.top()..self.area.bottom() {
            for x in self.area.left()..self.area.right() {
                self.buffer[(x, y)].reset();
            }
        }
    }

    pub(super) fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        self.within(x, y, self.width().saturating_sub(x), text, style)
    }

    /// A text in so many columns at most; gives the column after it.
    pub(super) fn within(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let width = width.min(self.width().saturating_sub(x));
        if width == 0 || y >= self.height() {
            return x;
        }
        let text = fit(text, usize::from(width));
        let (x, y) = (self.area.x + x, self.area.y + y);
        let (end, _) = (self.buffer).set_stringn(x, y, &text, usize::from(width), style);
        end - self.area.x
    }

    /// A text that ends before a column.
    pub(super) fn before(&mut self, end: u16, y: u16, width: u16, text: &str, style: Style) {
        let text = fit(text, usize::from(width));
        let x = end.saturating_sub(columns(&text));
        self.within(x, y, width, &text, style);
    }

    pub(super) fn restyle(&mut self, x: u16, y: u16, width: u16, style: Style) {
        if y < self.height() {
            let piece = Rect::new(self.area.x + x, self.area.y + y, width, 1);
            self.buffer.set_style(piece.intersection(self.area), style);
        }
    }

    /// The first so many lines as text.
    pub(super) fn lines(&self, count: u16) -> String {
        let mut text = String::new();
        for y in 0..count.min(self.height()) {
            let mut line = String::new();
            let mut hidden = 0;
            for x in 0..self.width() {
                let symbol = self.buffer[(self.area.x + x, self.area.y + y)].symbol();
                // The cell behind a wide character is part of it.
                if hidden > 0 {
                    hidden -= 1;
                    continue;
                }
                hidden = columns(symbol).saturating_sub(1);
                line.push_str(symbol);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
