//! The boxes of a flame graph: callers above what they call, each as wide as its share.

use haltwise_core::profile::tree::{Kind, Node};
use haltwise_document::html::bars::at;
use haltwise_document::html::markup::{Element, Markup, el, short};

use crate::number::share;
use crate::page::fit;
use crate::words::plural;

pub(crate) const WIDTH: f64 = 1_160.0;
const ROW: f64 = 18.0;
/// A letter in a box: monospace, at 11 units.
const LETTER: f64 = 6.6;

pub(crate) const KINDS: [(&str, &str); 5] = [
    ("f-guest", "guest"),
    ("f-kernel", "kernel"),
    ("f-user", "VMM"),
    ("f-exit", "exit that was being handled"),
    ("f-who", "VM, thread"),
];

/// Boxes narrower than this are left out, with all behind them, and deeper rows: they are seen only enlarged.
const NARROWEST: f64 = 1.0;
const MOST_ROWS: usize = 60;

#[derive(Debug)]
pub(crate) struct Flame {
    pub(crate) boxes: Markup,
    pub(crate) height: f64,
}

pub(crate) fn flame(root: &Node) -> Flame {
    let mut drawing = Drawing {
        boxes: Vec::new(),
        whole: root.all.weight.max(1) as f64,
        deepest: 0,
    };
    drawing.node(root, 0, 0);
    Flame {
        boxes: drawing.boxes.into_iter().collect(),
        height: ROW * (drawing.deepest + 1) as f64,
    }
}

struct Drawing {
    boxes: Vec<Element>,
    whole: f64,
    deepest: usize,
}

impl Drawing {
    /// Draws a node whose left edge lies behind so much weight, and everything below it.
    fn node(&mut self, node: &Node, before: u64, depth: usize) {
        let width = node.all.weight as f64 / self.whole * WIDTH;
        if width < NARROWEST || depth >= MOST_ROWS {
            return;
        }
        self.deepest = self.deepest.max(depth);
        let (x, y) = (before as f64 / self.whole * WIDTH, ROW * depth as f64);
        let part = share(node.all.weight as f64 / self.whole);
        let samples = plural(node.all.samples, "sample");
        let module = match node.step.module.as_str() {
            "" => String::new(),
            module => format!(" ({})", short(module)),
        };
        let title = format!("{}{module}: {samples}, {part}", short(&node.step.name));
        let drawn = el("rect")
            .class(class(node.step.kind))
            .attr("x", at(x))
            .attr("y", at(y))
            .attr("width", at(width))
            .attr("height", at(ROW - 1.0))
            .with(el("title").with(title));
        self.boxes.push(drawn);
        if let Some(name) = fitting(&node.step.name, width - 6.0) {
            let text = el("text").attr("x", at(x + 3.0)).attr("y", at(y + 12.5));
            self.boxes.push(text.with(name));
        }
        let mut before = before;
        for child in &node.children {
            self.node(child, before, depth + 1);
            before = before.saturating_add(child.all.weight);
        }
    }
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Guest => "f-guest",
        Kind::Kernel => "f-kernel",
        Kind::User => "f-user",
        Kind::Exit => "f-exit",
        _ => "f-who",
    }
}

/// As much of a name as has room; `None` if that is not three letters.
fn fitting(name: &str, width: f64) -> Option<String> {
    let name = short(name);
    let letters = name.chars().count();
    let room = (3..=letters)
        .rev()
        .find(|room| *room as f64 * LETTER <= width)?;
    Some(fit(&name, room))
}
