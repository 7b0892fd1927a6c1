//! The served text: sources add metrics, which are rendered on request, with the cost of rendering.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haltwise_document::openmetrics::{Format, Kind, Labels, Metrics};
use haltwise_host::clock;

use super::figures::{ScrapeState, ScrapeTotals};

pub(crate) const MOST_SERIES: usize = 10_000;

pub(crate) struct Exposition {
    most_series: usize,
    add: Box<dyn Fn(&mut Metrics) + Send + Sync>,
    cost: Mutex<ScrapeTotals>,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most_series;
        write!(f, "Exposition({most} series)")
    }
}

impl Exposition {
    /// Room for so many series of VMs.
    pub(crate) fn new(
        most_series: usize,
        add: impl Fn(&mut Metrics) + Send + Sync + 'static,
    ) -> Self {
        Self {
            most_series,
            add: Box::new(add),
            cost: Mutex::default(),
        }
    }

    /// The text of this moment. What this very text costs is in the next.
    pub(crate) fn render(&self, format: Format) -> String {
        let before_ns = clock::thread_cpu_ns();
        let mut metrics = Metrics::new(self.most_series);
        (self.add)(&mut metrics);
        let mut cost = *self.cost();
        let state = ScrapeState {
            series: metrics.series() as u64,
        };
        let left_out = metrics.left_out() as u64;
        cost.left_out_series = (cost.left_out_series).saturating_add(left_out);
        metrics.add(Kind::Counter, PREFIX, &Labels::none(), &cost);
        metrics.add(Kind::Gauge, PREFIX, &Labels::none(), &state);
        let text = metrics.render(format);
        // Another thread may have rendered meanwhile: counters only ever go on.
        let used_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
        let mut known = self.cost();
        known.renders = known.renders.saturating_add(1);
        known.render_cpu_ns = known.render_cpu_ns.saturating_add(used_ns);
        known.left_out_series = (known.left_out_series).saturating_add(left_out);
        text
    }

    pub(super) fn refused(&self) {
        let mut cost = self.cost();
        cost.refused_requests = cost.refused_requests.saturating_add(1);
    }

    fn cost(&self) -> MutexGuard<'_, ScrapeTotals> {
        self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) const PREFIX: &str = "haltwise_exporter";
