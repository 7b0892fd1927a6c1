//! Program for the tests with a Linux guest: loads that run inside the guest, and QMP for its emulated host.
//!
//! Small, and without dependencies: it goes into two initramfs. Its arguments are not for people.

#![forbid(unsafe_code)]

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["qmp", socket, commands @ ..] => qmp(socket, commands),
        ["timer", period_us, count] => {
            timer(Duration::from_micros(number(period_us)?), number(count)?);
            Ok(())
        }
        ["pipe", count] => pipe(number(count)?),
        ["echo"] => echo(io::stdin().lock(), io::stdout().lock()),
        ["respond", port] => respond(port),
        ["request", address, count] => request(address, number(count)?),
        _ => Err(io::Error::other(format!("not understood: {words:?}"))),
    }
}

fn number(word: &str) -> io::Result<u64> {
    word.parse().map_err(io::Error::other)
}

fn timer(period: Duration, count: u64) {
    for _ in 0..count {
        thread::sleep(period);
    }
}

/// Sends a byte through a pipe to a process on the second CPU and waits for it to come back. The caller
/// has bound us to the first.
fn pipe(count: u64) -> io::Result<()> {
    let mut other = Command::new("taskset")
        .args(["2", "guest-tool", "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut to), Some(mut from)) = (other.stdin.take(), other.stdout.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    round_trips(count, || {
        to.write_all(b"x")?;
        from.read_exact(&mut [0])
    })?;
    drop(to);
    other.wait().map(|_| ())
}

fn echo(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = [0; 64];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..count])?;
        to.flush()?;
    }
}

fn respond(port: &str) -> io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    let (client, _) = listener.accept()?;
    client.set_nodelay(true)?;
    echo(client.try_clone()?, client)
}

/// Sends bytes to an echo, one by one; waits for it to listen.
fn request(address: &str, count: u64) -> io::Result<()> {
    const TRIES: u32 = 200;
    let connect = || {
        let stream = TcpStream::connect(address);
        stream.inspect_err(|_| thread::sleep(Duration::from_millis(50)))
    };
    let mut stream = (1..TRIES)
        .find_map(|_| connect().ok())
        .map_or_else(connect, Ok)?;
    stream.set_nodelay(true)?;
    round_trips(count, || {
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])
    })
}

/// Makes round trips one after the other, and prints percentiles of their times. To stderr: callers have JSON on stdout.
fn round_trips(count: u64, mut once: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut took = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        once()?;
        took.push(begun.elapsed().as_micros());
    }
    took.sort_unstable();
    let percentile = |percent| took.get(took.len() * percent / 100).copied().unwrap_or(0);
    let (p50, p99) = (percentile(50), percentile(99));
    writeln!(io::stderr(), "p50_us={p50} p99_us={p99}")
}

/// Gives QEMU commands, each a name or an object, and prints a line with the answer to each.
fn qmp(socket: &str, commands: &[&str]) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut ask = |command: &str| -> io::Result<String> {
        writeln!(stream, "{command}")?;
        // The greeting and events stand between the answers.
        let is_answer = |line: &io::Result<String>| {
            let line = line.as_deref().unwrap_or("{\"error\"");
            line.starts_with("{\"return\"") || line.starts_with("{\"error\"")
        };
        let answer = lines.find(is_answer);
        answer.unwrap_or_else(|| Err(io::Error::other("QEMU has closed its socket")))
    };
    ask("{\"execute\": \"qmp_capabilities\"}")?;
    for command in commands {
        let answer = if command.starts_with('{') {
            ask(command)?
        } else {
            ask(&format!("{{\"execute\": \"{command}\"}}"))?
        };
        writeln!(io::stdout(), "{answer}")?;
        if answer.starts_with("{\"error\"") {
            return Err(io::Error::other(format!("QEMU refused {command}")));
        }
    }
    Ok(())
}
