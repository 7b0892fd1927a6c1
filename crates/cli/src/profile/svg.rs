//! The stacks as a picture: a flame graph in SVG that needs nothing else to be read, no script and no
//! font of its own.
//!
//! The outermost is at the top, and each box is as wide as its share. What a box is, how many samples
//! it holds and what share that is, its title tells where a pointer rests on it.

use std::fmt::Write;

use haltwise_core::profile::tree::{Kind, Node};

use crate::number::share;

/// Of the picture, in user units.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const MARGIN: f64 = 10.0;
const TOP: f64 = 58.0;
/// A letter of the text in boxes: monospace, at 12 units.
const LETTER: f64 = 7.25;
/// Boxes narrower than this are left out, with all behind them.
const NARROWEST: f64 = 0.3;
/// Deeper rows are left out.
const ROWS: usize = 300;

/// What the picture is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
}

/// Draws the tree.
pub(crate) fn render(root: &Node, about: About<'_>) -> String {
    let mut drawing = Drawing {
        boxes: String::new(),
        whole: root.all.weight.max(1),
        deepest: 0,
        left_out: 0,
    };
    drawing.node(root, 0, 0);
    let rows = drawing.deepest + 1;
    let height = TOP + ROW * rows as f64 + 30.0;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n{STYLE}\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"22\">{}</text>\n\
         <text class=\"sub\" x=\"{MARGIN}\" y=\"40\">{}</text>\n",
        escape(about.title),
        escape(about.title),
        escape(about.subtitle),
    );
    legend(&mut svg);
    svg.push_str(&drawing.boxes);
    let left_out = match drawing.left_out {
        0 => String::new(),
        boxes => format!(" {boxes} boxes too narrow or too deep to see are left out."),
    };
    let _ = writeln!(
        svg,
        "<text class=\"sub\" x=\"{MARGIN}\" y=\"{:.1}\">Wider is more; callers stand above what \
         they call. Rest the pointer on a box for its name and share.{left_out}</text>\n</svg>",
        height - 10.0,
    );
    svg
}

/// Colours for light pages and for dark ones; text in boxes is dark on both.
const STYLE: &str = "<style>\n\
    text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; \
    font-size: 12px; fill: #1b1b1b }\n\
    .head { font-size: 16px; font-weight: bold }\n\
    .head, .sub, .key { fill: #222 }\n\
    .sub { fill: #555 }\n\
    .page { fill: #fdfdfc }\n\
    rect.b { stroke: #fdfdfc; stroke-width: 0.6 }\n\
    g:hover > rect.b { stroke: #000; stroke-width: 1.4 }\n\
    @media (prefers-color-scheme: dark) {\n\
    .page { fill: #16181c }\n\
    .head, .key { fill: #e8e8e8 }\n\
    .sub { fill: #a8a8a8 }\n\
    rect.b { stroke: #16181c }\n\
    g:hover > rect.b { stroke: #fff }\n\
    }\n\
    </style>\n";

/// Kinds of boxes: hue, and what they are called.
const KINDS: [(Kind, u16, &str); 5] = [
    (Kind::Guest, 130, "guest"),
    (Kind::Kernel, 28, "kernel"),
    (Kind::User, 205, "VMM"),
    (Kind::Exit, 285, "exit"),
    (Kind::Thread, 0, "VM, thread"),
];

fn legend(svg: &mut String) {
    let mut x = WIDTH - MARGIN;
    for (kind, _, name) in KINDS.iter().rev() {
        x -= LETTER * name.len() as f64 + 26.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text class=\"key\" x=\"{:.1}\" y=\"22\">{name}</text>",
            colour(*kind, ""),
            x + 16.0,
        );
    }
}

/// A shade of the kind's hue that hangs on the name, so that neighbours differ and a function looks the
/// same wherever it stands.
fn colour(kind: Kind, name: &str) -> String {
    let known = KINDS.iter().find(|(one, _, _)| *one == kind);
    let hue = known.map_or(0, |(_, hue, _)| *hue);
    // FNV-1a.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (turn, shade) = (hash >> 32, hash >> 40);
    let saturation = match kind {
        Kind::Root | Kind::Vm | Kind::Thread | Kind::Unknown => 0,
        _ => 62,
    };
    let lightness = 68 + shade % 13;
    let hue = u64::from(hue) + turn % 21;
    format!("hsl({hue},{saturation}%,{lightness}%)")
}

struct Drawing {
    boxes: String,
    whole: u64,
    deepest: usize,
    left_out: u64,
}

impl Drawing {
    /// Draws a node whose left edge lies behind so much weight, and everything below it.
    fn node(&mut self, node: &Node, before: u64, depth: usize) {
        let scale = (WIDTH - 2.0 * MARGIN) / self.whole as f64;
        let width = node.all.weight as f64 * scale;
        if width < NARROWEST || depth >= ROWS {
            self.left_out += 1;
            return;
        }
        self.deepest = self.deepest.max(depth);
        let x = MARGIN + before as f64 * scale;
        let y = TOP + ROW * depth as f64;
        let part = node.all.weight as f64 / self.whole as f64;
        let step = &node.step;
        let module = if step.module.is_empty() {
            String::new()
        } else {
            format!(" ({})", step.module)
        };
        let _ = write!(
            self.boxes,
            "<g><title>{}{}: {} samples, {}</title><rect class=\"b\" x=\"{x:.2}\" y=\"{y:.1}\" \
             width=\"{width:.2}\" height=\"{:.1}\" rx=\"1.5\" fill=\"{}\"/>",
            escape(&step.name),
            escape(&module),
            node.all.samples,
            share(part),
            ROW - 1.0,
            colour(step.kind, &step.name),
        );
        if let Some(text) = fitting(&step.name, width - 6.0) {
            let _ = write!(
                self.boxes,
                "<text x=\"{:.2}\" y=\"{:.1}\">{}</text>",
                x + 3.0,
                y + 12.5,
                escape(&text),
            );
        }
        self.boxes.push_str("</g>\n");
        let mut before = before;
        for child in &node.children {
            self.node(child, before, depth + 1);
            before = before.saturating_add(child.all.weight);
        }
    }
}

/// As much of a name as has room; `None` if that is not three letters.
fn fitting(name: &str, width: f64) -> Option<String> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and a negative width has room for nothing"
    )]
    let room = (width / LETTER) as usize;
    if room < 3 {
        return None;
    }
    Some(crate::page::fit(name, room))
}

/// A text of a stranger inside XML: what ends a text or an attribute is written otherwise, and what no
/// XML may hold becomes U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // XML 1.0, 2.2: Char. What steers text in other ways is taken out too.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
