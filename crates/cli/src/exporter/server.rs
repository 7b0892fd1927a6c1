//! The server of metrics: one thread, a few connections, each with one small request that must come soon.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use haltwise_document::openmetrics::Format;
use haltwise_host::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::Timespec;

use crate::exit::{Exit, Failure};
use crate::exporter::serving::Exposition;
use crate::time::nanos;

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 16;

/// From the connection to the end of its answer.
const MOST_TIME: Duration = Duration::from_secs(5);

/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Server {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to serve. To be called when rights have been given up: threads inherit what is left.
    pub(crate) fn start(listener: Listener, exposition: Arc<Exposition>) -> Result<Self, Failure> {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let serve = move || {
            let mut serving = Serving {
                listener,
                exposition,
                connections: Vec::new(),
            };
            while !until.load(Ordering::Relaxed) {
                serving.turn();
            }
            if let Address::Unix(path) = &serving.listener.address {
                // Best effort: the next one to listen replaces it.
                let _ = rustix::fs::unlink(path);
            }
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(serve)
            .context("start the thread that serves metrics")?;
        Ok(Self {
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

struct Serving {
    listener: Listener,
    exposition: Arc<Exposition>,
    connections: Vec<Connection>,
}

impl Serving {
    fn turn(&mut self) {
        // A connection without a request keeps no other client out.
        let is_full = self.connections.len() >= CONNECTIONS && self.oldest_idle().is_none();
        let waits = self.connections.iter();
        let mut waits: Vec<PollFd<'_>> = waits
            .map(|it| PollFd::new(&it.stream, it.waits_for()))
            .collect();
        waits.extend((!is_full).then(|| PollFd::new(&self.listener.socket, PollFlags::IN)));
        let timeout = Timespec::try_from(LOOK).ok();
        if poll(&mut waits, timeout.as_ref()).is_err() {
            // Interrupted by a signal; anything else must not become a busy loop.
            std::thread::sleep(Duration::from_millis(10));
            return;
        }
        let came: Vec<bool> = waits.iter().map(|it| !it.revents().is_empty()).collect();
        drop(waits);
        let now_ns = clock::monotonic_ns();
        let exposition = &self.exposition;
        let mut came_of_each = came.iter().copied();
        self.connections.retain_mut(|connection| {
            let came = came_of_each.next().unwrap_or(false);
            let goes_on = !came || connection.turn(exposition).unwrap_or(false);
            let is_late = goes_on && now_ns >= connection.until_ns;
            if is_late {
                exposition.refused();
            }
            goes_on && !is_late
        });
        if !is_full && came.last() == Some(&true) {
            // Where there are too many, the oldest whose request has not come ends.
            let oldest = self.oldest_idle();
            if let Some(oldest) = oldest.filter(|_| self.connections.len() >= CONNECTIONS) {
                drop(self.connections.remove(oldest));
                self.exposition.refused();
            }
            self.accept(now_ns);
        }
    }

    fn oldest_idle(&self) -> Option<usize> {
        self.connections.iter().position(|it| it.answer.is_empty())
    }

    fn accept(&mut self, now_ns: u64) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(&self.listener.socket, flags) {
            Ok(stream) => self.connections.push(Connection {
                stream: File::from(stream),
                until_ns: now_ns.saturating_add(nanos(MOST_TIME)),
                request: Vec::new(),
                answer: Vec::new(),
                written: 0,
            }),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            // Out of descriptors: the connection stays in the queue and would be reported at once again.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

struct Connection {
    /// A socket, read and written as a file is: SIGPIPE is ignored in every Rust program.
    stream: File,
    until_ns: u64,
    request: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
}

impl Connection {
    fn waits_for(&self) -> PollFlags {
        let is_read = self.answer.is_empty();
        if is_read {
            PollFlags::IN
        } else {
            PollFlags::OUT
        }
    }

    fn turn(&mut self, exposition: &Exposition) -> io::Result<bool> {
        if self.answer.is_empty() && !self.reads(exposition)? {
            return Ok(false);
        }
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.written += count,
                Err(error) if is_later(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(self.answer.is_empty())
    }

    /// Reads until the request is whole; false if the other end has gone.
    fn reads(&mut self, exposition: &Exposition) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        loop {
            let count = match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if is_later(&error) => return Ok(true),
                Err(error) => return Err(error),
            };
            let room = LONGEST.saturating_sub(self.request.len());
            self.request.extend_from_slice(&bytes[..count.min(room)]);
            if let Some(asked) = read(&self.request) {
                if let Asked::Refused(_) = asked {
                    exposition.refused();
                }
                self.answer = answer(asked, |format| exposition.render(format));
                return Ok(true);
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// The largest head of a request, in bytes.
pub(super) const LONGEST: usize = 8 << 10;

const HEADERS: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Metrics, with their text or without (`HEAD`).
    Metrics {
        format: Format,
        with_body: bool,
    },
    Index,
    /// Nothing that is answered: the status that says why.
    Refused(&'static str),
}

const MALFORMED: &str = "400 Bad Request";
/// Its host is not this one: a page of another site asks by way of a browser.
const FOREIGN: &str = "403 Forbidden";
const NOT_FOUND: &str = "404 Not Found";
/// Only reading is possible.
const METHOD: &str = "405 Method Not Allowed";
/// Its head is longer than any that is needed, or has a header too many.
const TOO_LONG: &str = "431 Request Header Fields Too Large";

/// Request in these bytes; `None` if the rest has yet to come.
pub(super) fn read(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(asked(&request)),
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some(Asked::Refused(TOO_LONG))
        }
        Err(_) => Some(Asked::Refused(MALFORMED)),
    }
}

fn asked(request: &httparse::Request<'_, '_>) -> Asked {
    let header = |name: &str| {
        let mut all = request.headers.iter();
        let found = all.find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    if header("host").is_some_and(|host| !is_here(host)) {
        return Asked::Refused(FOREIGN);
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Asked::Refused(METHOD),
    };
    let path = request.path.unwrap_or_default();
    match path.split('?').next() {
        Some("/metrics") => {
            let wants = |accept: &str| accept.contains("application/openmetrics-text");
            let format = if header("accept").is_some_and(wants) {
                Format::OpenMetrics
            } else {
                Format::Prometheus
            };
            Asked::Metrics { format, with_body }
        }
        Some("/") => Asked::Index,
        _ => Asked::Refused(NOT_FOUND),
    }
}

fn is_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |it: std::net::IpAddr| it.is_loopback();
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(is_loopback)
}

pub(super) fn answer(asked: Asked, metrics: impl FnOnce(Format) -> String) -> Vec<u8> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, text, with_body) = match asked {
        Asked::Metrics { format, with_body } => {
            ("200 OK", format.media_type(), metrics(format), with_body)
        }
        Asked::Index => ("200 OK", PLAIN, "haltwise: see /metrics\n".to_owned(), true),
        Asked::Refused(why) => (why, PLAIN, format!("{why}\n"), true),
    };
    let allow = if asked == Asked::Refused(METHOD) {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut bytes = head.into_bytes();
    if with_body {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

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

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    fn asks(text: &str) -> Option<Asked> {
        read(text.as_bytes())
    }

    #[test]
    fn what_is_asked_for() {
        let metrics = |format| Asked::Metrics {
            format,
            with_body: true,
        };
        let get = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9477\r\n";
        assert_eq!(asks(get), None);
        assert_eq!(
            asks(&format!("{get}\r\n")),
            Some(metrics(Format::Prometheus))
        );
        let open = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n\r\n";
        assert_eq!(
            asks(&format!("{get}{open}")),
            Some(metrics(Format::OpenMetrics))
        );
        assert_eq!(asks("GET / HTTP/1.0\r\n\r\n"), Some(Asked::Index));
        for (text, why) in [
            ("GET /x HTTP/1.1\r\n\r\n", NOT_FOUND),
            ("POST /metrics HTTP/1.1\r\n\r\n", METHOD),
            (
                "GET /metrics HTTP/1.1\r\nHost: evil.example:9477\r\n\r\n",
                FOREIGN,
            ),
            ("nonsense\r\n\r\n", MALFORMED),
        ] {
            assert_eq!(asks(text), Some(Asked::Refused(why)), "{text}");
        }
        let long = format!("{get}X: {}", "x".repeat(LONGEST));
        assert_eq!(asks(&long), Some(Asked::Refused(TOO_LONG)));
        let many = format!("{get}{}\r\n", "X: 1\r\n".repeat(HEADERS + 1));
        assert_eq!(asks(&many), Some(Asked::Refused(TOO_LONG)));
    }

    #[test]
    fn hosts_that_are_this_one() {
        for host in [
            "localhost",
            "127.0.0.1:1",
            "[::1]:9477",
            "LOCALHOST:80",
            "127.1.2.3",
            "",
        ] {
            assert!(is_here(host), "{host}");
        }
        for host in "example.com 127.0.0.1.example.com:80 10.0.0.1 [::2]:80".split(' ') {
            assert!(!is_here(host), "{host}");
        }
    }

    proptest! {
        /// Whatever comes, an answer has the length that it says, and only `GET /metrics` shows metrics.
        #[test]
        fn an_answer_is_as_long_as_it_says(bytes in prop::collection::vec(any::<u8>(), 0..300), get in any::<bool>()) {
            let mut request = if get { b"GET /metrics HTTP/1.1\r\n".to_vec() } else { Vec::new() };
            request.extend(bytes);
            if let Some(asked) = read(&request) {
                let answer = String::from_utf8(answer(asked, |_| "secret 1\n".to_owned())).unwrap();
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                let said = format!("Content-Length: {}\r\n", body.len());
                let is_head = matches!(asked, Asked::Metrics { with_body: false, .. });
                prop_assert!(head.contains(&said) || is_head);
                let shows = matches!(asked, Asked::Metrics { with_body: true, .. });
                prop_assert_eq!(body.contains("secret"), shows);
            }
        }
    }
}
