//! Polling against latency: what can be had, and where the settings stand.

use super::{Path, at, figure, line, round_up, text};
use crate::html::markup::{Markup, el};
use crate::number::{nanos_f64, share, three_digits};

/// Size of the figure; the page's script draws into the same field.
pub(crate) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 530.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 296.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) class: &'static str,
    /// Name of the setting; empty for the points between.
    pub(crate) name: &'static str,
    pub(crate) poll_cpu_percent: f64,
    /// Mean wake-up latency, in nanoseconds.
    pub(crate) latency_ns: f64,
}

/// Draws them. Points of class `front` are joined, in the order of their polling.
pub(crate) fn front(places: &[Place]) -> Markup {
    let most = |of: fn(&Place) -> f64| places.iter().map(of).fold(0.0, f64::max);
    let poll = round_up(most(|place| place.poll_cpu_percent).max(0.1));
    let late = round_up(most(|place| place.latency_ns).max(100.0));
    let x = |percent: f64| LEFT + percent / poll * (RIGHT - LEFT);
    let y = |ns: f64| BOTTOM - ns / late * (BOTTOM - TOP);
    let at_place = |place: &Place| (x(place.poll_cpu_percent), y(place.latency_ns));
    let mut svg = figure(WIDTH, HEIGHT, &label(places))
        .attr("id", "front")
        .attr("data-poll", poll)
        .attr("data-late", late);
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (right, up) = (x(poll * part), y(late * part));
        let percent = format!("{} %", three_digits(poll * part));
        let latency = nanos_f64(late * part);
        svg = svg
            .with(line("grid", (right, TOP), (right, BOTTOM)))
            .with(line("grid", (LEFT, up), (RIGHT, up)))
            .with(text("tick", (right, BOTTOM + 15.0), "middle", &percent))
            .with(text("tick", (LEFT - 5.0, up + 4.0), "end", &latency));
    }
    let title = "polling, % of one CPU, all vCPUs together";
    let below = (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0);
    svg = svg
        .with(text("tick", below, "middle", title))
        .with(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))
        .with(line("axis", (LEFT, TOP), (LEFT, BOTTOM)));
    let joined = places.iter().filter(|place| place.class == "front");
    let mut joined: Vec<(f64, f64)> = joined.map(at_place).collect();
    joined.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut path = Path::default();
    for (n, (x, y)) in joined.into_iter().enumerate() {
        path.step(if n == 0 { "M" } else { "L" }, &[x, y]);
    }
    svg = svg.with(path.drawn("front-line"));
    for place in places {
        let (x, y) = at_place(place);
        let dot = el("circle")
            .class(place.class)
            .attr("cx", at(x))
            .attr("cy", at(y))
            .attr("r", if place.name.is_empty() { 2.5 } else { 6.0 });
        let title = (!place.name.is_empty()).then(|| el("title").with(place.name));
        svg = svg.with(dot.with(title));
    }
    let named = named(places).map(|place| (at_place(place), place.name));
    svg.with(names(named.collect())).into()
}

fn named(places: &[Place]) -> impl Iterator<Item = &Place> {
    places.iter().filter(|place| !place.name.is_empty())
}

/// Description of the figure, for readers who do not see it.
fn label(places: &[Place]) -> String {
    let named = named(places).map(|place| {
        let polls = share(place.poll_cpu_percent / 100.0);
        let late = nanos_f64(place.latency_ns);
        let name = place.name;
        format!("{name} polls {polls} of a CPU, wake-up latency {late}")
    });
    let named: Vec<String> = named.collect();
    format!("Polling against wake-up latency: {}", named.join("; "))
}

/// Names beside their signs, none upon another.
fn names(mut named: Vec<((f64, f64), &str)>) -> Markup {
    const HEIGHT: f64 = 13.0;
    named.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    let mut out = Markup::none();
    for ((x, y), name) in named {
        let width = 6.6 * name.len() as f64 + 6.0;
        let (anchor, place, from) = if x > f64::midpoint(LEFT, RIGHT) {
            ("end", x - 10.0, x - 10.0 - width)
        } else {
            ("start", x + 10.0, x + 10.0)
        };
        let meets = |y: f64, other: &(f64, f64, f64)| {
            from < other.1 && other.0 < from + width && (y - other.2).abs() < HEIGHT
        };
        let mut height = (y - 6.0).clamp(TOP + 10.0, BOTTOM - 4.0);
        let is_low = y > f64::midpoint(TOP, BOTTOM);
        while taken.iter().any(|other| meets(height, other)) {
            height += if is_low { -HEIGHT } else { HEIGHT };
        }
        taken.push((from, from + width, height));
        out.push(text("place-name", (place, height), anchor, name));
    }
    out
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_stand_apart_and_points_in_the_field() {
        let place = |name, poll_cpu_percent, latency_ns| Place {
            class: "front",
            name,
            poll_cpu_percent,
            latency_ns,
        };
        let made = front(&[
            place("one", 50.0, 1_000.0),
            place("another", 50.5, 1_010.0),
            place("a third", 51.0, 990.0),
            place("", 0.0, 0.0),
        ]);
        let text = made.as_str();
        let mut heights: Vec<&str> = text
            .split("<text class=\"place-name\"")
            .skip(1)
            .filter_map(|part| part.split(" y=\"").nth(1)?.split('"').next())
            .collect();
        heights.sort_unstable();
        heights.dedup();
        assert_eq!(heights.len(), 3, "{text}");
        assert!(
            text.contains("data-poll=\"100\"") && text.contains("data-late=\"1000\"")
                || text.contains("data-late=\"2000\"")
        );
        assert!(!text.contains("NaN"));
    }
}
