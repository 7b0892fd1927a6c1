//! A document on a screen.
//!
//! Where a table is too wide, columns that it can spare go first, then half of the space between columns, and
//! names are cut in their middle last. Numbers are never cut.

use unicode_width::UnicodeWidthStr;

use crate::block::{Block, Document, Part, Prose, Span, Term};
use crate::chart::stacked;
use crate::figure::Unit;
use crate::number::{count, share};
use crate::page::{Page, fit_middle, harmless};
use crate::table::{Column, Table};

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub width: usize,
    /// Whether headings, advice and warnings have colours.
    pub colour: bool,
}

/// A name is never cut below this.
const SHORTEST: usize = 6;

/// Down to this, names are cut before other texts are.
const LONG_NAME: usize = 12;

pub fn render(document: &Document, style: Style) -> String {
    let mut page = Page::styled(style);
    add(&mut page, document);
    page.finish()
}

pub fn add(page: &mut Page, document: &Document) {
    let mut before = "";
    for block in document.blocks() {
        let kind = match block {
            Block::Note(_) => "note",
            Block::Remark(_) => "remark",
            Block::Table(_) => "table",
            Block::Prose(_) => "prose",
            _ => "",
        };
        let apart = match kind {
            "note" | "remark" => !matches!(before, "note" | "remark"),
            "prose" => matches!(before, "table" | "note"),
            "table" => before == "table",
            _ => false,
        };
        if apart {
            page.gap();
        }
        before = kind;
        one(page, block);
    }
}

fn one(page: &mut Page, block: &Block) {
    match block {
        Block::Heading(words) => page.heading(&plain(words)),
        Block::Prose(words) => page.wrapped("  ", &plain(words), 2),
        Block::Remark(words) => page.wrapped("", &plain(words), 0),
        Block::Note(words) => page.note(&plain(words)),
        Block::Item(words) => page.wrapped("  ", &plain(words), 4),
        Block::Advice(words) => page.advice("  ", &plain(words), 2),
        Block::Terms(terms) => {
            let widest = terms.iter().map(|term| plain(&term.label).width()).max();
            let column = widest.unwrap_or(0) + 4;
            for Term {
                label,
                text,
                is_advice,
            } in terms
            {
                let label = plain(label);
                let space = " ".repeat(column - 2 - label.width());
                let (label, text) = (format!("  {label}{space}"), plain(text));
                if *is_advice {
                    page.advice(&label, &text, column);
                } else {
                    page.wrapped(&label, &text, column);
                }
            }
        }
        Block::Facts(facts) => {
            for (name, words) in facts {
                page.wrapped(&format!("{}: ", plain(name)), &plain(words), 4);
            }
        }
        Block::Command(name, command) => {
            page.whole_line(&format!("{name}: {}", harmless(command)));
        }
        Block::Bar(parts) => bar(page, parts),
        Block::Folded(title, content) => {
            page.heading(&plain(title));
            add(page, content);
        }
        Block::Table(it) => table(page, it),
    }
}

/// A sentence; external text in it can neither steer a terminal nor hide.
fn plain(prose: &Prose) -> String {
    let span = |span: &Span| match span {
        Span::Ours(text) => harmless(text),
        Span::Theirs(text) => harmless(&text.0),
    };
    prose.0.iter().map(span).collect()
}

fn bar(page: &mut Page, parts: &[Part]) {
    let whole: u64 = parts.iter().map(|part| part.value).sum();
    let named = parts.iter().map(|part| {
        let name = harmless(&part.name);
        let mark = name.chars().next().unwrap_or('?').to_ascii_lowercase();
        (mark, name, part.value)
    });
    let named: Vec<(char, String, u64)> = named.collect();
    let marks: Vec<(char, u64)> = named.iter().map(|(mark, _, n)| (*mark, *n)).collect();
    page.line(&format!("  {}", stacked(&marks, page.width() - 2)));
    let said = named.iter().map(|(mark, name, value)| {
        let part = share(*value as f64 / whole.max(1) as f64);
        format!("{mark} {name} {part}")
    });
    page.wrapped("  ", &said.collect::<Vec<_>>().join(", "), 2);
}

pub fn table(page: &mut Page, table: &Table) {
    let columns: Vec<&Column> = table.columns.iter().filter(|it| is_text(it)).collect();
    let cells = |row: &Vec<serde_json::Value>| -> Vec<String> {
        let cells = row.iter().zip(&table.columns).filter(|(_, it)| is_text(it));
        cells.map(|(value, column)| cell(column, value)).collect()
    };
    let mut lines = vec![columns.iter().map(|it| it.title.clone()).collect()];
    lines.extend(table.rows.iter().map(cells));
    let (gap, widths) = widths(&columns, &lines, page.width());
    for line in &lines {
        let mut text = String::new();
        for (n, cell) in line.iter().enumerate() {
            let Some(width) = widths[n] else { continue };
            if !text.is_empty() {
                text.push_str(&" ".repeat(gap));
            }
            let cell = fit_middle(cell, width);
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            if columns[n].unit.is_number() {
                text.extend([pad, cell]);
            } else {
                text.extend([cell, pad]);
            }
        }
        page.whole_line(&text);
    }
    if table.more > 0 {
        let text = format!("and {} more (--rows all)", count(table.more as u64));
        page.wrapped("  ", &text, 2);
    }
}

fn is_text(column: &Column) -> bool {
    !matches!(column.unit, Unit::Drawn | Unit::Linked)
}

/// A value as it stands in a table: numbers without the space before their unit.
fn cell(column: &Column, value: &serde_json::Value) -> String {
    let shown = column.unit.show(value);
    if column.unit == Unit::Shown {
        shown
    } else if column.unit.is_number() {
        shown.replace(' ', "")
    } else {
        harmless(&shown)
    }
}

/// The space between columns, and how wide each is; `None` of one that went.
fn widths(columns: &[&Column], lines: &[Vec<String>], most: usize) -> (usize, Vec<Option<usize>>) {
    let widest = |n: usize| lines.iter().map(|line| line[n].width()).max();
    let mut widths: Vec<Option<usize>> = (0..columns.len()).map(widest).collect();
    let mut gap = 2;
    loop {
        let shown = widths.iter().flatten().count();
        let all = widths.iter().flatten().sum::<usize>() + gap * shown.saturating_sub(1);
        let Some(over) = all.checked_sub(most).filter(|over| *over > 0) else {
            return (gap, widths);
        };
        let spare = (0..columns.len()).filter(|n| columns[*n].spare.is_some());
        let spare = spare.filter(|n| widths[*n].is_some());
        let spare = spare.min_by_key(|n| columns[*n].spare);
        // Names of strangers are cut before words of ours.
        let texts = (0..columns.len()).filter(|n| !columns[*n].unit.is_number());
        let is_long = |n: usize| columns[n].unit == Unit::Name && widths[n] > Some(LONG_NAME);
        let longest = texts.max_by_key(|n| (is_long(*n), widths[*n]));
        match (gap, spare, longest) {
            (_, Some(n), _) => widths[n] = None,
            (2, ..) => gap = 1,
            (_, None, Some(n)) if widths[n] > Some(SHORTEST) => {
                let width = widths[n].unwrap_or(0);
                widths[n] = Some(width.saturating_sub(over.min(4)).max(SHORTEST));
            }
            _ => return (gap, widths),
        }
    }
}
