//! Markup that cannot hold a stranger's text as it came.
//!
//! Names of VMs, paths and notes come from machines that this program does not control. A [`Markup`] is made of
//! elements whose names are ours and of texts that were escaped on their way in; there is no way to
//! make one of a `String`. Values of attributes go through the same gate.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::page::{glued, harmless};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn text(text: &str) -> Self {
        let mut out = String::with_capacity(text.len());
        escape(&harmless(text), &mut out);
        Self(out)
    }

    /// Data for the page's script. `<`, `>` and `&` are written as JSON's own escapes, so that no text
    /// within can end the element or begin a comment.
    pub fn json(data: &impl Serialize) -> serde_json::Result<Self> {
        let json = serde_json::to_string(data)?;
        let mut out = String::with_capacity(json.len());
        for c in json.chars() {
            match c {
                '<' | '>' | '&' => {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                c if c.is_ascii() => out.push(c),
                c => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
        Ok(Self(out))
    }

    /// Style or script of ours: nothing else is known when the program is compiled.
    pub fn ours(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Modules of ours as one script: all share one scope, so imports go and exports are plain.
    pub fn modules(modules: &[&'static str]) -> Self {
        let mut script = String::new();
        for line in modules.iter().flat_map(|module| module.lines()) {
            let line = line.strip_prefix("export ").unwrap_or(line);
            if !line.starts_with("import ") {
                script.push_str(line);
                script.push('\n');
            }
        }
        Self(script)
    }

    pub fn push(&mut self, more: impl Into<Self>) {
        self.0.push_str(&more.into().0);
    }

    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.push(more);
        self
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Markup {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Markup {
    fn from(text: String) -> Self {
        Self::text(&text)
    }
}

impl<M: Into<Markup>> From<Option<M>> for Markup {
    fn from(it: Option<M>) -> Self {
        it.map_or_else(Self::none, Into::into)
    }
}

impl From<Element> for Markup {
    fn from(element: Element) -> Self {
        element.close()
    }
}

impl<M: Into<Markup>> FromIterator<M> for Markup {
    fn from_iter<I: IntoIterator<Item = M>>(items: I) -> Self {
        items.into_iter().fold(Self::none(), Self::and)
    }
}

#[derive(Debug)]
pub struct Element {
    name: &'static str,
    attributes: String,
    content: Markup,
}

/// Elements that have no end tag.
const VOID: [&str; 6] = ["meta", "link", "input", "br", "hr", "col"];

pub fn el(name: &'static str) -> Element {
    Element {
        name,
        attributes: String::new(),
        content: Markup::none(),
    }
}

impl Element {
    #[must_use]
    pub fn attr(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.attributes.push(' ');
        self.attributes.push_str(name);
        self.attributes.push_str("=\"");
        escape(&harmless(&value.to_string()), &mut self.attributes);
        self.attributes.push('"');
        self
    }

    #[must_use]
    pub fn flag(mut self, name: &'static str) -> Self {
        self.attributes.push(' ');
        self.attributes.push_str(name);
        self
    }

    #[must_use]
    pub fn class(self, name: &'static str) -> Self {
        self.attr("class", name)
    }

    #[must_use]
    pub fn with(mut self, more: impl Into<Markup>) -> Self {
        self.content.push(more);
        self
    }

    #[must_use]
    pub fn with_all<M: Into<Markup>>(mut self, more: impl IntoIterator<Item = M>) -> Self {
        for one in more {
            self.content.push(one);
        }
        self
    }

    fn close(self) -> Markup {
        let Self {
            name,
            attributes,
            content,
        } = self;
        if VOID.contains(&name) {
            return Markup(format!("<{name}{attributes}>"));
        }
        Markup(format!("<{name}{attributes}>{}</{name}>", content.0))
    }
}

/// The file is ASCII from end to end: a browser then reads it byte by byte, and twice as fast.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_ascii() => out.push(c),
            c => {
                // Writing to a String cannot fail.
                let _ = write!(out, "&#{};", u32::from(c));
            }
        }
    }
}

/// A sentence of ours: what is in backquotes is code, and a number stays with its unit.
pub fn prose(text: &str) -> Markup {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(n, part)| {
        if n % 2 == 1 {
            code(part).into()
        } else {
            Markup::text(&glued(part))
        }
    });
    parts.collect()
}

/// Text that is typed. An option stays whole: a browser would break it after a hyphen.
pub fn code(text: &str) -> Element {
    let words = text.split_inclusive(' ').map(|word| {
        let bare = word.trim_end();
        if !bare.starts_with("--") {
            return Markup::text(word);
        }
        let whole = Markup::from(el("span").class("whole").with(bare));
        whole.and(&word[bare.len()..])
    });
    el("code").with_all(words)
}

const SHOWN: usize = 80;

/// A stranger's text as the page shows it: what steers is gone, and what is too long is cut in the
/// middle, for names often differ at their end.
pub fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHOWN {
        return harmless(text);
    }
    let half = SHOWN / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half + 1).collect();
    harmless(&format!("{head}…{tail}"))
}

/// A name that a stranger gave. Its own direction of writing ends with it.
pub fn name(text: &str) -> Markup {
    el("bdi").class("name").with(short(text)).into()
}

#[cfg(test)]
mod test;
