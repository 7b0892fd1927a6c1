//! Results as metrics: OpenMetrics 1.0, and the older text format of Prometheus, which node_exporter and
//! `promtool` read.
//!
//! A subject (a VM, the host) has a struct of counters and a struct of gauges, both declared by [`figures!`].
//! Name, unit and HELP of a metric come of the declaration: `polled_ns` in nanoseconds becomes
//! `PREFIX_polled_seconds`, and a counter ends in `_total`. What is not known (`None`) gives no sample, since a 0
//! would be a measurement. A histogram is a field of type [`Buckets`].
//!
//! | file | holds |
//! |---|---|
//! | `family` | a metric's name, unit and samples |
//! | `buckets` | histograms of times |
//! | `labels` | what distinguishes series, escaped |
//!
//! [`figures!`]: crate::figures

mod buckets;
mod family;
mod labels;

use std::collections::HashMap;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;

pub use buckets::Buckets;
pub use family::{Declared, Kind, declared};
pub use labels::Labels;

use crate::figure::{Figures, Leaf, Unit, leaves};
use family::Family;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
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
        let sample = family::Sample::One(Value::from(1), Unit::Number);
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
                Ok(buckets) => family::Sample::Buckets(buckets),
                Err(_) => return,
            },
            unit => match value {
                Value::Bool(is) => family::Sample::One(u8::from(*is).into(), unit),
                Value::Number(_) => family::Sample::One(value.clone(), unit),
                _ => return,
            },
        };
        self.put(declared, labels, sample);
    }

    fn put(&mut self, declared: &Declared, labels: &Rc<str>, sample: family::Sample) {
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

#[cfg(test)]
mod test;
