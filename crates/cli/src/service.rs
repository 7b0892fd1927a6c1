//! Reports of a daemon to systemd: that it is ready, alive, reading its configuration, ending (`sd_notify(3)`).
//!
//! The socket is made before rights are given up, since `socket` is refused after that. Without `NOTIFY_SOCKET` all of
//! this does nothing.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use haltwise_host::clock;

#[derive(Debug)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often the watchdog wants to hear, and when it last did.
    watchdog: Option<(u64, u64)>,
}

impl Notifier {
    pub(crate) fn connect() -> io::Result<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET");
        let socket = name.as_deref().map(connected).transpose()?;
        let every_us = std::env::var("WATCHDOG_USEC").ok();
        let every_us = every_us.and_then(|text| text.parse::<u64>().ok());
        let is_us = std::env::var("WATCHDOG_PID")
            .ok()
            .is_none_or(|pid| pid == std::process::id().to_string());
        Ok(Self {
            watchdog: every_us
                .filter(|_| is_us && socket.is_some())
                // Half of its time, as `sd_watchdog_enabled(3)` advises.
                .map(|us| (us.saturating_mul(500), 0)),
            socket,
        })
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// It is alive: to be called in each turn; sends no more often than is needed.
    pub(crate) fn alive(&mut self) {
        let now_ns = clock::monotonic_ns();
        let Some((every_ns, last_ns)) = self.watchdog else {
            return;
        };
        if now_ns.saturating_sub(last_ns) >= every_ns {
            self.watchdog = Some((every_ns, now_ns));
            self.send("WATCHDOG=1");
        }
    }

    /// It reads its configuration again; [`Notifier::ready`] says that it is done.
    pub(crate) fn reloading(&self) {
        let us = clock::monotonic_ns() / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", text.replace('\n', " ")));
    }

    /// Best effort: a daemon does not end because no process listens.
    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
    }
}

fn connected(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
