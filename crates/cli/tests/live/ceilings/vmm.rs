//! VMMs that the tests of changes disturb: `small_vmm`, which does on command what VMMs do, and a QEMU.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::super::bench::{Bench, Running, haltwise};
use super::{has_qemu, library, qemu};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Preload,
    Crate,
    Nothing,
}

pub(crate) struct Vmm {
    process: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    said: PathBuf,
    before: (usize, usize),
}

impl Vmm {
    pub(crate) fn start(bench: &Bench, name: &str, by: By) -> Self {
        let program = haltwise().with_file_name("examples").join("small_vmm");
        let build = "cargo build -p haltwise-governor --examples";
        assert!(program.exists(), "{build}");
        let said = bench.path(name);
        let mut command = Command::new(program);
        match by {
            By::Preload => command.env("LD_PRELOAD", library()),
            By::Crate => command.arg("announce"),
            By::Nothing => &mut command,
        };
        let mut process = Running::start(
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(fs::File::create(&said).unwrap()),
        );
        let (stdin, stdout) = process.pipes();
        let mut vmm = Self {
            process,
            stdin,
            stdout: BufReader::new(stdout),
            said,
            before: (0, 0),
        };
        vmm.expect("ready");
        vmm.before = counts(vmm.id());
        vmm
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn command(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
        self.expect(if line == "exec" { "ready" } else { "done" });
    }

    fn expect(&mut self, answer: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), answer, "{:?}", fs::read_to_string(&self.said));
    }

    /// New fds and threads, and unexpected output, if any.
    pub(super) fn left(&self) -> Option<String> {
        left("small_vmm", self.id(), self.before, &self.said)
    }
}

/// A stock QEMU that is never started, with the preloaded library.
pub(super) struct Qemu {
    process: Running,
    monitor: BufReader<UnixStream>,
    said: PathBuf,
    before: (usize, usize),
}

impl Qemu {
    pub(crate) fn start(bench: &Bench) -> Option<Self> {
        has_qemu().then_some(())?;
        let (said, socket) = (bench.path("said.qemu"), bench.path("monitor"));
        let output = || fs::File::create(&said).unwrap();
        let process = Bench::vm(
            "reset",
            qemu("qemu-system-x86_64".as_ref(), "reset")
                .arg("-qmp")
                .arg(format!("unix:{},server=on,wait=off", socket.display()))
                .env("LD_PRELOAD", library())
                .stdout(output())
                .stderr(output()),
        );
        let monitor = BufReader::new(UnixStream::connect(socket).unwrap());
        let mut qemu = Self {
            process,
            monitor,
            said,
            before: (0, 0),
        };
        qemu.ask("qmp_capabilities", "return");
        qemu.before = counts(qemu.id());
        Some(qemu)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn reset(&mut self) {
        self.ask("system_reset", "event");
    }

    /// Has it do something, until it says so.
    fn ask(&mut self, command: &str, end: &str) {
        writeln!(self.monitor.get_mut(), r#"{{"execute":"{command}"}}"#).unwrap();
        loop {
            let mut line = String::new();
            self.monitor.read_line(&mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert!(answer["error"].is_null(), "{line}");
            if !answer[end].is_null() {
                return;
            }
        }
    }

    /// New fds and threads, and unexpected output, if any.
    pub(super) fn left(&self) -> Option<String> {
        left("QEMU", self.id(), self.before, &self.said)
    }
}

fn counts(pid: u32) -> (usize, usize) {
    let many = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    (many("fd"), many("task"))
}

fn left(who: &str, pid: u32, before: (usize, usize), said: &PathBuf) -> Option<String> {
    let (after, said) = (counts(pid), fs::read_to_string(said).unwrap());
    // QEMU's own, of the CPU of this host.
    let is_theirs = |line: &str| line.starts_with("qemu-system-x86_64: warning: host doesn't");
    let as_before = after == before && said.lines().all(is_theirs);
    (!as_before).then(|| format!("{who}: fds and threads {before:?}, then {after:?}; {said:?}"))
}
