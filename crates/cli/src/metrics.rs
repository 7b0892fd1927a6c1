//! The exporter: counts this host's halts and serves them, until a signal ends it.
//!
//! What it shows and how it serves is [`crate::exporter`]'s; the pilot does the same beside its own work.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use haltwise_core::event::Facts;
use haltwise_core::recording::Rung;
use haltwise_document::openmetrics::Format;
use haltwise_host::collector::Collector;
use haltwise_host::params::{Look, Watch};
use haltwise_host::root::Root;
use haltwise_host::usage::Slow;
use haltwise_host::{clock, host_sample, sandbox};

use crate::collect::attach::{self, explain};
use crate::collect::interrupt::Interrupt;
use crate::collect::watching::{ToWatch, Watching};
use crate::exit::{Exit, Failure, Outcome};
use crate::exporter::address::{Address, Listener};
use crate::exporter::exposition::Exposition;
use crate::exporter::figures::BuildNames;
use crate::exporter::server::Server;
use crate::exporter::textfile::Textfile;
use crate::exporter::watched::{KEPT_NS, Watched};
use crate::service::Notifier;
use crate::terminal;

/// Between two drains: so long a VM must run to be known by its name.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) enum Shown {
    Once(Format),
    Served {
        listen: Option<Address>,
        textfile: Option<PathBuf>,
    },
}

#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) shown: Shown,
    pub(crate) watch: ToWatch,
    /// The most series of VMs.
    pub(crate) max_series: usize,
}

pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let mut notifier = Notifier::connect().context("reach systemd by NOTIFY_SOCKET")?;
    let root = Root::host();
    let (listener, mut textfile) = match &wanted.shown {
        Shown::Once(_) => (None, None),
        Shown::Served { listen, textfile } => (
            listen.as_ref().map(Listener::bind).transpose()?,
            textfile.as_deref().map(Textfile::new).transpose()?,
        ),
    };
    let mut counting = Counting::attach(&wanted.watch, root)?;
    let watched = Arc::clone(&counting.watched);
    let exposition = Exposition::new(wanted.max_series).with(move |metrics| {
        let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.add_to(metrics);
    });
    let exposition = Arc::new(exposition);
    counting.confine(listener.as_ref(), textfile.as_ref());
    say(wanted, &counting, listener.as_ref());
    let server = listener.map(|listener| Server::start(listener, Arc::clone(&exposition)));
    let server = server.transpose()?;
    notifier.ready();
    notifier.status(&format!("counting by {}", counting.collector.rung()));
    loop {
        counting.turn()?;
        notifier.alive();
        let now_ns = clock::monotonic_ns();
        if let Shown::Once(format) = wanted.shown
            && (counting.has_run(wanted.watch.interval, now_ns) || interrupt.came().is_some())
        {
            counting.end()?;
            terminal::print(&exposition.render(format))?;
            return Ok(Exit::Done);
        }
        if interrupt.came().is_some() {
            break;
        }
        if let Some(textfile) = &mut textfile {
            textfile.turn(&exposition, now_ns)?;
        }
        counting.collector.wait(DRAIN).map_err(explain)?;
    }
    notifier.stopping();
    drop(server);
    Ok(Exit::Done)
}

fn say(wanted: &Wanted, counting: &Counting, listener: Option<&Listener>) {
    let source = counting.collector.rung();
    if let Some(listener) = listener {
        terminal::say(&format!(
            "Serving metrics on {}, by {source}; Ctrl-C to end.",
            listener.address()
        ));
    }
    if let Shown::Served {
        textfile: Some(path),
        ..
    } = &wanted.shown
    {
        terminal::say(&format!(
            "Writing metrics to {} every 15 s, by {source}; Ctrl-C to end.",
            path.display()
        ));
    }
}

/// A collector at work, and what it has brought so far.
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

    /// Gives up the rights that counting and serving do not take.
    fn confine(&mut self, listener: Option<&Listener>, textfile: Option<&Textfile>) {
        self.collector.confine();
        let writes = [
            listener.and_then(Listener::directory),
            textfile.and_then(Textfile::directory),
        ];
        let writes: Vec<PathBuf> = writes.into_iter().flatten().map(PathBuf::from).collect();
        let duties = sandbox::Duties {
            writes: &writes,
            names_functions: false,
            ends_command: false,
            opens_events: self.collector.rung() == Rung::Tracepoints,
            sets_ceilings: false,
            serves: listener.is_some(),
        };
        attach::say_kept(sandbox::recorder(&self.root, duties));
    }

    fn has_run(&self, interval: Duration, now_ns: u64) -> bool {
        Duration::from_nanos(now_ns.saturating_sub(self.began_ns)) >= interval
    }

    /// One drain, and a look at the host if it is time.
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

    /// What cannot be read now may be next time.
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
