//! Lines, wrapped sentences and tables within so many columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::Style;

#[derive(Debug)]
pub struct Page {
    width: usize,
    rows: usize,
    text: String,
    colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    Left,
    Right,
}

impl Stands {
    /// Columns of a table with names in the first and numbers in all others.
    pub const fn of_numbers<const N: usize>() -> [Self; N] {
        let mut columns = [Self::Right; N];
        columns[0] = Self::Left;
        columns
    }
}

/// Rows that a table lists unless more or fewer are asked for.
const ROWS: usize = 20;

impl Page {
    pub fn new(width: usize) -> Self {
        Self {
            width,
            rows: ROWS,
            text: String::new(),
            colour: false,
        }
    }

    /// An empty page of this style: headings, advice and warnings are in colour, or not.
    pub fn styled(style: Style) -> Self {
        Self {
            colour: style.colour,
            ..Self::new(style.width)
        }
    }

    /// The same, whose tables list so many rows.
    #[must_use]
    pub fn listing(self, rows: usize) -> Self {
        Self { rows, ..self }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn finish(self) -> String {
        self.text
    }

    /// A line; what does not fit is cut.
    pub fn line(&mut self, line: &str) {
        // Colours go out as they are, so that nothing else may steer the terminal.
        let line = if self.colour { &harmless(line) } else { line };
        self.text.push_str(fit(line, self.width).trim_end());
        self.text.push('\n');
    }

    /// A line that is not cut: what must not be lost stands in it.
    pub fn whole_line(&mut self, line: &str) {
        let line = if self.colour { &harmless(line) } else { line };
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// An empty line, unless there is one.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub fn heading(&mut self, text: &str) {
        self.gap();
        let text = fit(text, self.width.saturating_sub(4));
        let line = self.width.saturating_sub(text.width() + 4);
        let start = self.text.len();
        self.line(&format!("== {text} {}", "=".repeat(line)));
        self.colour_from(start, "\u{1b}[1m");
    }

    pub(crate) fn note(&mut self, note: &str) {
        self.warning("note: ", note, 6);
    }

    /// Writes advice, wrapped as by [`Page::wrapped`].
    pub fn advice(&mut self, first: &str, text: &str, indent: usize) {
        let start = self.text.len();
        self.wrapped(first, text, indent);
        self.colour_from(start, "\u{1b}[1;32m");
    }

    pub fn warning(&mut self, first: &str, text: &str, indent: usize) {
        let start = self.text.len();
        self.wrapped(first, text, indent);
        self.colour_from(start, "\u{1b}[33m");
    }

    /// Puts what was written last into a colour, which ends before its last end of line.
    fn colour_from(&mut self, start: usize, colour: &str) {
        if self.colour {
            self.text.insert_str(start, colour);
            let end = self.text.trim_end_matches('\n').len();
            self.text.insert_str(end, "\u{1b}[0m");
        }
    }

    /// Sentences, wrapped and set in.
    pub fn prose(&mut self, text: &str) {
        self.wrapped("  ", text, 2);
    }

    /// Sentences, wrapped; lines after the first are set in by `indent`.
    pub fn wrapped(&mut self, first: &str, text: &str, indent: usize) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in glued(text).split_ascii_whitespace() {
            let word = word.replace('\u{a0}', " ");
            if !empty && line.width() + 1 + word.width() > self.width {
                self.line(&line);
                line = " ".repeat(indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(&word);
            empty = false;
        }
        self.line(&line);
    }

    /// A table: each column as wide as its widest cell, two spaces between, the first column cut
    /// where the page is too narrow.
    pub fn table(&mut self, indent: usize, stands: &[Stands], rows: &[Vec<String>]) {
        let mut widths: Vec<usize> = vec![0; stands.len()];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let all = indent + widths.iter().sum::<usize>() + 2 * stands.len().saturating_sub(1);
        if let Some(first) = widths.first_mut() {
            *first = first.saturating_sub(all.saturating_sub(self.width)).max(4);
        }
        for row in rows {
            let mut line = " ".repeat(indent);
            for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let cell = if n == 0 {
                    fit_middle(cell, *width)
                } else {
                    fit(cell, *width)
                };
                let pad = " ".repeat(width.saturating_sub(cell.width()));
                if n > 0 {
                    line.push_str("  ");
                }
                match stands[n] {
                    Stands::Left => line.extend([cell.as_str(), pad.as_str()]),
                    Stands::Right => line.extend([pad.as_str(), cell.as_str()]),
                }
            }
            self.line(&line);
        }
    }
}

const UNITS: [&str; 14] = [
    "%", "ns", "us", "ms", "s", "k", "M", "G", "MiB", "CPUs", "CPU", "VMs", "VM", "vCPUs",
];

/// A text whose lines break nowhere between a number and its unit: the space there is one that does not break.
pub(crate) fn glued(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_digit = false;
    for (n, word) in text.split(' ').enumerate() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        let is_unit = after_digit && UNITS.contains(&bare);
        if n > 0 {
            out.push(if is_unit { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
        after_digit = word.ends_with(|c: char| c.is_ascii_digit());
    }
    out
}

/// A text in at most so many columns; one that was cut ends in `~`.
pub fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(c);
    }
    cut.push('~');
    cut
}

/// The same with `~` in the middle: names often differ at their end only.
pub fn fit_middle(text: &str, width: usize) -> String {
    if text.width() <= width || width < 8 {
        return fit(text, width);
    }
    let mut tail: Vec<char> = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width / 2 {
            break;
        }
        tail.push(c);
    }
    tail.reverse();
    let tail: String = tail.into_iter().collect();
    fit(text, width - tail.width()) + &tail
}

/// A text of a stranger: what could steer a terminal, or hide, becomes `?`.
pub fn harmless(text: &str) -> String {
    let shown = |c: char| c.width().is_some_and(|w| w > 0) && is_visible(c);
    text.chars()
        .map(|c| if shown(c) { c } else { '?' })
        .collect()
}

/// Neither a control character nor one that moves, hides or reverses the text around it.
pub fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_strangers_text_steers_nothing() {
        assert_eq!(harmless("web-1"), "web-1");
        assert_eq!(harmless("a\u{1b}[2Jb\nc\u{202e}d\u{ad}e"), "a?[2Jb?c?d?e");
        assert_eq!(harmless("数据库"), "数据库");
    }

    #[test]
    fn colours_are_all_that_a_styled_page_adds() {
        let fill = |colour| {
            let mut page = Page::styled(Style { width: 40, colour });
            page.heading("VM \u{1b}[2Jweb");
            page.advice(
                "  ",
                "Set halt_poll_ns to 0, and look again at what it does.",
                2,
            );
            page.warning("  ! ", "half of the recording was lost\u{1b}]0;x\u{7}", 4);
            page.note("one");
            page.table(2, &[Stands::Left; 2], &[vec!["a\rb".into(), "c".into()]]);
            page.finish()
        };
        let mut coloured = fill(true);
        for colour in ["\u{1b}[1m", "\u{1b}[1;32m", "\u{1b}[33m", "\u{1b}[0m"] {
            assert!(coloured.contains(colour), "{colour:?} in {coloured:?}");
            coloured = coloured.replace(colour, "");
        }
        assert!(!coloured.contains('\u{1b}'), "{coloured:?}");
        let plain = fill(false);
        let cleaned: String = plain.lines().map(|line| harmless(line) + "\n").collect();
        assert_eq!(coloured, cleaned);
    }

    #[test]
    fn what_does_not_fit_says_so() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abcd~");
        assert_eq!(fit("数据库", 5), "数据~");
        assert_eq!(fit_middle("web-frontend-7f9c-x2", 12), "web-f~f9c-x2");
    }
}
