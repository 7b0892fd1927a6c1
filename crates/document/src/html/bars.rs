//! Bars that are as wide as their place: shares of a whole, side by side.

use serde_json::{Value, json};

use super::markup::{Element, Markup, el};
use super::plain;
use crate::block::Part;
use crate::number::share;

/// A value of a column that is drawn: parts of a whole, an interval, or words where there is neither.
pub fn drawn(value: &Value) -> Markup {
    match value {
        Value::Object(of) => {
            let parts = of["parts"].as_array().into_iter().flatten();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let parts = parts.map(|part| (text(&part[0]), text(&part[1]), count(&part[2])));
            of_parts(parts.collect(), &text(&of["whose"]))
        }
        Value::String(words) => words.as_str().into(),
        _ => interval(value),
    }
}

/// Sum of the parts, by which their column is sorted.
pub(super) fn sum(value: &Value) -> Option<f64> {
    let parts = value.get("parts")?.as_array()?;
    Some(parts.iter().map(|part| count(&part[2]) as f64).sum())
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Parts of a whole as the value of a column that is drawn.
pub fn value(parts: &[Part], whose: &str) -> Value {
    let parts = parts.iter();
    let parts = parts.map(|part| json!([part.class, plain(&part.name), part.value]));
    json!({ "whose": whose, "parts": parts.collect::<Vec<_>>() })
}

/// Parts of a whole as one bar, with what they are as its text.
pub fn stacked(parts: &[Part], whose: &str) -> Markup {
    let parts = parts.iter();
    let parts = parts.map(|part| (part.class.to_owned(), plain(&part.name), part.value));
    of_parts(parts.collect(), whose)
}

fn of_parts(parts: Vec<(String, String, u64)>, whose: &str) -> Markup {
    let all: f64 = parts.iter().map(|(.., value)| *value as f64).sum();
    if all <= 0.0 {
        return el("span").class("none").with("nothing").into();
    }
    let there = parts.into_iter().filter(|(.., value)| *value > 0);
    let there = there.map(|(class, name, value)| {
        let part = value as f64 / all;
        (class, part * 100.0, format!("{name} {}", share(part)))
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_fill_the_bar_and_are_said() {
        let of = |class, name: &'static str, value| Part {
            class,
            name: name.into(),
            value,
        };
        let made = stacked(&[of("a", "x", 1), of("b", "y", 3)], "web <1>");
        let text = made.as_str();
        assert!(text.contains("width=\"25.00%\"") && text.contains("x=\"25.00%\""));
        assert!(text.contains("web &lt;1&gt;: x 25.0 %, y 75.0 %"), "{text}");
        assert!(stacked(&[of("a", "x", 0)], "").as_str().contains("nothing"));
    }
}
