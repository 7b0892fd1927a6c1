//! Documents as markup. A [`markup::Markup`] is made of elements of ours and of escaped texts; nothing else can
//! become a part of it.
//!
//! | module | holds |
//! |---|---|
//! | [`markup`] | elements and texts |
//! | [`grid`] | tables of any cells |
//! | [`bars`] | bars as still SVG |

pub mod bars;
pub mod grid;
pub mod markup;

use self::grid::{Cell, Head};
use self::markup::{Element, Markup, el, name};
use crate::block::{Block, Document, Prose, Span};
use crate::figure::Unit;
use crate::table::{Column, Table};

/// The document as markup, without a page around it.
pub fn render(document: &Document) -> Markup {
    document.blocks().iter().map(one).collect()
}

fn one(block: &Block) -> Markup {
    match block {
        Block::Heading(words) => el("h3").with(prose(words)).into(),
        Block::Prose(words) | Block::Item(words) => el("p").with(prose(words)).into(),
        Block::Advice(words) => el("p").class("lead").with(prose(words)).into(),
        Block::Note(words) | Block::Remark(words) => {
            el("p").class("note").with(prose(words)).into()
        }
        Block::Facts(facts) => terms(facts.iter().map(|(name, words)| (name, words))),
        Block::Terms(all) => terms(all.iter().map(|term| (&term.label, &term.text))),
        Block::Command(name, command) => {
            let name = Markup::from(el("dt").with(Markup::ours(name)));
            let command = el("dd").with(markup::code(command));
            el("dl").with(name.and(command)).into()
        }
        Block::Bar(parts) => bars::stacked(parts, "parts"),
        Block::Table(it) => table(it).into(),
        Block::Folded(title, content) => {
            let title = el("summary").with(prose(title));
            el("details").with(title).with(render(content)).into()
        }
    }
}

fn terms<'a>(terms: impl Iterator<Item = (&'a Prose, &'a Prose)>) -> Markup {
    let pair = |(name, words)| {
        let name = el("dt").with(prose(name));
        Markup::from(name).and(el("dd").with(prose(words)))
    };
    el("dl").with_all(terms.map(pair)).into()
}

pub fn prose(prose: &Prose) -> Markup {
    let span = |span: &Span| match span {
        Span::Ours(text) => markup::prose(text),
        Span::Theirs(text) => name(&text.0),
    };
    prose.0.iter().map(span).collect()
}

fn plain(prose: &Prose) -> String {
    let span = |span: &Span| match span {
        Span::Ours(text) => text.clone().into_owned(),
        Span::Theirs(text) => markup::short(&text.0),
    };
    prose.0.iter().map(span).collect()
}

/// A table; its heads say what columns mean where a pointer rests on them.
pub fn table(table: &Table) -> Element {
    let heads = table.columns.iter().flat_map(|column| {
        let bar = column.bar.map(|_| Head::from((Unit::Drawn, "")));
        let head = Head {
            unit: column.unit,
            title: column.title.clone(),
            meaning: column.meaning,
        };
        bar.into_iter().chain([head])
    });
    let mut made = grid::Table::new(table.caption, heads);
    if let Some(id) = table.id {
        made = made.sortable(id);
    }
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        made.row(
            cells
                .flat_map(|(value, column)| cell(column, value))
                .collect(),
        );
    }
    made.finish()
}

/// A value, after its bar where it has one.
fn cell(column: &Column, value: &serde_json::Value) -> Vec<Cell> {
    let shown = column.unit.show(value);
    let number = value.as_f64().filter(|_| column.unit.is_number());
    let bar = column.bar.map(|class| {
        let part = number.unwrap_or(0.0);
        grid::number(part, bars::length(part, 1.0, class))
    });
    let cell = match (number, column.unit) {
        (_, Unit::Drawn) => grid::cell(bars::interval(value)),
        (Some(number), _) => grid::number(number, shown),
        (None, Unit::Name) => grid::cell(name(&shown)),
        (None, _) => grid::cell(shown),
    };
    bar.into_iter().chain([cell]).collect()
}
