//! What is served: who adds metrics, rendered when somebody asks, with what that cost.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haltwise_document::openmetrics::{Format, Kind, Labels, Metrics};
use haltwise_host::clock;

use super::figures::Scrapes;

/// The most series where no other number is specified.
pub(crate) const MOST_SERIES: usize = 10_000;

type Adds = Box<dyn Fn(&mut Metrics) + Send + Sync>;

pub(crate) struct Exposition {
    most_series: usize,
    adds: Vec<Adds>,
    cost: Mutex<Scrapes>,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most_series;
        write!(f, "Exposition({most} series)")
    }
}

impl Exposition {
    /// Nothing yet but its own cost, and room for so many series of VMs.
    pub(crate) fn new(most_series: usize) -> Self {
        Self {
            most_series,
            adds: Vec::new(),
            cost: Mutex::default(),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, add: impl Fn(&mut Metrics) + Send + Sync + 'static) -> Self {
        self.adds.push(Box::new(add));
        self
    }

    /// The text of this moment. What this very text costs is in the next.
    pub(crate) fn render(&self, format: Format) -> String {
        let before_ns = clock::thread_cpu_ns();
        let mut metrics = Metrics::new(self.most_series);
        self.adds.iter().for_each(|add| add(&mut metrics));
        let mut cost = *self.cost();
        cost.series = metrics.series() as u64;
        let left_out = metrics.left_out() as u64;
        cost.left_out_series = (cost.left_out_series).saturating_add(left_out);
        metrics.add(Kind::Counter, PREFIX, &Labels::none(), &cost.counters());
        metrics.add(Kind::Gauge, PREFIX, &Labels::none(), &cost.gauges());
        let text = metrics.render(format);
        // Another thread may have rendered meanwhile: counters only ever go on.
        let used_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
        let mut known = self.cost();
        known.renders = known.renders.saturating_add(1);
        known.render_cpu_ns = known.render_cpu_ns.saturating_add(used_ns);
        known.series = cost.series;
        known.left_out_series = (known.left_out_series).saturating_add(left_out);
        text
    }

    /// A request was refused, or did not come in time.
    pub(super) fn refused(&self) {
        let mut cost = self.cost();
        cost.refused_requests = cost.refused_requests.saturating_add(1);
    }

    fn cost(&self) -> MutexGuard<'_, Scrapes> {
        self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What metrics of this program itself begin with.
pub(super) const PREFIX: &str = "haltwise_exporter";
