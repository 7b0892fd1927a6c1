//! Results as metrics: OpenMetrics 1.0, and the older text format of Prometheus, which node_exporter and
//! `promtool` read.
//!
//! A subject (a VM, the host) has a struct of counters and a struct of gauges, both declared by [`figures!`].
//! Name, unit and HELP of a metric come of the declaration: `polled_ns` in nanoseconds becomes
//! `PREFIX_polled_seconds`, and a counter ends in `_total`. What is not known (`None`) gives no sample, since a 0
//! would be a measurement. A histogram is a field of type [`Buckets`].
//!
//! [`figures!`]: crate::figures

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figure::{Figures, Leaf, Unit, leaves};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Prometheus,
}

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Debug)]
pub struct Metrics {
    families: Vec<Family>,
    by_name: HashMap<Rc<str>, usize>,
    most: usize,
    series: usize,
    left_out: usize,
}

impl Metrics {
    /// No metrics yet, and room for so many series of subjects that come by [`Metrics::subject`].
    pub fn new(most: usize) -> Self {
        Self {
            families: Vec::new(),
            by_name: HashMap::new(),
            most,
            series: 0,
            left_out: 0,
        }
    }

    /// Adds the figures of a result, as counters or as gauges; histograms are histograms either way. Texts and
    /// lists are left to others.
    pub fn add<R: Figures>(&mut self, kind: Kind, prefix: &str, labels: &Labels, result: &R) {
        let json = serde_json::to_value(result).unwrap_or_default();
        let labels = labels.text();
        for leaf in leaves(R::FIGURES) {
            let Some(declared) = declared(kind, prefix, &leaf) else {
                continue;
            };
            self.sample(&declared, &labels, &leaf, leaf.of(&json));
        }
    }

    /// Adds texts about a subject, which stand in the labels of a metric that is always 1.
    pub fn info(&mut self, name: &str, help: &'static str, labels: &Labels) {
        let declared = Declared {
            name: name.to_owned(),
            kind: Kind::Info,
            unit: "",
            help,
        };
        let sample = Sample::One(Value::from(1), Unit::Number);
        self.put(&declared, &labels.text(), sample);
    }

    /// Adds all that belongs to one subject, or nothing of it where that would be more series than there is room
    /// for.
    pub fn subject(&mut self, add: impl FnOnce(&mut Self)) {
        let mut own = Self::new(usize::MAX);
        add(&mut own);
        if self.series + own.series > self.most {
            self.left_out += own.series;
            return;
        }
        self.left_out += own.left_out;
        for family in own.families {
            for (labels, sample) in family.samples {
                self.put(&family.declared, &labels, sample);
            }
        }
    }

    pub fn series(&self) -> usize {
        self.series
    }

    /// How many series were left out: for want of room, or since others have the same name and labels.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    pub fn render(&self, format: Format) -> String {
        let mut text = String::with_capacity(self.series * 96);
        for family in &self.families {
            family.render(format, &mut text);
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn sample(&mut self, declared: &Declared, labels: &Rc<str>, leaf: &Leaf, value: &Value) {
        let sample = match leaf.figure.unit {
            Unit::Buckets => match Buckets::deserialize(value) {
                Ok(buckets) => Sample::Buckets(buckets),
                Err(_) => return,
            },
            unit => match value {
                Value::Bool(is) => Sample::One(u8::from(*is).into(), unit),
                Value::Number(_) => Sample::One(value.clone(), unit),
                _ => return,
            },
        };
        self.put(declared, labels, sample);
    }

    fn put(&mut self, declared: &Declared, labels: &Rc<str>, sample: Sample) {
        let known = self.by_name.get(&*declared.name).copied();
        let at = known.unwrap_or_else(|| {
            self.by_name
                .insert(declared.name.as_str().into(), self.families.len());
            self.families.push(Family::new(declared.clone()));
            self.families.len() - 1
        });
        let family = &mut self.families[at];
        debug_assert_eq!(&family.declared, declared, "two metrics have one name");
        let lines = sample.lines();
        if family.declared.kind == declared.kind && family.add(labels, sample) {
            self.series += lines;
        } else {
            self.left_out += lines;
        }
    }
}

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
enum Sample {
    One(Value, Unit),
    Buckets(Buckets),
}

impl Sample {
    fn lines(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Buckets(buckets) => buckets.lines(),
        }
    }
}

#[derive(Debug)]
struct Family {
    declared: Declared,
    samples: Vec<(Rc<str>, Sample)>,
    labelled: HashSet<Rc<str>>,
}

impl Family {
    fn new(declared: Declared) -> Self {
        Self {
            declared,
            samples: Vec::new(),
            labelled: HashSet::new(),
        }
    }

    /// Adds a sample; refuses one of a series that has one.
    fn add(&mut self, labels: &Rc<str>, sample: Sample) -> bool {
        let is_new = self.labelled.insert(Rc::clone(labels));
        if is_new {
            self.samples.push((Rc::clone(labels), sample));
        }
        is_new
    }

    fn render(&self, format: Format, text: &mut String) {
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

fn line(text: &mut String, name: &str, labels: &str, value: &str) {
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
fn shifted(value: u64, places: u32) -> String {
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

/// How many times lie below which bound.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Buckets {
    /// Rising bounds in nanoseconds, each with how many times are at most this.
    pub below: Vec<(u64, u64)>,
    pub count: u64,
    pub sum_ns: u64,
}

impl Buckets {
    /// A line for each bound, one without bound, sum and count.
    fn lines(&self) -> usize {
        self.below.len() + 3
    }

    fn render(&self, name: &str, labels: &str, text: &mut String) {
        let mut bucket = |bound: &str, count: u64| {
            let comma = if labels.is_empty() { "" } else { "," };
            let labels = format!("{labels}{comma}le=\"{bound}\"");
            line(text, &format!("{name}_bucket"), &labels, &count.to_string());
        };
        for (bound_ns, count) in &self.below {
            bucket(&bound(*bound_ns), *count);
        }
        bucket("+Inf", self.count);
        line(
            text,
            &format!("{name}_sum"),
            labels,
            &shifted(self.sum_ns, 9),
        );
        line(
            text,
            &format!("{name}_count"),
            labels,
            &self.count.to_string(),
        );
    }
}

/// A bound in seconds as OpenMetrics writes it: the shortest text of the number, with an exponent of two digits
/// below 0.0001.
fn bound(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if ns == 0 || seconds >= 1e-4 {
        return format!("{seconds:?}");
    }
    let text = format!("{seconds:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

/// Labels as they stand between braces; no two have one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(String);

impl Labels {
    pub fn none() -> Self {
        Self::default()
    }

    /// The figures of a result, each a label of its name; what is not known is none.
    pub fn of<R: Figures>(result: &R) -> Self {
        let json = serde_json::to_value(result).unwrap_or_default();
        let mut labels = Self::none();
        for leaf in leaves(R::FIGURES) {
            match leaf.of(&json) {
                Value::Null => {}
                Value::String(text) => labels.put(leaf.figure.name, text),
                other => labels.put(leaf.figure.name, &other.to_string()),
            }
        }
        labels
    }

    #[must_use]
    pub fn and(&self, name: &'static str, value: &str) -> Self {
        let mut more = self.clone();
        more.put(name, value);
        more
    }

    /// An empty label is none for those who read it.
    fn put(&mut self, name: &'static str, value: &str) {
        if value.is_empty() {
            return;
        }
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}{name}=\"{}\"", escaped(value));
    }

    fn text(&self) -> Rc<str> {
        self.0.as_str().into()
    }
}

/// A value as it stands between quotes. Control characters become U+FFFD: readers of the formats differ in what they
/// take NUL for.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push(char::REPLACEMENT_CHARACTER),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod test;
