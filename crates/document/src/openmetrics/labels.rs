//! Labels that distinguish series of one metric.

use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::Value;

use crate::figure::{Figures, leaves};

/// Labels as they stand between braces; no two have one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(String);

impl Labels {
    pub fn none() -> Self {
        Self::default()
    }

    /// The figures of a result, each a label of its name; what is not known is none.
    pub fn of<R: Figures>(result: &R) -> Self {
        let json = serde_json::to_value(result).unwrap_or_default();
        let mut labels = Self::none();
        for leaf in leaves(R::FIGURES) {
            match leaf.of(&json) {
                Value::Null => {}
                Value::String(text) => labels.put(leaf.figure.name, text),
                other => labels.put(leaf.figure.name, &other.to_string()),
            }
        }
        labels
    }

    #[must_use]
    pub fn and(&self, name: &'static str, value: &str) -> Self {
        let mut more = self.clone();
        more.put(name, value);
        more
    }

    /// An empty label is none for those who read it.
    fn put(&mut self, name: &'static str, value: &str) {
        if value.is_empty() {
            return;
        }
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}{name}=\"{}\"", escaped(value));
    }

    pub(super) fn text(&self) -> Rc<str> {
        self.0.as_str().into()
    }
}

/// A value as it stands between quotes. Control characters become U+FFFD: readers of the formats differ in what they
/// take NUL for.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push(char::REPLACEMENT_CHARACTER),
            c => text.push(c),
        }
    }
    text
}
