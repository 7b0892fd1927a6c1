//! Documents: what is shown, in its order, for whatever medium.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::table::Table;

/// A text from an external source. It has no `Display`, so that it reaches a reader through a renderer only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untrusted(pub(crate) String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Words of ours; what stands between backquotes is code.
    Ours(Cow<'static, str>),
    /// A text from an external source.
    Theirs(Untrusted),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prose(pub(crate) Vec<Span>);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// May come from an external source.
    pub name: String,
    /// Its colour on a page, by class.
    pub class: Cow<'static, str>,
    pub value: u64,
}

impl Part {
    pub fn new(class: &'static str, name: &str, value: u64) -> Self {
        Self {
            name: name.to_owned(),
            class: class.into(),
            value,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Term {
    pub label: Prose,
    pub text: Prose,
    pub is_advice: bool,
}

#[derive(Debug, Clone)]
pub enum Block {
    Heading(Prose),
    Prose(Prose),
    /// One of several texts; on a screen its further lines are set in.
    Item(Prose),
    /// Action to take, or decision made.
    Advice(Prose),
    Facts(Vec<(Prose, Prose)>),
    Terms(Vec<Term>),
    /// A command of ours to paste, under a name: it is never wrapped or cut.
    Command(&'static str, String),
    Table(Table),
    Bar(Vec<Part>),
    /// Part that opens on a page, below its title; on a screen the part stands open.
    Folded(Prose, Document),
    Note(Prose),
    Remark(Prose),
}

#[derive(Debug, Clone, Default)]
pub struct Document(pub(crate) Vec<Block>);

impl<S: Into<String>> From<S> for Untrusted {
    fn from(text: S) -> Self {
        Self(text.into())
    }
}

impl From<Untrusted> for Span {
    fn from(text: Untrusted) -> Self {
        Self::Theirs(text)
    }
}

impl From<String> for Span {
    fn from(text: String) -> Self {
        Self::Ours(text.into())
    }
}

impl From<&'static str> for Span {
    fn from(text: &'static str) -> Self {
        Self::Ours(text.into())
    }
}

impl<S: Into<Span>> From<S> for Prose {
    fn from(span: S) -> Self {
        Self(vec![span.into()])
    }
}

/// A sentence of several pieces: texts of ours and [`Untrusted`] ones.
#[macro_export]
macro_rules! prose {
    ($($piece:expr),* $(,)?) => {
        $crate::Prose::of([$($crate::block::Span::from($piece)),*])
    };
}

impl Prose {
    pub fn of(pieces: impl IntoIterator<Item = Span>) -> Self {
        Self(pieces.into_iter().collect())
    }

    /// The pieces with a comma between them.
    pub fn joined(pieces: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for piece in pieces {
            let comma = if all.0.is_empty() { "" } else { ", " };
            all.extend(comma.into());
            all.extend(piece);
        }
        all
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Document {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, block: Block) {
        self.0.push(block);
    }

    pub fn heading(&mut self, text: impl Into<Prose>) {
        self.push(Block::Heading(text.into()));
    }

    pub fn prose(&mut self, text: impl Into<Prose>) {
        self.push(Block::Prose(text.into()));
    }

    pub fn fact(&mut self, name: impl Into<Prose>, text: impl Into<Prose>) {
        let fact = (name.into(), text.into());
        if let Some(Block::Facts(facts)) = self.0.last_mut() {
            facts.push(fact);
        } else {
            self.push(Block::Facts(vec![fact]));
        }
    }

    pub fn item(&mut self, text: impl Into<Prose>) {
        self.push(Block::Item(text.into()));
    }

    pub fn advice(&mut self, text: impl Into<Prose>) {
        self.push(Block::Advice(text.into()));
    }

    pub fn term(&mut self, label: impl Into<Prose>, text: impl Into<Prose>) {
        self.add_term(label.into(), text.into(), false);
    }

    pub fn term_to_do(&mut self, label: impl Into<Prose>, text: impl Into<Prose>) {
        self.add_term(label.into(), text.into(), true);
    }

    fn add_term(&mut self, label: Prose, text: Prose, is_advice: bool) {
        let term = Term {
            label,
            text,
            is_advice,
        };
        if let Some(Block::Terms(terms)) = self.0.last_mut() {
            terms.push(term);
        } else {
            self.push(Block::Terms(vec![term]));
        }
    }

    pub fn command(&mut self, name: &'static str, command: impl Into<String>) {
        self.push(Block::Command(name, command.into()));
    }

    pub fn table(&mut self, table: Table) {
        self.push(Block::Table(table));
    }

    pub fn folded(&mut self, title: impl Into<Prose>, content: Self) {
        self.push(Block::Folded(title.into(), content));
    }

    pub fn note(&mut self, text: impl Into<Prose>) {
        self.push(Block::Note(text.into()));
    }

    pub fn remark(&mut self, text: impl Into<Prose>) {
        self.push(Block::Remark(text.into()));
    }

    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn blocks(&self) -> &[Block] {
        &self.0
    }
}
