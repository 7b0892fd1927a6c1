//! The exporter: counts this host's halts and serves them, until a signal ends it.
//!
//! The shown figures and the server are in [`crate::exporter`]; the pilot does the same beside its own work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haltwise_core::event::Facts;
use haltwise_document::openmetrics::Format;
use haltwise_host::collector::Collector;
use haltwise_host::params::{Look, Watch};
use haltwise_host::root::Root;
use haltwise_host::sandbox::Duties;
use haltwise_host::usage::Slow;
use haltwise_host::{clock, host_sample};

use crate::collect::attach::{self, explain};
use crate::collect::interrupt::Interrupt;
use crate::collect::watching::{ToWatch, Watching};
use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::figures::BuildNames;
use crate::exporter::serving::{Exposition, Served, Serving};
use crate::exporter::watched::{KEPT_NS, Watched};
use crate::terminal;

/// Between two drains: so long a VM must run to be known by its name.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) once: Option<Format>,
    pub(crate) served: Served,
    pub(crate) watch: ToWatch,
}

pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let mut serving = Serving::bind(&wanted.served)?;
    let mut counting = Counting::attach(&wanted.watch, Root::host())?;
    let watched = Arc::clone(&counting.watched);
    let exposition = Exposition::new(wanted.served.max_series, move |metrics| {
        let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.add_to(metrics);
    });
    let exposition = Arc::new(exposition);
    counting.confine(&serving);
    let source = counting.collector.rung();
    let more = format!(", by {source}; Ctrl-C to end");
    serving.serve(&exposition, &more)?;
    if let Some(path) = &wanted.served.textfile {
        let path = path.display();
        terminal::say(&format!("Writing metrics to {path} every 15 s{more}."));
    }
    serving.notifier.ready();
    serving.notifier.status(&format!("counting by {source}"));
    loop {
        counting.turn()?;
        if let Some(format) = wanted.once
            && (counting.has_run(wanted.watch.interval) || interrupt.came().is_some())
        {
            counting.end()?;
            terminal::print(&exposition.render(format))?;
            return Ok(Exit::Done);
        }
        if interrupt.came().is_some() {
            break;
        }
        serving.turn(&exposition)?;
        counting.collector.wait(DRAIN).map_err(explain)?;
    }
    serving.stop();
    Ok(Exit::Done)
}

struct Counting {
    collector: Box<dyn Collector>,
    root: Root,
    watch: Watch,
    slow: Slow,
    watched: Arc<Mutex<Watched>>,
    began_ns: u64,
    sampled_ns: u64,
}

/// Between two looks at the host's state and settings.
const SAMPLE_NS: u64 = 1_000_000_000;

impl Counting {
    fn attach(wanted: &ToWatch, root: Root) -> Result<Self, Failure> {
        let Watching {
            collector,
            exits,
            began_ns,
            missing,
            ..
        } = wanted.begin(&root)?;
        let host = attach::this_host(&root);
        let build = BuildNames {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: collector.rung().as_str().to_owned(),
            mode: wanted.mode.as_str().to_owned(),
            host: host.hostname.unwrap_or_default(),
            kernel: host.kernel_release,
        };
        let names = exits.map(|exits| exits.names());
        Ok(Self {
            watched: Arc::new(Mutex::new(Watched::new(build, missing, names))),
            collector,
            watch: Watch::default(),
            slow: Slow::open(&root),
            root,
            began_ns,
            sampled_ns: 0,
        })
    }

    fn confine(&mut self, serving: &Serving) {
        let duties = Duties {
            writes: &serving.writes(),
            serves: serving.listens(),
            ..Duties::default()
        };
        attach::confine(&mut *self.collector, &self.root, duties);
    }

    fn has_run(&self, interval: Duration) -> bool {
        let run_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        Duration::from_nanos(run_ns) >= interval
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let mut facts = Facts::default();
        self.collector.drain(&mut facts).map_err(explain)?;
        self.take(&facts);
        let now_ns = clock::monotonic_ns();
        if now_ns.saturating_sub(self.sampled_ns) >= SAMPLE_NS {
            self.sampled_ns = now_ns;
            self.sample();
        }
        self.collector.forget_ended(now_ns.saturating_sub(KEPT_NS));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let mut facts = Facts::default();
        self.collector.end(&mut facts).map_err(explain)?;
        self.collector.stop(&mut facts).map_err(explain)?;
        self.take(&facts);
        self.sample();
        Ok(())
    }

    fn take(&mut self, facts: &Facts) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.facts(facts, self.collector.roster(), clock::monotonic_ns());
    }

    /// Files that cannot be read now may be readable next time.
    fn sample(&mut self) {
        let kernel_cpu_ns = self.collector.kernel_cpu_ns();
        let knobs = (self.watch).changes(&self.root, Look::All, clock::monotonic_ns);
        let sample = host_sample::read(&self.root, kernel_cpu_ns);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.knobs(&knobs.unwrap_or_default());
        let mut facts = Facts::default();
        if let Ok(sample) = sample {
            self.slow.add(&self.root, sample, false, &mut facts);
        }
        for sample in facts.host {
            watched.host(sample, self.collector.added_ns_per_halt());
        }
    }
}
