//! What the pilot shows beside its log: its state as metrics, and to systemd that it is alive.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use haltwise_host::clock;

use crate::exit::Failure;
use crate::exporter::address::{Address, Listener};
use crate::exporter::exposition::Exposition;
use crate::exporter::server::Server;
use crate::exporter::textfile::Textfile;
use crate::pilot_state::{PilotStatus, metrics};
use crate::service::Notifier;
use crate::terminal;

/// Where metrics are shown.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Where requests come.
    pub(crate) listen: Option<Address>,
    pub(crate) textfile: Option<PathBuf>,
    /// The most series of VMs.
    pub(crate) max_series: usize,
}

/// Its state, and when it was that.
type State = Option<(PilotStatus, u64)>;

#[derive(Debug)]
pub(super) struct Serving {
    notifier: Notifier,
    state: Arc<Mutex<State>>,
    exposition: Arc<Exposition>,
    textfile: Option<Textfile>,
    listener: Option<Listener>,
    server: Option<Server>,
}

impl Serving {
    /// Binds the address: `serve` answers.
    pub(super) fn bind(shown: &Shown) -> Result<Self, Failure> {
        let notifier = Notifier::connect().context("reach systemd by NOTIFY_SOCKET")?;
        let listener = shown.listen.as_ref().map(Listener::bind).transpose()?;
        let textfile = shown.textfile.as_deref().map(Textfile::new).transpose()?;
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        let exposition = Exposition::new(shown.max_series).with(move |rendered| {
            let state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((status, at_ns)) = &*state {
                let age_ns = clock::monotonic_ns().saturating_sub(*at_ns);
                metrics::add(rendered, status, age_ns);
            }
        });
        Ok(Self {
            notifier,
            state,
            exposition: Arc::new(exposition),
            textfile,
            listener,
            server: None,
        })
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = PathBuf> {
        let directories = [
            self.listener.as_ref().and_then(Listener::directory),
            self.textfile.as_ref().and_then(Textfile::directory),
        ];
        directories.into_iter().flatten().map(PathBuf::from)
    }

    pub(super) fn listens(&self) -> bool {
        self.listener.is_some()
    }

    /// Answers from now on, in a thread that has the rights that are left.
    pub(super) fn serve(&mut self) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        terminal::say(&format!("Serving metrics on {}.", listener.address()));
        self.server = Some(Server::start(listener, Arc::clone(&self.exposition))?);
        Ok(())
    }

    /// It works now, by the configuration that it has.
    pub(super) fn ready(&self) {
        self.notifier.ready();
    }

    pub(super) fn reloading(&self) {
        self.notifier.reloading();
    }

    pub(super) fn shows(&self, status: &PilotStatus) {
        if let Some(line) = &status.last_decision {
            self.notifier.status(line);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = Some((status.clone(), clock::monotonic_ns()));
    }

    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        self.notifier.alive();
        let now_ns = clock::monotonic_ns();
        match &mut self.textfile {
            Some(textfile) => textfile.turn(&self.exposition, now_ns),
            None => Ok(()),
        }
    }

    pub(super) fn stop(&mut self) {
        self.notifier.stopping();
        self.server = None;
        self.listener = None;
        self.textfile = None;
    }
}
