//! Bars that are as wide as their place: shares of a whole, side by side.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::markup::{Element, Markup, el, short};
use crate::block::Part;
use crate::number::share;

/// Parts of a whole, and whose they are: a value of a column that is drawn.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parts {
    pub whose: String,
    pub parts: Vec<Part>,
}

/// A value of a column that is drawn, and what it is sorted by: parts, an interval, or words where there is neither.
pub(super) fn drawn(value: &Value) -> (Markup, Option<f64>) {
    match (Parts::deserialize(value), value) {
        (Ok(Parts { whose, parts }), _) => (stacked(&parts, &whose), Some(sum(&parts))),
        (_, Value::String(words)) => (words.as_str().into(), None),
        _ => (interval(value), None),
    }
}

fn sum(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.value as f64).sum()
}

/// Parts of a whole as one bar, with what they are as its text.
pub fn stacked(parts: &[Part], whose: &str) -> Markup {
    let all = sum(parts);
    if all <= 0.0 {
        return el("span").class("none").with("nothing").into();
    }
    let there = parts.iter().filter(|part| part.value > 0);
    let there = there.map(|part| {
        let share_of_all = part.value as f64 / all;
        let title = format!("{} {}", short(&part.name), share(share_of_all));
        (&part.class, share_of_all * 100.0, title)
    });
    let there: Vec<_> = there.collect();
    let titles: Vec<&str> = there.iter().map(|(.., title)| title.as_str()).collect();
    let mut made = bar(&format!("{whose}: {}", titles.join(", ")));
    let mut from = 0.0;
    for (class, width, title) in &there {
        made = made.with(piece(class, from, *width).with(el("title").with(title.as_str())));
        from += width;
    }
    made.into()
}

/// A bar as long as `value` is of `full`.
pub fn length(value: f64, full: f64, class: &'static str) -> Markup {
    let part = if full > 0.0 {
        value / full * 100.0
    } else {
        0.0
    };
    let svg = el("svg").class("bar thin").attr("aria-hidden", "true");
    svg.with(piece(class, 0.0, part.clamp(0.0, 100.0))).into()
}

fn bar(label: &str) -> Element {
    el("svg")
        .class("bar")
        .attr("role", "img")
        .attr("aria-label", label)
}

fn piece(class: &str, from: f64, width: f64) -> Element {
    el("rect")
        .attr("class", class)
        .attr("x", format!("{from:.2}%"))
        .attr("width", format!("{width:.2}%"))
        .attr("height", "100%")
}

pub fn legend<'a>(parts: impl IntoIterator<Item = (&'static str, &'a str)>) -> Markup {
    let items = parts.into_iter().map(|(class, name)| {
        let swatch = el("svg")
            .class("swatch")
            .attr("aria-hidden", "true")
            .with(piece(class, 0.0, 100.0));
        el("li").with(swatch).with(name)
    });
    el("ul").class("legend").with_all(items).into()
}

/// An estimate and its interval about zero, from `[value, low, high, reach]`, on a scale that reaches so far to
/// both sides; nothing where there is none. The table beside it says the numbers.
fn interval(drawn: &Value) -> Markup {
    let of = |n: usize| drawn.get(n).and_then(Value::as_f64);
    let (Some(value), Some(low), Some(high), Some(reach)) = (of(0), of(1), of(2), of(3)) else {
        return Markup::none();
    };
    let reach = if reach > 0.0 { reach } else { 1.0 };
    let x = |v: f64| at(WIDTH / 2.0 + (v / reach).clamp(-1.0, 1.0) * (WIDTH / 2.0 - 4.0));
    let y = at(HEIGHT / 2.0);
    let path = |class: &'static str, d: String| el("path").class(class).attr("d", d);
    let estimate = el("circle").class("estimate").attr("cx", x(value));
    el("svg")
        .class("interval")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("aria-hidden", "true")
        .with(path("axis", format!("M{} 0V{HEIGHT}", x(0.0))))
        .with(path("whisker", format!("M{} {y}H{}", x(low), x(high))))
        .with(estimate.attr("cy", y).attr("r", 3.5))
        .into()
}

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 16.0;

/// A place in a figure, to a tenth of its unit.
pub fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
