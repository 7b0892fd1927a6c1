//! A document as Markdown (tables as GitHub has them). What somebody else wrote is no markup.

use std::fmt::Write as _;

use crate::block::{Block, Document, Prose, Span};
use crate::figure::Unit;
use crate::page::harmless;
use crate::table::Table;

pub fn render(document: &Document) -> String {
    let mut text = String::new();
    let mut after_note = false;
    for block in document.blocks() {
        let is_note = matches!(block, Block::Note(_));
        let is_list = is_note && after_note;
        if !text.is_empty() && !is_list {
            text.push('\n');
        }
        after_note = is_note;
        one(&mut text, block);
    }
    text
}

fn one(text: &mut String, block: &Block) {
    // Writing to a String cannot fail.
    let _ = match block {
        Block::Heading(words) if text.is_empty() => writeln!(text, "# {}", prose(words)),
        Block::Heading(words) => writeln!(text, "## {}", prose(words)),
        Block::Prose(words) | Block::Advice(words) | Block::Remark(words) => {
            writeln!(text, "{}", prose(words))
        }
        Block::Note(words) | Block::Item(words) => writeln!(text, "* {}", prose(words)),
        Block::Facts(facts) => facts
            .iter()
            .try_for_each(|(name, words)| writeln!(text, "* {}: {}", prose(name), prose(words))),
        Block::Terms(terms) => terms.iter().try_for_each(|term| {
            let (label, words) = (prose(&term.label), prose(&term.text));
            writeln!(text, "* {label}: {words}")
        }),
        Block::Command(name, command) => writeln!(text, "* {name}: `{command}`"),
        Block::Bar(parts) => parts
            .iter()
            .try_for_each(|part| writeln!(text, "* {}: {}", prose(&part.name), part.value)),
        Block::Folded(title, content) => {
            writeln!(text, "## {}\n\n{}", prose(title), render(content))
        }
        Block::Table(it) => {
            table(text, it);
            Ok(())
        }
    };
}

fn prose(prose: &Prose) -> String {
    let span = |span: &Span| match span {
        Span::Ours(text) => harmless(text),
        Span::Theirs(text) => escaped(&text.0),
    };
    prose.0.iter().map(span).collect()
}

fn table(text: &mut String, table: &Table) {
    let heads = table.columns.iter().map(|column| column.title.clone());
    line(text, heads);
    let rules = table.columns.iter().map(|column| column.unit.is_number());
    line(
        text,
        rules.map(|right| if right { "--:" } else { "---" }.to_owned()),
    );
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns).map(|(value, column)| {
            let shown = column.unit.show(value);
            match column.unit {
                Unit::Word => harmless(&shown).replace('|', "\\|"),
                _ => escaped(&shown),
            }
        });
        line(text, cells);
    }
    if table.more > 0 {
        let _ = writeln!(text, "\nand {} more", table.more);
    }
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Everything that Markdown or the HTML within could take for its own.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' | '>' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
