//! Where metrics are served: a TCP port of loopback, or a unix socket.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, anyhow};

use crate::exit::{Exit, Failure};

pub(crate) const PORT: u16 = 9477;

const LOCAL_ONLY: &str = "metrics are served without authentication, and name every VM: only a loopback address \
                          (127.0.0.1:PORT, [::1]:PORT) or unix:PATH is accepted. For other hosts use a proxy with TLS, \
                          or --textfile and node_exporter";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Default for Address {
    fn default() -> Self {
        Self::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() && path.file_name().is_some() {
                Ok(Self::Unix(path))
            } else {
                Err("expected an absolute path after unix:".to_owned())
            };
        }
        // No other name is looked up: it could mean any address.
        let text = text.strip_prefix("localhost:").map_or_else(
            || text.to_owned(),
            |port| format!("{}:{port}", Ipv4Addr::LOCALHOST),
        );
        let address: SocketAddr = text
            .parse()
            .map_err(|_| "expected 127.0.0.1:PORT, [::1]:PORT or unix:PATH".to_owned())?;
        if address.ip().is_loopback() {
            Ok(Self::Tcp(address))
        } else {
            Err(format!("not a loopback address: {LOCAL_ONLY}"))
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/metrics"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens. It is made before rights are given up, since `socket` and `bind` are refused after that.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(super) socket: OwnedFd,
    /// Where it listens; instead of port 0 the port that it was given.
    pub(crate) address: Address,
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> Result<Self, Failure> {
        let bound = match address {
            Address::Tcp(address) => TcpListener::bind(address).and_then(|socket| {
                let address = Address::Tcp(socket.local_addr()?);
                Ok((OwnedFd::from(socket), address))
            }),
            Address::Unix(path) => unix(path).map(|socket| (socket.into(), address.clone())),
        };
        let made = bound.and_then(|(socket, address)| {
            rustix::io::ioctl_fionbio(&socket, true)?;
            Ok(Self { socket, address })
        });
        made.with_context(|| format!("listen on {address}"))
            .map_err(|error| {
                Failure::new(Exit::Failed, error)
                    .hint("another process may listen there: choose another address with --listen")
            })
    }

    /// The directory that its name is in: it is removed there at the end.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match &self.address {
            Address::Tcp(_) => None,
            Address::Unix(path) => path.parent(),
        }
    }
}

/// A unix socket for its owner alone. One that a killed process has left is replaced; one that answers, and what is
/// no socket, are left alone.
fn unix(path: &Path) -> io::Result<UnixListener> {
    use rustix::fs::{FileType, Mode};
    if let Ok(found) = rustix::fs::lstat(path) {
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(io::Error::other(anyhow!("it is there, and is no socket")));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        rustix::fs::unlink(path)?;
    }
    let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(mask);
    listener
}
