//! Figures as still SVG: numbers in, markup out. They are seen without script and printed as they are.
//!
//! Colours and fonts are the style's, by class: no attribute here says how something looks but where it
//! is. A figure has a text for those who do not see it, and what it shows is in a table besides.

pub(crate) mod axis;
pub(crate) mod distribution;
pub(crate) mod front;
pub(crate) mod lanes;
pub(crate) mod windows;

pub(crate) use haltwise_document::html::bars::{self, at};

use super::markup::{Element, el};

#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn step(&mut self, letter: &str, numbers: &[f64]) {
        self.0.push_str(letter);
        for (n, number) in numbers.iter().enumerate() {
            if n > 0 {
                self.0.push(' ');
            }
            self.0.push_str(&at(*number));
        }
    }

    pub(crate) fn area(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
        self.step("M", &[left, bottom]);
        self.step("V", &[top]);
        self.step("H", &[right]);
        self.step("V", &[bottom]);
        self.0.push('z');
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn drawn(self, class: &'static str) -> Element {
        el("path").class(class).attr("d", self.0)
    }
}

/// A figure of so many units, as wide as the page lets it be, with a text for those who do not see it.
pub(crate) fn figure(width: f64, height: f64, label: &str) -> Element {
    el("svg")
        .class("chart")
        .attr("viewBox", format!("0 0 {} {}", at(width), at(height)))
        .attr("role", "img")
        .attr("aria-label", label)
}

pub(crate) fn line(class: &'static str, from: (f64, f64), to: (f64, f64)) -> Element {
    el("line")
        .class(class)
        .attr("x1", at(from.0))
        .attr("y1", at(from.1))
        .attr("x2", at(to.0))
        .attr("y2", at(to.1))
}

/// A text; `anchor` is `start`, `middle` or `end`.
pub(crate) fn text(
    class: &'static str,
    at_: (f64, f64),
    anchor: &'static str,
    text: &str,
) -> Element {
    el("text")
        .class(class)
        .attr("x", at(at_.0))
        .attr("y", at(at_.1))
        .attr("text-anchor", anchor)
        .with(text)
}
