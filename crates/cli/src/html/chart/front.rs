//! Polling against latency: what can be had, and where the settings stand.

use super::axis::round_up;
use super::{Path, at, figure, line, text};
use crate::html::markup::{Element, Markup, el};
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
    let mut svg = figure(WIDTH, HEIGHT, &label(places))
        .attr("id", "front")
        .attr("data-poll", poll)
        .attr("data-late", late);
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (right, up) = (x(poll * part), y(late * part));
        let percent = format!("{} %", three_digits(poll * part));
        svg = svg
            .with(line("grid", (right, TOP), (right, BOTTOM)))
            .with(line("grid", (LEFT, up), (RIGHT, up)))
            .with(text("tick", (right, BOTTOM + 15.0), "middle", &percent))
            .with(text(
                "tick",
                (LEFT - 5.0, up + 4.0),
                "end",
                &nanos_f64(late * part),
            ));
    }
    let title = "polling, % of one CPU, all vCPUs together";
    svg = svg
        .with(text(
            "tick",
            (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0),
            "middle",
            title,
        ))
        .with(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))
        .with(line("axis", (LEFT, TOP), (LEFT, BOTTOM)));
    svg = svg.with(joined(places, &x, &y));
    for place in places {
        let dot = el("circle")
            .class(place.class)
            .attr("cx", at(x(place.poll_cpu_percent)))
            .attr("cy", at(y(place.latency_ns)))
            .attr("r", if place.name.is_empty() { 2.5 } else { 6.0 });
        let title = (!place.name.is_empty()).then(|| el("title").with(place.name));
        svg = svg.with(dot.with(title));
    }
    let named = places.iter().filter(|place| !place.name.is_empty());
    let named = named.map(|place| (x(place.poll_cpu_percent), y(place.latency_ns), place.name));
    svg.with(names(named.collect())).into()
}

fn joined(places: &[Place], x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> Element {
    let mut front: Vec<&Place> = places
        .iter()
        .filter(|place| place.class == "front")
        .collect();
    front.sort_by(|a, b| a.poll_cpu_percent.total_cmp(&b.poll_cpu_percent));
    let mut path = Path::default();
    for (n, place) in front.into_iter().enumerate() {
        let step = if n == 0 { "M" } else { "L" };
        path.step(step, &[x(place.poll_cpu_percent), y(place.latency_ns)]);
    }
    path.drawn("front-line")
}

/// Description of the figure, for readers who do not see it.
fn label(places: &[Place]) -> String {
    let named = places.iter().filter(|place| !place.name.is_empty());
    let named: Vec<String> = named
        .map(|place| {
            let polls = share(place.poll_cpu_percent / 100.0);
            let late = nanos_f64(place.latency_ns);
            format!(
                "{} polls {polls} of a CPU, wake-up latency {late}",
                place.name
            )
        })
        .collect();
    format!("Polling against wake-up latency: {}", named.join("; "))
}

/// Names beside their signs, none upon another.
fn names(mut named: Vec<(f64, f64, &str)>) -> Markup {
    const HEIGHT: f64 = 13.0;
    named.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    let mut out = Markup::none();
    for (x, y, name) in named {
        let width = 6.6 * name.len() as f64 + 6.0;
        let is_left = x > f64::midpoint(LEFT, RIGHT);
        let from = if is_left { x - 10.0 - width } else { x + 10.0 };
        let meets = |y: f64, other: &(f64, f64, f64)| {
            from < other.1 && other.0 < from + width && (y - other.2).abs() < HEIGHT
        };
        let mut height = (y - 6.0).clamp(TOP + 10.0, BOTTOM - 4.0);
        let step = if y > f64::midpoint(TOP, BOTTOM) {
            -HEIGHT
        } else {
            HEIGHT
        };
        while taken.iter().any(|other| meets(height, other)) {
            height += step;
        }
        taken.push((from, from + width, height));
        let (anchor, place) = if is_left {
            ("end", x - 10.0)
        } else {
            ("start", x + 10.0)
        };
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
