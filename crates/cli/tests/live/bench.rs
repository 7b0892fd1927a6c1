//! The workbench of these tests: run the lab under the recorder, read both sides back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use haltwise_capture::capture::Capture;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::counted::Recorded;

/// Where recordings and the lab's output go.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    lab: PathBuf,
}

/// Why the tests of this file cannot run here, if they cannot.
fn obstacle(lab: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root: BPF cannot be loaded".into());
    }
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Some(format!("no use of /dev/kvm: {error}"));
    }
    if !lab.exists() {
        return Some(format!("{} is not built", lab.display()));
    }
    None
}

pub(crate) fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || is_so().then_some(()));
}

/// Asks until there is an answer. Nothing is asserted of how long that takes: a busy machine takes what it takes.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_mins(3), "never: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// Whether a thread that wants a CPU gets most of one: what a test says of shares of CPU time holds there alone.
pub(crate) fn gets_a_cpu() -> bool {
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanos = |time: rustix::time::Timespec| {
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    };
    let (began, before) = (std::time::Instant::now(), nanos(cpu()));
    while began.elapsed() < Duration::from_millis(500) {
        std::hint::spin_loop();
    }
    nanos(cpu()) - before > 400_000_000
}

/// Held while tests of this program run: those of another checkout would find VMs of the same names.
static ALONE: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::temp_dir().join("haltwise-live-tests");
    let file = File::options().append(true).create(true).open(path).ok()?;
    file.lock().ok().map(|()| file)
});

impl Bench {
    /// `None`, and the reason printed, where live tests cannot run.
    pub(crate) fn set_up() -> Option<Self> {
        LazyLock::force(&ALONE);
        let lab = haltwise().with_file_name("haltwise-lab");
        if let Some(reason) = obstacle(&lab) {
            println!("skipped: {reason}");
            return None;
        }
        Some(Self {
            dir: tempfile::tempdir().unwrap(),
            lab,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn lab(&self) -> Command {
        Command::new(&self.lab)
    }

    /// A VMM, once its VM of this name runs.
    pub(crate) fn vm(name: &str, vmm: &mut Command) -> Running {
        let vm = Running::start(vmm);
        Self::wait_for(name);
        vm
    }

    /// A guest of the lab, once its VM runs.
    pub(crate) fn guest(&self, name: &str, line: &str) -> Running {
        let mut lab = self.lab();
        lab.arg("run").args(words(line)).args(["--name", name]);
        Self::vm(name, lab.stdout(Stdio::null()))
    }

    /// A guest that halts every so often.
    pub(crate) fn keep_halting(&self, gap: &str, name: &str) -> Running {
        self.guest(name, &format!("{HALTING} --gap {gap}"))
    }

    /// The lab's report on guests that the lab runs to their end.
    pub(crate) fn lab_ran(&self, line: &str) -> Value {
        let mut lab = self.lab();
        let output = lab.args(["run", "--json"]).args(words(line)).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", told(&output));
        json(&output)
    }

    /// Waits until a VM of this name runs.
    pub(crate) fn wait_for(name: &str) {
        until_so(name, || {
            vms("status --check").iter().any(|vm| vm["name"] == name)
        });
    }

    /// Runs haltwise with the words of a line, where recordings go.
    pub(crate) fn ran(&self, line: &str) -> Output {
        let mut command = Command::new(haltwise());
        command.args(words(line)).current_dir(&self.dir);
        command.output().unwrap()
    }

    /// JSON output of a line that reads a recording, for which the kernel may have lost events.
    pub(crate) fn page(&self, line: &str) -> Value {
        let output = self.ran(line);
        has_recorded(&output);
        json(&output)
    }

    /// A recorder with these options, once it has begun to record.
    pub(crate) fn recorder(&self, name: &str, options: &str) -> Running {
        let recorder = Running::start(
            Command::new(haltwise())
                .args(["record", "--duration", "60s"])
                .args(words(options))
                .arg("-o")
                .arg(self.path(name))
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let file = self.path(name).join("capture.json");
        until_so(name, || file.exists());
        recorder
    }

    pub(crate) fn capture(&self, name: &str) -> Capture {
        Capture::open(&self.path(name)).unwrap()
    }

    pub(crate) fn record(&self, options: &str, lab: &str) -> Recorded {
        let output = Command::new(haltwise())
            .args(["record", "--json", "-o"])
            .arg(self.path("capture"))
            .args(words(options))
            .arg("--")
            .args(["sh", "-c", INTO_FILE, "sh"])
            .arg(self.path("lab.json"))
            .arg(&self.lab)
            .args(["run", "--json"])
            .args(words(lab))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(json(&output)["ended_by"], "command ended");
        let lab = std::fs::read_to_string(self.path("lab.json")).unwrap();
        Recorded {
            capture: self.capture("capture"),
            lab: serde_json::from_str(&lab).unwrap(),
        }
    }
}

/// Arguments of the lab: a guest that halts for longer than any test takes.
pub(crate) const HALTING: &str = "pingpong --duration 180s --host-wait block";

/// Runs a command with its output in a file: stdout is the recorder's.
pub(crate) const INTO_FILE: &str = r#"out=$1; shift; exec "$@" >"$out""#;

/// Loss of the tracepoint source on some kernels, 6.18 at rest among them; the halts themselves stay exact.
pub(crate) const LOST_WAKE_UPS: &str = "wake-up or sleep counted but not recorded";

pub(crate) fn haltwise() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_haltwise"))
}

/// Runs haltwise with the words of a line.
pub(crate) fn ran(line: &str) -> Output {
    let mut command = Command::new(haltwise());
    command.args(words(line)).output().unwrap()
}

/// The VMs that `status` lists, or `status --check`.
pub(crate) fn vms(verb: &str) -> Vec<Value> {
    let told = json(&ran(&format!("{verb} --json")));
    told["vms"].as_array().unwrap().clone()
}

#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)))
}

/// A program of ours that is ended with the test, however the test ends.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.id();
        kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
    }

    /// The stderr of the process, which must be a pipe.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.0.as_mut().unwrap().stderr.take().unwrap()
    }

    /// Its stdin and stdout, which must be pipes.
    pub(crate) fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let child = self.0.as_mut().unwrap();
        (child.stdin.take().unwrap(), child.stdout.take().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    pub(crate) fn end(self, signal: Signal) -> Output {
        self.signal(signal);
        self.output()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// It succeeded; partly, where the kernel lost events.
#[track_caller]
pub(crate) fn has_recorded(output: &Output) {
    let is_done = matches!(output.status.code(), Some(0 | 5));
    assert!(is_done, "{}", told(output));
}

pub(crate) fn told(output: &Output) -> String {
    format!(
        "{}\nstdout: {}\nstderr: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
