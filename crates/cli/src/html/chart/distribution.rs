//! How times are distributed: a histogram over a logarithmic axis, the share up to each time as a line,
//! and the ceiling in force.

use haltwise_core::hist::{LogHist, bucket_high, bucket_low};
use haltwise_core::stats::total;

use super::axis::LogAxis;
use super::{Path, at, figure, line, text};
use crate::html::markup::{Element, Markup, el};
use crate::number::{count, nanos, share};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 190.0;
/// Where the field of the figure begins and ends.
const LEFT: f64 = 8.0;
const RIGHT: f64 = 394.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 162.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'static str,
    pub(crate) hist: &'a LogHist,
}

/// Draws histograms, stacked. `marks` are times to be named on the axis. `None` if all are empty.
pub(crate) fn distribution(
    what: &str,
    series: &[Series<'_>],
    marks: &[(u64, &str)],
) -> Option<Markup> {
    let mut all = LogHist::default();
    for one in series {
        all.merge(one.hist);
    }
    let ends = ends(&all)?;
    let inside = marks.iter().map(|mark| mark.0).filter(|ns| *ns > 0);
    let low = inside.clone().fold(ends.0, u64::min);
    let high = inside.fold(ends.1, u64::max);
    let axis = LogAxis::new((low, high.saturating_add(high / 4)), (LEFT, RIGHT));
    let tallest = all.used().map(|(_, n)| n).max().unwrap_or(1).max(1) as f64;
    let mut svg = figure(WIDTH, HEIGHT, &label(what, series, &all));
    svg = svg.with(axis.ticks(TOP, BOTTOM));
    let mut floor = vec![0_u64; all.counts().len()];
    for one in series {
        svg = svg.with(columns(one, &axis, tallest, &mut floor));
    }
    svg = svg.with(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)));
    svg = svg.with(up_to(&all, &axis));
    for (ns, name) in marks.iter().filter(|(ns, _)| *ns > 0) {
        let x = axis.place(*ns as f64);
        let (anchor, x_text) = if x > f64::midpoint(LEFT, RIGHT) {
            ("end", x - 4.0)
        } else {
            ("start", x + 4.0)
        };
        svg = svg
            .with(line("mark", (x, TOP - 12.0), (x, BOTTOM)))
            .with(text("mark-name", (x_text, TOP - 4.0), anchor, name));
    }
    Some(svg.with(values(series, &all, &axis)).into())
}

/// The narrowest column that a pointer finds.
const NARROWEST: f64 = 9.0;

/// The values of each column, where a pointer rests on it; neighbours too narrow to be found are one.
fn values(series: &[Series<'_>], all: &LogHist, axis: &LogAxis) -> Markup {
    let mut out = Markup::none();
    let (mut first, mut below) = (None, 0_u64);
    let whole = all.count().max(1) as f64;
    let last = all.used().next_back().map(|(bucket, _)| bucket);
    for (bucket, &n) in all.counts().iter().enumerate() {
        if n == 0 && first.is_none() {
            continue;
        }
        let from: usize = *first.get_or_insert(bucket);
        let left = axis.place(bucket_low(from) as f64);
        let right = axis.place(bucket_high(bucket).saturating_add(1) as f64);
        if right - left < NARROWEST && Some(bucket) < last {
            continue;
        }
        let sum = |hist: &LogHist| {
            let counts = hist.used().skip_while(|(used, _)| *used < from);
            let counts = counts.take_while(|(used, _)| *used <= bucket);
            total(counts.map(|(_, n)| n))
        };
        below = below.saturating_add(sum(all));
        let mut said = format!(
            "{} to {}: {} ({})",
            nanos(bucket_low(from)),
            nanos(bucket_high(bucket)),
            count(sum(all)),
            share(sum(all) as f64 / whole),
        );
        for one in series.iter().filter(|_| series.len() > 1) {
            said.extend(["; ", one.name, " ", &count(sum(one.hist))]);
        }
        said.extend(["; up to here ", &share(below as f64 / whole)]);
        out.push(hit((left, right), (TOP, BOTTOM), said));
        first = None;
        if Some(bucket) >= last {
            break;
        }
    }
    out
}

/// A place in a figure, with a text where a pointer rests on it.
pub(super) fn hit((left, right): (f64, f64), (top, bottom): (f64, f64), said: String) -> Element {
    el("rect")
        .class("hit")
        .attr("x", at(left))
        .attr("y", at(top))
        .attr("width", at((right - left).max(0.8)))
        .attr("height", at(bottom - top))
        .with(el("title").with(said))
}

/// The first and last time that counts.
fn ends(all: &LogHist) -> Option<(u64, u64)> {
    let (first, _) = all.used().next()?;
    let (last, _) = all.used().next_back()?;
    Some((bucket_low(first).max(10), bucket_high(last)))
}

fn columns(series: &Series<'_>, axis: &LogAxis, tallest: f64, floor: &mut [u64]) -> Element {
    let scale = |n: u64| BOTTOM - n as f64 / tallest * (BOTTOM - TOP);
    let mut path = Path::default();
    for (bucket, n) in series.hist.used() {
        let from = axis.place(bucket_low(bucket) as f64);
        let to = axis.place(bucket_high(bucket).saturating_add(1) as f64);
        let (base, top) = (scale(floor[bucket]), scale(floor[bucket].saturating_add(n)));
        // Little is not nothing.
        let (right, top) = (to.max(from + 0.8), top.min(base - 0.7));
        path.area((from, top), (right, base));
        floor[bucket] = floor[bucket].saturating_add(n);
    }
    path.drawn(series.class)
}

/// The share of all values up to each time, with its own axis at the right.
fn up_to(all: &LogHist, axis: &LogAxis) -> Markup {
    let height = |share: f64| BOTTOM - share * (BOTTOM - TOP);
    let whole = all.count().max(1) as f64;
    let mut path = Path::default();
    path.step("M", &[LEFT, BOTTOM]);
    let mut below = 0_u64;
    for (bucket, n) in all.used() {
        let from = axis.place(bucket_low(bucket) as f64);
        let to = axis.place(bucket_high(bucket).saturating_add(1) as f64);
        path.step("L", &[from, height(below as f64 / whole)]);
        below = below.saturating_add(n);
        path.step("L", &[to, height(below as f64 / whole)]);
    }
    path.step("L", &[RIGHT, TOP]);
    let mut out = Markup::from(path.drawn("upto"));
    for (part, name) in [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")] {
        let y = height(part) + 4.0;
        out.push(text("tick", (RIGHT + 5.0, y), "start", name));
    }
    out
}

fn label(what: &str, series: &[Series<'_>], all: &LogHist) -> String {
    let quantile = |p: f64| all.percentile(p).map_or_else(|| "-".to_owned(), nanos);
    let mut said = format!(
        "{what}: {} values, half of them within {}, 95 % within {}, 99 % within {}, the largest {}",
        count(all.count()),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        nanos(all.max()),
    );
    if series.len() > 1 {
        for one in series {
            let part = one.hist.count() as f64 / all.count().max(1) as f64;
            said.extend(["; ", one.name, " ", &share(part)]);
        }
    }
    said
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_distribution_shows_what_there_is_and_names_the_ceiling() {
        let mut hist = LogHist::default();
        assert_eq!(distribution("gap", &[], &[]), None);
        (1..1_000).for_each(|n| hist.record(n * 300));
        let series = Series {
            name: "gap",
            class: "s-gap",
            hist: &hist,
        };
        let made = distribution(
            "gap",
            &[series],
            &[(200_000, "ceiling 200 us"), (0, "none")],
        );
        let text = made.unwrap().as_str().to_owned();
        assert!(text.contains("ceiling 200 us") && !text.contains("none"));
        assert!(text.contains("999 values, half of them within"), "{text}");
        assert!(
            text.contains(">10 us<") && text.contains(">100 us<"),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
