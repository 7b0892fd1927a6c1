//! The stacks as a picture of its own: a flame graph in SVG that needs nothing else to be read, no script and no
//! font.

use haltwise_core::profile::tree::Node;
use haltwise_document::html::bars::at;
use haltwise_document::html::markup::{Markup, el};

use super::flame::{Detail, KINDS, LETTER, WIDTH, flame};

/// Around the graph, in user units.
const MARGIN: f64 = 10.0;
const TOP: f64 = 58.0;

/// A picture can be enlarged: it has more than the page.
const DETAIL: Detail = Detail {
    narrowest: 0.3,
    rows: 300,
};

/// What the picture is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
}

pub(crate) fn render(root: &Node, about: About<'_>) -> String {
    let flame = flame(root, DETAIL);
    let (width, height) = (WIDTH + 2.0 * MARGIN, TOP + flame.height + 30.0);
    let left_out = match flame.left_out {
        0 => String::new(),
        boxes => format!(" {boxes} boxes too narrow or too deep to see are left out."),
    };
    let below = format!(
        "Wider is more; callers stand above what they call. Rest the pointer on a box for its name and \
         share.{left_out}"
    );
    let page = el("rect")
        .class("page")
        .attr("width", "100%")
        .attr("height", "100%");
    let graph = el("g").attr("transform", format!("translate({MARGIN} {TOP})"));
    let svg = el("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {} {}", at(width), at(height)))
        .attr("width", at(width))
        .attr("height", at(height))
        .attr("role", "img")
        .with(el("title").with(about.title))
        .with(el("style").with(Markup::ours(STYLE)))
        .with(page)
        .with(text("head", MARGIN, 22.0, about.title))
        .with(text("sub", MARGIN, 40.0, about.subtitle))
        .with(legend())
        .with(graph.with(flame.boxes))
        .with(text("sub", MARGIN, height - 10.0, &below));
    let svg = Markup::from(svg);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
        svg.as_str()
    )
}

fn text(class: &'static str, x: f64, y: f64, text: &str) -> Markup {
    let element = el("text").class(class).attr("x", at(x)).attr("y", at(y));
    element.with(text).into()
}

/// Colours for light pages and for dark ones; text in boxes is dark on both.
const STYLE: &str = "
text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #16202e }
.head { font-size: 16px; font-weight: bold }
.head, .key { fill: #222 }
.sub { fill: #555 }
.page { fill: #fdfdfc }
g > text { pointer-events: none }
g > rect { stroke: #fdfdfc; stroke-width: 0.6 }
g > rect:hover { stroke: #000; stroke-width: 1.4 }
.f-guest { fill: #a9d6a0 }
.f-kernel { fill: #f3b98c }
.f-user { fill: #a3c8ec }
.f-exit { fill: #d3b3e8 }
.f-who { fill: #cfd3d9 }
@media (prefers-color-scheme: dark) {
.page { fill: #16181c }
.head, .key { fill: #e8e8e8 }
.sub { fill: #a8a8a8 }
g > rect { stroke: #16181c }
g > rect:hover { stroke: #fff }
}
";

fn legend() -> Markup {
    let mut x = MARGIN + WIDTH;
    let mut legend = Markup::none();
    for (class, name) in KINDS.iter().rev() {
        x -= LETTER * name.len() as f64 + 26.0;
        let box_ = el("rect").class(class).attr("x", at(x)).attr("y", 12);
        legend.push(box_.attr("width", 12).attr("height", 12));
        legend.push(text("key", x + 16.0, 22.0, name));
    }
    legend
}
