//! The workbench of these tests: run the lab under the recorder, read both sides back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use haltwise_capture::capture::Capture;
use haltwise_core::event::{Halt, HaltCounts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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

    /// A pingpong guest that halts every so often, for longer than any test takes.
    pub(crate) fn keep_halting(&self, gap: &str, options: &[&str]) -> Running {
        Running::start(
            self.lab()
                .args(["run", "pingpong", "--duration", "180s", "--gap", gap])
                .args(["--host-wait", "block"])
                .args(options)
                .stdout(Stdio::null()),
        )
    }

    /// Waits until a VM of this name runs.
    pub(crate) fn wait_for(name: &str) {
        let runs = || {
            let doctor = Command::new(haltwise()).args(["doctor", "--json"]).output();
            let told: Value = serde_json::from_slice(&doctor.unwrap().stdout).unwrap();
            let vms = told["vms"].as_array().unwrap();
            vms.iter().any(|vm| vm["name"] == name)
        };
        until(name, || runs().then_some(()));
    }

    /// A recorder with these options, once it has begun to record.
    pub(crate) fn recorder(&self, name: &str, options: &[&str]) -> Running {
        let recorder = Running::start(
            Command::new(haltwise())
                .args(["record", "--duration", "60s"])
                .args(options)
                .arg("-o")
                .arg(self.path(name))
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let file = self.path(name).join("capture.json");
        until(name, || file.exists().then_some(()));
        recorder
    }

    pub(crate) fn record(&self, options: &[&str], lab: &[&str]) -> Recorded {
        let capture = self.path("capture");
        let output = Command::new(haltwise())
            .args(["record", "--json", "-o"])
            .arg(&capture)
            .args(options)
            .arg("--")
            // The lab's output goes to a file: stdout is the recorder's.
            .args(["sh", "-c", "out=$1; shift; exec \"$@\" >\"$out\"", "sh"])
            .arg(self.path("lab.json"))
            .arg(&self.lab)
            .args(["run", "--json"])
            .args(lab)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let lab = std::fs::read_to_string(self.path("lab.json")).unwrap();
        Recorded {
            capture: Capture::open(&capture).unwrap(),
            lab: serde_json::from_str(&lab).unwrap(),
            summary: serde_json::from_slice(&output.stdout).unwrap(),
        }
    }
}

/// What the tracepoint source loses on some kernels, 6.18 at rest among them; the halts themselves stay exact.
pub(crate) const LOST_WAKE_UPS: &str = "wake-up or sleep counted but not recorded";

pub(crate) fn haltwise() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_haltwise"))
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

    /// What it says on stderr, which must be a pipe.
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
pub(crate) fn words(line: &str) -> Vec<&str> {
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

pub(crate) struct Recorded {
    pub(crate) capture: Capture,
    pub(crate) lab: Value,
    pub(crate) summary: Value,
}

/// One vCPU as the lab and KVM's stats fd counted it.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) vm: String,
    pub(crate) id: u32,
    pub(crate) tid: u32,
    pub(crate) hlts: u64,
    pub(crate) halt_exits: u64,
    pub(crate) waits: u64,
    pub(crate) attempted: u64,
    pub(crate) successful: u64,
    pub(crate) success_ns: u64,
    pub(crate) fail_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// All vCPUs of all VMs, as the lab tells of them.
pub(crate) fn counted(lab: &Value) -> Vec<Counted> {
    let mut all = Vec::new();
    for vm in lab["vms"].as_array().unwrap() {
        for vcpu in vm["vcpus"].as_array().unwrap() {
            let stat = |name: &str| vcpu["stats"][name].as_u64().unwrap();
            let number = |name: &str| vcpu[name].as_u64().unwrap();
            let waits = vcpu["hist"]["halt_wait_hist"].as_array().unwrap();
            all.push(Counted {
                vm: vm["name"].as_str().unwrap().to_owned(),
                id: u32::try_from(number("id")).unwrap(),
                tid: u32::try_from(number("tid")).unwrap(),
                hlts: number("halts"),
                halt_exits: stat("halt_exits"),
                waits: waits.iter().map(|count| count.as_u64().unwrap()).sum(),
                attempted: stat("halt_attempted_poll"),
                successful: stat("halt_successful_poll"),
                success_ns: stat("halt_poll_success_ns"),
                fail_ns: stat("halt_poll_fail_ns"),
                wait_ns: stat("halt_wait_ns"),
                voluntary: number("voluntary_switches"),
                involuntary: number("involuntary_switches"),
            });
        }
    }
    all
}

impl Recorded {
    pub(crate) fn counted(&self) -> Vec<Counted> {
        counted(&self.lab)
    }

    /// Every halt of one thread, in order.
    pub(crate) fn halts_of(&self, tid: u32) -> Vec<Halt> {
        let rows = self.capture.halts().unwrap().map(Result::unwrap);
        rows.filter(|halt| halt.tid.0 == tid).collect()
    }

    /// Every row of counts mode of one thread.
    pub(crate) fn counts_of(&self, tid: u32) -> Vec<HaltCounts> {
        let rows = self.capture.halt_counts().unwrap().map(Result::unwrap);
        rows.filter(|row| row.tid.0 == tid).collect()
    }

    /// Events that the recording says were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.capture.info().lost.values().sum()
    }
}
