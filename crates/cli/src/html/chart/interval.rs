//! An estimate and its interval about zero.

use super::at;
use crate::html::markup::{Markup, el};

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 16.0;

/// Draws it on a scale that reaches `reach` to both sides. A table beside it says the numbers.
pub(crate) fn interval(value: f64, low: f64, high: f64, reach: f64) -> Markup {
    let reach = if reach > 0.0 { reach } else { 1.0 };
    let x = |v: f64| WIDTH / 2.0 + (v / reach).clamp(-1.0, 1.0) * (WIDTH / 2.0 - 4.0);
    let y = at(HEIGHT / 2.0);
    let whisker = format!("M{} {y}H{}", at(x(low)), at(x(high)));
    el("svg")
        .class("interval")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("aria-hidden", "true")
        .with(
            el("path")
                .class("axis")
                .attr("d", format!("M{} 0V{HEIGHT}", at(x(0.0)))),
        )
        .with(el("path").class("whisker").attr("d", whisker))
        .with(
            el("circle")
                .class("estimate")
                .attr("cx", at(x(value)))
                .attr("cy", y)
                .attr("r", 3.5),
        )
        .into()
}
