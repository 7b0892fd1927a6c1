//! Metrics shown beside a command's own work: at an address and in a file, with systemd told that the command is alive.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use haltwise_host::clock;

use super::address::{Address, Listener};
use super::exposition::{Exposition, MOST_SERIES};
use super::server::Server;
use super::textfile::Textfile;
use crate::exit::Failure;
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
        let directories = [
            self.listener.as_ref().and_then(Listener::directory),
            self.textfile.as_ref().and_then(Textfile::directory),
        ];
        directories
            .into_iter()
            .flatten()
            .map(PathBuf::from)
            .collect()
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
