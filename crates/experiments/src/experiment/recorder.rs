//! `haltwise` as a process: found, started on this host's VMs, ended, asked.
//!
//! The lab knows nothing of tracing. Whatever it says of a recording is what `haltwise` printed.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context as _, anyhow, bail, ensure};
use haltwise_core::units::Nanos;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use haltwise_lab::clock;

/// So long it may take to load its programs; so long to end.
const PATIENCE: Nanos = Nanos(20_000_000_000);
/// Between two looks at whether it has.
const LOOK_AGAIN: Nanos = Nanos(50_000_000);

#[derive(Debug, Clone)]
pub struct Haltwise(PathBuf);

impl Haltwise {
    /// The program named, else the one beside this one, else the first in `PATH`.
    pub fn find(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = named {
            ensure!(path.is_file(), "`{}` is not there", path.display());
            return Ok(Self(path.to_owned()));
        }
        let beside = std::env::current_exe().ok();
        let beside = beside.map(|own| own.with_file_name("haltwise"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join("haltwise"));
        let mut candidates = beside.into_iter().chain(in_path);
        let found = candidates.find(|candidate| candidate.is_file());
        let found = found.map(Self);
        found.context("`haltwise` is neither beside this program nor in PATH (--haltwise)")
    }

    /// Starts recording every halt and exit of this host's VMs, and waits until it does.
    pub fn record(&self, mode: &str) -> anyhow::Result<Recording> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let mut child = Command::new(&self.0)
            .args(["record", "--json", "--exits", "--mode", mode, "-o"])
            .arg(folder.path().join("capture"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start `{}`", self.0.display()))?;
        let stderr = child.stderr.take().context("its stderr is gone")?;
        let mut recording = Recording {
            child,
            folder,
            stderr,
        };
        recording.wait_for_start()?;
        Ok(recording)
    }

    /// JSON output of a haltwise verb. Lost data (exit code 5) is no failure here.
    pub fn ask(&self, arguments: &[&str], capture: &Path) -> anyhow::Result<Value> {
        let verb = arguments.first().copied().unwrap_or_default();
        let output = Command::new(&self.0)
            .args(arguments)
            .arg(capture)
            .arg("--json")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start `{}`", self.0.display()))?;
        if !matches!(output.status.code(), Some(0 | 5)) {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`haltwise {verb}`: {}", said.trim());
        }
        let document = serde_json::from_slice(&output.stdout);
        document.with_context(|| format!("`haltwise {verb}` printed no JSON"))
    }
}

/// A recording that goes on until it is ended or dropped.
#[derive(Debug)]
pub struct Recording {
    child: Child,
    folder: tempfile::TempDir,
    stderr: ChildStderr,
}

impl Recording {
    pub fn capture(&self) -> PathBuf {
        self.folder.path().join("capture")
    }

    /// It says on stderr that it records, or why it cannot.
    fn wait_for_start(&mut self) -> anyhow::Result<()> {
        let (said, status) = self.wait("begin", |said| said.contains("Recording"))?;
        ensure!(status.is_none(), "`haltwise record`: {}", said.trim());
        Ok(())
    }

    /// Ends it, as Ctrl-C does, and waits until the capture is whole.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may have ended meanwhile: its status says so.
        let _sent = pid.map(|pid| kill_process(pid, Signal::INT));
        let (said, status) = self.wait("end", |_| false)?;
        let failed = status.filter(|status| !matches!(status.code(), Some(0 | 5)));
        failed.map_or(Ok(()), |status| {
            let why = said.trim();
            Err(anyhow!("`haltwise record` ended with {status}: {why}"))
        })
    }

    /// Waits until it has said what is wanted, or has ended; gives what it said, and its status if it has ended.
    fn wait(
        &mut self,
        what: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> anyhow::Result<(String, Option<ExitStatus>)> {
        let until = clock::now_ns().saturating_add(PATIENCE.0);
        let mut said = String::new();
        loop {
            let status = self.child.try_wait();
            let status = status.context("wait for `haltwise record`")?;
            said.push_str(&self.heard(LOOK_AGAIN));
            if status.is_some() || is_it(&said) {
                return Ok((said, status));
            }
            ensure!(
                clock::now_ns() < until,
                "`haltwise record` did not {what} within {PATIENCE}"
            );
        }
    }

    /// Text that the recorder writes to stderr within a time; empty if there is none or the recorder has ended.
    fn heard(&mut self, within: Nanos) -> String {
        if !clock::wait_readable(&self.stderr, Some(within)).unwrap_or(false) {
            // A pipe whose writer has gone is never readable, and never waited for.
            std::thread::sleep(std::time::Duration::from_nanos(within.0 / 10));
            return String::new();
        }
        let mut chunk = [0; 512];
        let n = self.stderr.read(&mut chunk).unwrap_or(0);
        String::from_utf8_lossy(&chunk[..n]).into_owned()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _killed = self.child.kill();
            let _status = self.child.wait();
        }
    }
}
