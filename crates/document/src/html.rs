//! Documents as markup. A [`markup::Markup`] is made of elements of ours and of escaped texts; nothing else can
//! become a part of it.
//!
//! | module | holds |
//! |---|---|
//! | [`markup`] | elements and texts |
//! | [`bars`] | bars as still SVG |

pub mod bars;
pub mod markup;

use serde_json::Value;

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
            let place = el("dd").class("command").flag("data-copy");
            let command = place.with(markup::code(command));
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

/// A table, in a place of its own that scrolls where the screen is too narrow. Its heads say what columns mean where a
/// pointer rests on them.
pub fn table(table: &Table) -> Element {
    let heads = table.columns.iter().flat_map(|column| {
        let bar = column.bar.map(|_| el("th").attr("scope", "col").class("b"));
        bar.into_iter().chain([head(column)])
    });
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().zip(&table.columns).enumerate();
        let cells = cells.flat_map(|(n, (value, column))| cell(n == 0, column, value));
        el("tr").with_all(cells)
    });
    let mut made = el("table");
    if let Some(id) = table.id {
        made = made.attr("id", id).flag("data-sorts");
    }
    let made = made
        .with(el("caption").with(table.caption))
        .with(el("thead").with(el("tr").with_all(heads)))
        .with(el("tbody").with_all(rows));
    el("div")
        .class("scroll")
        .attr("tabindex", 0)
        .attr("role", "region")
        .attr("aria-label", table.caption)
        .with(made)
}

fn head(column: &Column) -> Element {
    let head = el("th").attr("scope", "col").class(class(column.unit));
    let head = match column.meaning {
        "" => head,
        meaning => head.attr("title", meaning.replace('`', "")),
    };
    head.with(column.title.as_str())
}

/// A value, after its bar where it has one. The first cell is the head of its row.
fn cell(is_first: bool, column: &Column, value: &Value) -> Vec<Element> {
    let shown = column.unit.show(value);
    let number = value.as_f64().or(value[1].as_f64());
    let number = number.filter(|_| column.unit.is_number());
    let (content, sum) = match column.unit {
        Unit::Drawn => bars::drawn(value),
        Unit::Linked => (linked(value), None),
        Unit::Name if !value.is_null() => (name(&shown), None),
        _ => (shown.into(), number),
    };
    let bar = column.bar.map(|class| {
        let part = number.unwrap_or(0.0);
        let drawn = bars::length(part, 1.0, class);
        el("td").class("b").attr("data-v", part).with(drawn)
    });
    let made = if is_first {
        el("th").attr("scope", "row")
    } else {
        el("td")
    };
    let mut made = made.class(class(column.unit));
    if let Some(value) = sum {
        made = made.attr("data-v", value);
    }
    bar.into_iter().chain([made.with(content)]).collect()
}

/// A name that leads to a place of the page.
fn linked(value: &Value) -> Markup {
    match (value[0].as_str(), value[1].as_str()) {
        (Some(place), Some(text)) => el("a")
            .attr("href", format!("#{place}"))
            .with(name(text))
            .into(),
        _ => name(value.as_str().unwrap_or_default()),
    }
}

fn class(unit: Unit) -> &'static str {
    match unit {
        Unit::Drawn => "b",
        unit if unit.is_number() => "n",
        _ => "t",
    }
}
