//! Figures as still SVG: numbers in, markup out. They are seen without script and printed as they are.
//!
//! Colours and fonts are the style's, by class: no attribute here says how something looks but where it
//! is. A figure has a text for those who do not see it, and what it shows is in a table besides.

mod front;
mod windows;

pub(crate) use haltwise_document::html::bars::{self, at};

use haltwise_core::hist::{LogHist, bucket_high, bucket_low};
use haltwise_core::stats::total;

pub(crate) use self::front::{Place, front};
pub(crate) use self::windows::windows;
use super::markup::{Element, Markup, el};
use crate::number::{count, nanos, share};

/// Size of the figures of a VM, and where their field ends.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 190.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 162.0;

/// Ends of the field of a distribution.
const LEFT: f64 = 8.0;
const RIGHT: f64 = 394.0;

/// Named times on an axis, at most.
const NAMED: usize = 7;

#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn step(&mut self, letter: &str, numbers: &[f64]) {
        self.0.push_str(letter);
        let numbers: Vec<String> = numbers.iter().map(|number| at(*number)).collect();
        self.0.push_str(&numbers.join(" "));
    }

    pub(crate) fn area(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
        self.step("M", &[left, bottom]);
        self.step("V", &[top]);
        self.step("H", &[right]);
        self.step("V", &[bottom]);
        self.0.push('z');
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

fn line(class: &'static str, from: (f64, f64), to: (f64, f64)) -> Element {
    let mut path = Path::default();
    path.step("M", &[from.0, from.1]);
    path.step("L", &[to.0, to.1]);
    path.drawn(class)
}

/// A text; `anchor` is `start`, `middle` or `end`.
fn text(class: &'static str, (x, y): (f64, f64), anchor: &'static str, text: &str) -> Element {
    el("text")
        .class(class)
        .attr("x", at(x))
        .attr("y", at(y))
        .attr("text-anchor", anchor)
        .with(text)
}

/// A part of a figure's field, with a text where a pointer rests on it.
fn hit(left: f64, right: f64, said: String) -> Element {
    el("rect")
        .class("hit")
        .attr("x", at(left))
        .attr("y", at(TOP))
        .attr("width", at((right - left).max(0.8)))
        .attr("height", at(BOTTOM - TOP))
        .with(el("title").with(said))
}

/// The next round value at or above `value`: 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let found = steps.into_iter().find(|it| *it >= value * (1.0 - 1e-9));
    found.unwrap_or(value)
}

/// `10 us`: a round time without the digits that say nothing.
fn round(ns: f64) -> String {
    let (unit, name) = match ns {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {name}", at(ns / unit))
}

/// A logarithmic axis of nanoseconds over the field of a distribution.
#[derive(Debug, Clone, Copy)]
struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    fn new(low: u64, high: u64) -> Self {
        let low = low.max(1) as f64;
        let high = (high as f64).max(low * 10.0);
        Self { low, high }
    }

    /// Where a value stands; what lies beyond the ends stands there.
    fn place(&self, ns: f64) -> f64 {
        let share = (ns.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        LEFT + share * (RIGHT - LEFT)
    }

    /// Where times from `low` to `high` stand, both included.
    fn range(&self, low: u64, high: u64) -> (f64, f64) {
        let end = high.saturating_add(1);
        (self.place(low as f64), self.place(end as f64))
    }

    /// Lines at round times, as many of them with their names as there is room for.
    fn ticks(&self) -> Markup {
        // Where the axis spans little, there is more to name than powers of ten.
        let steps: &[f64] = if self.high / self.low < 300.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let powers = (0..=19).map(|power| 10_f64.powi(power));
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| power * step));
        let ticks: Vec<f64> = ticks
            .filter(|ns| (self.low..=self.high).contains(ns))
            .collect();
        let every = ticks.len().div_ceil(NAMED);
        let mut out = Markup::none();
        for (n, ns) in ticks.into_iter().enumerate() {
            let x = self.place(ns);
            out.push(line("grid", (x, TOP), (x, BOTTOM)));
            if n % every == 0 {
                let anchor = match x {
                    left if left < LEFT + 15.0 => "start",
                    right if right > RIGHT - 5.0 => "end",
                    _ => "middle",
                };
                out.push(text("tick", (x, BOTTOM + 14.0), anchor, &round(ns)));
            }
        }
        out
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'static str,
    pub(crate) hist: &'a LogHist,
}

/// How times are distributed: histograms, stacked over a logarithmic axis, the share up to each time as a line, and the
/// ceiling in force, unless it is 0. `None` if all histograms are empty.
pub(crate) fn distribution(what: &str, series: &[Series<'_>], ceiling_ns: u64) -> Option<Markup> {
    let mut all = LogHist::default();
    for one in series {
        all.merge(one.hist);
    }
    let ((first, _), (last, _)) = (all.used().next()?, all.used().next_back()?);
    let (mut low, mut high) = (bucket_low(first).max(10), bucket_high(last));
    if ceiling_ns > 0 {
        (low, high) = (low.min(ceiling_ns), high.max(ceiling_ns));
    }
    let axis = LogAxis::new(low, high.saturating_add(high / 4));
    let tallest = all.used().map(|(_, n)| n).max().unwrap_or(1).max(1) as f64;
    let mut svg = figure(WIDTH, HEIGHT, &label(what, series, &all)).with(axis.ticks());
    let mut floor = vec![0_u64; all.counts().len()];
    for one in series {
        svg = svg.with(columns(one, &axis, tallest, &mut floor));
    }
    svg = svg
        .with(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))
        .with(up_to(&all, &axis));
    if ceiling_ns > 0 {
        let x = axis.place(ceiling_ns as f64);
        let (anchor, beside) = if x > f64::midpoint(LEFT, RIGHT) {
            ("end", x - 4.0)
        } else {
            ("start", x + 4.0)
        };
        let name = format!("ceiling {}", nanos(ceiling_ns));
        svg = svg
            .with(line("mark", (x, TOP - 12.0), (x, BOTTOM)))
            .with(text("mark-name", (beside, TOP - 4.0), anchor, &name));
    }
    Some(svg.with(values(series, &all, &axis)).into())
}

/// The values of each power of two, where a pointer rests on it.
fn values(series: &[Series<'_>], all: &LogHist, axis: &LogAxis) -> Markup {
    let mut below = 0_u64;
    let whole = all.count().max(1) as f64;
    let named = series.iter().filter(|_| series.len() > 1);
    let parts: Vec<_> = named.map(|one| (one.name, one.hist.octaves())).collect();
    let rows = all.octaves().into_iter();
    rows.map(|row| {
        below = below.saturating_add(row.count);
        let mut said = format!(
            "{} to {}: {} ({})",
            nanos(row.low_ns),
            nanos(row.high_ns),
            count(row.count),
            share(row.count as f64 / whole),
        );
        for (name, rows) in &parts {
            let own = rows.iter().filter(|own| own.low_ns == row.low_ns);
            said.extend(["; ", name, " ", &count(total(own.map(|own| own.count)))]);
        }
        said.extend(["; up to here ", &share(below as f64 / whole)]);
        let (left, right) = axis.range(row.low_ns, row.high_ns);
        hit(left, right, said)
    })
    .collect()
}

fn columns(series: &Series<'_>, axis: &LogAxis, tallest: f64, floor: &mut [u64]) -> Element {
    let scale = |n: u64| BOTTOM - n as f64 / tallest * (BOTTOM - TOP);
    let mut path = Path::default();
    for (bucket, n) in series.hist.used() {
        let (from, to) = axis.range(bucket_low(bucket), bucket_high(bucket));
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
        let (from, to) = axis.range(bucket_low(bucket), bucket_high(bucket));
        path.step("L", &[from, height(below as f64 / whole)]);
        below = below.saturating_add(n);
        path.step("L", &[to, height(below as f64 / whole)]);
    }
    path.step("L", &[RIGHT, TOP]);
    let names = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")];
    let names = names.map(|(part, name)| {
        let place = (RIGHT + 5.0, height(part) + 4.0);
        text("tick", place, "start", name)
    });
    names
        .into_iter()
        .fold(path.drawn("upto").into(), Markup::and)
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
    for one in series.iter().filter(|_| series.len() > 1) {
        let part = one.hist.count() as f64 / all.count().max(1) as f64;
        said.extend(["; ", one.name, " ", &share(part)]);
    }
    said
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_distribution_shows_what_there_is_and_names_the_ceiling() {
        let mut hist = LogHist::default();
        assert_eq!(distribution("gap", &[], 0), None);
        (1..1_000).for_each(|n| hist.record(n * 300));
        let series = Series {
            name: "gap",
            class: "s-gap",
            hist: &hist,
        };
        let made = distribution("gap", &[series], 200_000).unwrap();
        for part in [
            "ceiling 200 us",
            "999 values, half of them within",
            ">10 us<",
            ">100 us<",
        ] {
            assert!(made.as_str().contains(part), "{part}: {made:?}");
        }
        assert!(!made.as_str().contains("NaN") && !made.as_str().contains("inf"));
    }

    #[test]
    fn round_values_are_at_or_above() {
        for (value, round) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (3.0, 5.0),
            (10.0, 10.0),
            (51.0, 100.0),
        ] {
            assert!((round_up(value) - round).abs() < 1e-9, "{value}");
        }
    }
}
