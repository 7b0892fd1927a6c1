//! Metrics shown beside a command's own work: at an address and in a file, with systemd told that the command is alive.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, anyhow};
use haltwise_capture::files::output::{self, Readers};
use haltwise_document::openmetrics::{Format, Kind, Labels, Metrics};
use haltwise_host::clock;

use crate::exit::{Exit, Failure};
use crate::exporter::figures::{ScrapeState, ScrapeTotals};
use crate::exporter::server::Server;
use crate::exporter::server::{Address, Listener};
use crate::service::Notifier;
use crate::terminal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) listen: Option<Address>,
    pub(crate) textfile: Option<PathBuf>,
    pub(crate) max_series: usize,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            listen: None,
            textfile: None,
            max_series: MOST_SERIES,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) notifier: Notifier,
    listener: Option<Listener>,
    textfile: Option<Textfile>,
    server: Option<Server>,
}

impl Serving {
    pub(crate) fn bind(served: &Served) -> Result<Self, Failure> {
        Ok(Self {
            notifier: Notifier::connect().context("reach systemd by NOTIFY_SOCKET")?,
            listener: served.listen.as_ref().map(Listener::bind).transpose()?,
            textfile: (served.textfile.as_deref().map(Textfile::new)).transpose()?,
            server: None,
        })
    }

    pub(crate) fn writes(&self) -> Vec<PathBuf> {
        let listened = self.listener.as_ref().and_then(Listener::directory);
        let written = self.textfile.as_ref().and_then(|it| it.path.parent());
        let both = listened.into_iter().chain(written);
        both.map(PathBuf::from).collect()
    }

    pub(crate) fn listens(&self) -> bool {
        self.listener.is_some()
    }

    /// Answers from now on, in a thread that has the rights that are left. `more` is said behind the address.
    pub(crate) fn serve(
        &mut self,
        exposition: &Arc<Exposition>,
        more: &str,
    ) -> Result<(), Failure> {
        if let Some(listener) = self.listener.take() {
            terminal::say(&format!("Serving metrics on {}{more}.", listener.address));
            self.server = Some(Server::start(listener, Arc::clone(exposition))?);
        }
        Ok(())
    }

    pub(crate) fn turn(&mut self, exposition: &Exposition) -> Result<(), Failure> {
        self.notifier.alive();
        let now_ns = clock::monotonic_ns();
        match &mut self.textfile {
            Some(textfile) => textfile.turn(exposition, now_ns),
            None => Ok(()),
        }
    }

    pub(crate) fn stop(&mut self) {
        self.notifier.stopping();
        self.server = None;
        self.listener = None;
        self.textfile = None;
    }
}

/// How often it is written: as often as Prometheus looks, by its default.
pub(crate) const EVERY_NS: u64 = 15_000_000_000;

#[derive(Debug)]
pub(crate) struct Textfile {
    path: PathBuf,
    written_ns: Option<u64>,
    /// It was written by this program, and may be removed.
    is_ours: bool,
    has_failed: bool,
}

impl Textfile {
    /// A file of this name, which is not there yet.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let usage = |error| {
            Failure::new(Exit::Usage, error).hint(
                "node_exporter reads *.prom in the directory of --collector.textfile.directory",
            )
        };
        if path.extension().is_none_or(|end| end != "prom") {
            let error = anyhow!("{}: the name must end in .prom", path.display());
            return Err(usage(error));
        }
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let directory = std::fs::canonicalize(parent)
            .with_context(|| format!("find the directory of {}", path.display()))
            .map_err(usage)?;
        Ok(Self {
            path: directory.join(path.file_name().unwrap_or_default()),
            written_ns: None,
            is_ours: false,
            has_failed: false,
        })
    }

    /// Writes it if it is time: whole, or not at all. The first time must succeed; a later failure, as of a full disk,
    /// is reported once and ends nothing.
    pub(crate) fn turn(&mut self, exposition: &Exposition, now_ns: u64) -> Result<(), Failure> {
        let is_due = |at: u64| now_ns.saturating_sub(at) >= EVERY_NS;
        if !self.written_ns.is_none_or(is_due) {
            return Ok(());
        }
        self.written_ns = Some(now_ns);
        let text = exposition.render(Format::Prometheus);
        let written = output::write(&self.path, text.as_bytes(), Readers::Umask)
            .with_context(|| format!("write {}", self.path.display()));
        let has_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        match written {
            Err(error) if !self.is_ours => Err(Failure::new(Exit::Failed, error)
                .hint("the directory must be writable to haltwise, and to no other user")),
            Err(error) => {
                if !has_failed {
                    terminal::say(&format!("warning: {error:#}"));
                }
                Ok(())
            }
            Ok(()) => {
                self.is_ours = true;
                Ok(())
            }
        }
    }
}

impl Drop for Textfile {
    /// Removes it: node_exporter would show the last counts for ever.
    fn drop(&mut self) {
        if self.is_ours {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

pub(crate) const MOST_SERIES: usize = 10_000;

pub(crate) struct Exposition {
    most_series: usize,
    add: Box<dyn Fn(&mut Metrics) + Send + Sync>,
    cost: Mutex<ScrapeTotals>,
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
