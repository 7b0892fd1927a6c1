//! A metric: its name, unit and samples, and how they are written.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::Value;

use super::{Buckets, Format};
use crate::figure::{Leaf, Unit};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until its program starts again.
    Counter,
    Gauge,
    Histogram,
    /// Texts in labels, with the value 1.
    Info,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name, without `_total` or `_info`.
    pub name: String,
    pub kind: Kind,
    /// Its unit, the last word of its name; empty if it has none.
    pub unit: &'static str,
    pub help: &'static str,
}

impl Declared {
    pub fn sample(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Info => format!("{}_info", self.name),
            Kind::Gauge | Kind::Histogram => self.name.clone(),
        }
    }
}

/// The metric of a figure; `None` of what is no number.
pub fn declared(kind: Kind, prefix: &str, leaf: &Leaf) -> Option<Declared> {
    let figure = leaf.figure;
    let (ours, unit) = match figure.unit {
        Unit::Count | Unit::Number | Unit::Real | Unit::Amount | Unit::PerSecond | Unit::Flag => {
            ("", "")
        }
        Unit::Nanos | Unit::MeanNanos | Unit::Buckets => ("_ns", "seconds"),
        Unit::Share => ("_share", "ratio"),
        Unit::CpuPercent => ("_percent", "ratio"),
        Unit::Bytes => ("_bytes", "bytes"),
        Unit::Microjoules => ("_uj", "joules"),
        _ => return None,
    };
    let path = leaf.path.join("_");
    let stem = path.strip_suffix(ours).unwrap_or(&path);
    let end = if unit.is_empty() { "" } else { "_" };
    Some(Declared {
        name: format!("{prefix}_{stem}{end}{unit}"),
        kind: if figure.unit == Unit::Buckets {
            Kind::Histogram
        } else {
            kind
        },
        unit,
        help: figure.meaning(),
    })
}

#[derive(Debug)]
pub(super) enum Sample {
    /// A number, in the unit of its figure.
    One(Value, Unit),
    Buckets(Buckets),
}

impl Sample {
    pub(super) fn lines(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Buckets(buckets) => buckets.lines(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Family {
    pub(super) declared: Declared,
    pub(super) samples: Vec<(Rc<str>, Sample)>,
    labelled: HashSet<Rc<str>>,
}

impl Family {
    pub(super) fn new(declared: Declared) -> Self {
        Self {
            declared,
            samples: Vec::new(),
            labelled: HashSet::new(),
        }
    }

    /// Adds a sample; refuses one of a series that has one.
    pub(super) fn add(&mut self, labels: &Rc<str>, sample: Sample) -> bool {
        let is_new = self.labelled.insert(Rc::clone(labels));
        if is_new {
            self.samples.push((Rc::clone(labels), sample));
        }
        is_new
    }

    pub(super) fn render(&self, format: Format, text: &mut String) {
        self.describe(format, text);
        let name = self.declared.sample();
        for (labels, sample) in &self.samples {
            match sample {
                Sample::One(value, unit) => {
                    line(text, &name, labels, &number(value, *unit));
                }
                Sample::Buckets(buckets) => buckets.render(&name, labels, text),
            }
        }
    }

    fn describe(&self, format: Format, text: &mut String) {
        let Declared {
            name, kind, unit, ..
        } = &self.declared;
        // Code stands between backquotes in documents.
        let help = self.declared.help.replace('`', "");
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let (name, kind, help) = match format {
            Format::OpenMetrics => (name.clone(), kind.as_str(), help.replace('"', "\\\"")),
            // It knows no unit and no info, and a counter by the name of its samples.
            Format::Prometheus if *kind == Kind::Info => (self.declared.sample(), "gauge", help),
            Format::Prometheus => (self.declared.sample(), kind.as_str(), help),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if format == Format::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
    }
}

pub(super) fn line(text: &mut String, name: &str, labels: &str, value: &str) {
    text.push_str(name);
    if !labels.is_empty() {
        text.push('{');
        text.push_str(labels);
        text.push('}');
    }
    text.push(' ');
    text.push_str(value);
    text.push('\n');
}

/// A number in the base unit of its figure; whole ones lose nothing.
fn number(value: &Value, unit: Unit) -> String {
    let float = || value.as_f64().unwrap_or(f64::NAN);
    match (unit, value.as_u64()) {
        (Unit::Nanos, Some(ns)) => shifted(ns, 9),
        (Unit::Microjoules, Some(uj)) => shifted(uj, 6),
        (Unit::Nanos | Unit::MeanNanos, _) => real(float() / 1e9),
        (Unit::CpuPercent, _) => real(float() / 100.0),
        (Unit::Share | Unit::Real | Unit::PerSecond, _) => real(float()),
        (_, Some(whole)) => whole.to_string(),
        _ => real(float()),
    }
}

/// A whole number with its point moved to the left, without zeros at the end.
pub(super) fn shifted(value: u64, places: u32) -> String {
    let one = 10_u64.pow(places);
    let (whole, rest) = (value / one, value % one);
    if rest == 0 {
        return format!("{whole}.0");
    }
    let text = format!("{whole}.{rest:0places$}", places = places as usize);
    text.trim_end_matches('0').to_owned()
}

fn real(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    format!("{value:?}")
}
