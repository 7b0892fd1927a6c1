//! The pilot as its unit runs it: with a configuration that is read again, beside people who write, over ends and
//! starts. KVM's parameters are files of the test's own; the VM and its halts are real.
//!
//! The state of an earlier run is made by `apply` under the pilot's name and by a first run of the pilot, so that no
//! test depends on what halts are measured to cost here.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::{Bench, Running, haltwise, json, until, until_so, vms};
use crate::ceilings::{Host, in_kernel_by};
use crate::rights;

/// The host's parameters, and no ceiling of a VM; VMs of other tests follow them, too.
pub(crate) const PARAMETERS: &str = "[limits]\nceilings = false\nshared_parameters = true\n";

/// Several intervals of the pilot, on a host whose CPUs others want too.
const LONG: Duration = Duration::from_secs(90);

/// Options of a guest that runs for longer than any test takes.
const LASTING: &str = "--duration 300s --timeout 300s";

/// A VM, and a host that is made up around it.
pub(crate) struct Scene {
    host: Host,
    name: &'static str,
    _vm: Running,
    pub(crate) bench: Bench,
}

impl Scene {
    fn set(name: &'static str) -> Option<Self> {
        Self::of(name, "tick --gap fixed:1ms")
    }

    pub(crate) fn of(name: &'static str, guest: &str) -> Option<Self> {
        let bench = Bench::set_up()?;
        Some(Self {
            host: Host::new(),
            name,
            _vm: bench.guest(name, &format!("{guest} {LASTING}")),
            bench,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.host.0.path().join(name)
    }

    pub(crate) fn configure(&self, text: &str) {
        let path = self.path("pilot.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }

    pub(crate) fn write(&self, ns: u64) {
        let path = self.path("sys/module/kvm/parameters/halt_poll_ns");
        fs::write(path, format!("{ns}\n")).unwrap();
    }

    fn pilot(&self, more: &str) -> Daemon {
        let mut command = Command::new(haltwise());
        command
            .args(["pilot", "--vm", self.name, "--json", "--root"])
            .arg(self.host.0.path())
            .args(more.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Daemon::start(command)
    }

    pub(crate) fn daemon(&self, more: &str) -> Daemon {
        let config = self.path("pilot.toml");
        self.pilot(&format!("--config {} {more}", config.display()))
    }

    fn kept(&self) -> Value {
        let text = fs::read_to_string(self.path("var/lib/haltwise/pilot.json"));
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    /// Waits until the host has the ceiling that the pilot found.
    fn wait_until_restored(&self) {
        until_so("restored", || self.host.ceiling() == 200_000);
    }

    /// Waits until this daemon, and not one before it, has kept a state like this.
    fn wait_for(&self, daemon: &Daemon, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        until(what, || {
            let status = &self.kept()["status"];
            if status["pid"] != daemon.running.id() {
                return None;
            }
            self.own_in(status).filter(|vm| is_it(vm)).cloned()
        })
    }

    /// Entry of the scene's own VM in a status; other VMs may run beside it.
    fn own_in<'a>(&self, status: &'a Value) -> Option<&'a Value> {
        let mut vms = status["vms"].as_array()?.iter();
        vms.find(|vm| vm["vm"] == self.name)
    }

    /// An earlier run has put 80 us in force: as the journal and its own state have it.
    pub(crate) fn left_by_an_earlier_run(&self, is_kept: bool) {
        self.apply("--set halt_poll_ns=80us");
        self.configure(PARAMETERS);
        let first = self.daemon("--for 1s");
        assert_eq!(first.end_by_itself()["decisions"]["restored"], 0);
        assert_eq!(self.host.ceiling(), 80_000, "it only observes");
        let mut kept = self.kept();
        let target = &mut kept["memory"]["targets"][0];
        assert_eq!(target["scope"], "host");
        let found = &target["trial_from"]["halt_poll_ns"];
        assert_eq!(*found, 200_000, "it is to be restored");
        if is_kept {
            target["trial_from"] = Value::Null;
            target["measured"] = json!({"value": -0.2, "low": -0.25, "high": -0.15});
            self.keep(&kept);
        }
    }

    /// An earlier run has given the VM a ceiling of 80 us, without a trial that is kept.
    fn left_with_a_ceiling(&self) {
        self.apply(&format!("--vm {} --ceiling 80us", self.name));
        assert_eq!(self.ceiling(), 80_000);
    }

    /// Applies a setting under the pilot's name.
    fn apply(&self, setting: &str) {
        let applied = Command::new(haltwise())
            .arg0("haltwise pilot")
            .args(["apply", "--yes", "--root"])
            .arg(self.host.0.path())
            .args(setting.split(' '))
            .output()
            .unwrap();
        assert!(applied.status.success(), "{applied:?}");
    }

    /// The ceiling of the VM, as the kernel has it.
    fn ceiling(&self) -> u64 {
        in_kernel_by(self.name)[0].0
    }

    fn keep(&self, kept: &Value) {
        let path = self.path("var/lib/haltwise/pilot.json");
        fs::write(path, kept.to_string()).unwrap();
    }

    pub(crate) fn remember(&self, part: &str, value: &Value) {
        let mut kept = self.kept();
        kept["memory"][part] = value.clone();
        self.keep(&kept);
    }
}

pub(crate) struct Daemon {
    running: Running,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Daemon {
    fn start(mut command: Command) -> Self {
        let mut running = Running::start(&mut command);
        let (send, lines) = channel();
        let stderr = BufReader::new(running.stderr());
        std::thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok);
            lines.for_each(|line| drop(send.send(line)));
        });
        let mut daemon = Self {
            running,
            lines,
            said: Vec::new(),
        };
        daemon.says("Pilot, goal ");
        daemon
    }

    /// Waits for a line that has this.
    fn says(&mut self, what: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(LONG) else {
                panic!("never said: {what}; it said {:?}", self.said);
            };
            self.said.push(line.clone());
            if line.contains(what) {
                return line;
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let mut said = self.said.iter();
        let url = said.find_map(|line| line.split_once("http://"));
        let (address, _) = url.unwrap().1.split_once('/').unwrap();
        address.parse().unwrap()
    }

    /// Waits until it restores something, and says all this of it.
    fn restores(&mut self, parts: &[&str]) {
        let line = self.says("restore: ");
        let is_said = parts.iter().all(|part| line.contains(part));
        assert!(is_said, "{line}");
    }

    fn reload(&mut self) {
        self.running.signal(Signal::HUP);
    }

    fn end(self) -> Value {
        self.running.signal(Signal::TERM);
        self.end_by_itself()
    }

    fn end_by_itself(self) -> Value {
        let output = self.running.output();
        let said: Vec<String> = self.said.into_iter().chain(self.lines).collect();
        assert!(output.status.success(), "{said:?}");
        let keeps = said.iter().any(|line| line.contains("keeps rights"));
        assert!(!keeps, "{said:?}");
        json(&output)
    }
}

fn metrics(socket: &PathBuf) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
#[ignore = "long: make test-long"]
fn a_configuration_is_read_again_and_a_mistake_in_it_changes_nothing() {
    let Some(scene) = Scene::set("reloaded") else {
        return;
    };
    let socket = scene.path("metrics.sock");
    let metrics_table = format!("[metrics]\nlisten = \"unix:{}\"\n", socket.display());
    scene.configure(&format!("goal = \"balanced\"\n{metrics_table}"));
    let mut daemon = scene.daemon("");
    let serves = |goal: &str| {
        let label = format!("goal=\"{goal}\"");
        let is_its = |line: &&str| line.contains("vm=\"reloaded\"") && line.contains(&label);
        until(goal, || {
            metrics(&socket)?.lines().find(is_its).map(str::to_owned)
        });
    };
    serves("balanced");
    scene.configure(&format!("goal = \"density\"\n{metrics_table}"));
    daemon.reload();
    daemon.says("pilot.toml was read again.");
    serves("density");
    for (text, mistake) in [
        (
            "act = true\n  goal = \"fast\"\n",
            "line 2, column 10: unknown goal `fast`",
        ),
        ("goal = \"latency\"\nact = maybe\n", "line 2, column 7: "),
    ] {
        scene.configure(text);
        daemon.reload();
        daemon.says(mistake);
        daemon.says("What was in force before stays.");
    }
    // Another user who can write it could have root set anything.
    scene.configure("act = true\ngoal = \"latency\"\n");
    fs::set_permissions(scene.path("pilot.toml"), Permissions::from_mode(0o666)).unwrap();
    daemon.reload();
    daemon.says("can change it");
    daemon.says("What was in force before stays.");
    serves("density");
    let status = daemon.end();
    assert_eq!(status["goal"], "density");
    assert_eq!(status["mode"], "observe");
    assert!(!socket.exists(), "its socket goes with it");
}

/// A trial setting of an earlier run stays while the pilot observes, and is restored once a reload lets the pilot act.
#[test]
fn what_was_only_tried_is_restored_once_it_may_act() {
    let Some(scene) = Scene::set("was-tried") else {
        return;
    };
    scene.left_by_an_earlier_run(false);
    let mut daemon = scene.daemon("");
    scene.wait_for(&daemon, "told", |vm| {
        vm["why"].as_str().unwrap().contains("haltwise undo")
    });
    assert_eq!(scene.host.ceiling(), 80_000);
    scene.configure(&format!("act = true\n{PARAMETERS}"));
    daemon.reload();
    daemon.restores(&["halt_poll_ns 80.0 us -> 200 us; an earlier run tried it"]);
    scene.wait_until_restored();
    assert_eq!(daemon.end()["mode"], "act");
}

/// A setting that an earlier run kept stays over a start, and is restored where the pilot is no longer to set it.
#[test]
fn what_it_is_no_longer_to_set_is_restored() {
    let Some(scene) = Scene::set("let-go") else {
        return;
    };
    scene.left_by_an_earlier_run(true);
    scene.configure(&format!("act = true\n{PARAMETERS}"));
    let mut daemon = scene.daemon("");
    let vm = scene.wait_for(&daemon, "kept", |vm| vm["state"] == "kept");
    assert_eq!(vm["why"], "kept by an earlier run");
    scene.configure("[limits]\nceilings = false\nparameters = false\n");
    daemon.reload();
    daemon.restores(&[
        "the host's parameters: halt_poll_ns 80.0 us -> 200 us",
        "the pilot is no longer to set it",
    ]);
    scene.wait_until_restored();
    assert_eq!(daemon.end()["decisions"]["restored"], 1);
}

/// The same of a ceiling: with the rights that are left it still asks a VMM.
#[test]
fn a_ceiling_that_was_only_tried_is_restored() {
    let Some(scene) = Scene::set("ceiling-tried") else {
        return;
    };
    scene.left_with_a_ceiling();
    let mut daemon = scene.pilot("--act");
    daemon.restores(&["VM ceiling-tried (pid ", "halt_poll_ns 80.0 us -> 200 us"]);
    until_so("restored", || scene.ceiling() == 200_000);
    assert_eq!(daemon.end()["decisions"]["failed"], 0);
}

/// Proofs that others have made, as if here.
fn proofs_of_here() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/prove/ledger.jsonl"
    );
    let here = rustix::system::uname();
    let here = here.nodename().to_str().unwrap();
    let lines = fs::read_to_string(path).unwrap();
    lines.replace("\"golden-1\"", &json!(here).to_string())
}

/// A look at each VM, an answer, and nothing set, whatever the configuration says. It counts with what proofs measured
/// here before. A VM that is busy all the time, and never halts, can be read like the others.
#[test]
#[ignore = "long: make test-long"]
fn a_dry_run_ends_by_itself_and_leaves_everything() {
    let Some(scene) = Scene::set("dry") else {
        return;
    };
    scene.configure(&format!("act = true\n{PARAMETERS}"));
    let busy = format!("tick --gap fixed:1us {LASTING}");
    let _busy = scene.bench.guest("dry-busy", &busy);
    let ledger = scene.path("var/lib/haltwise/ledger.jsonl");
    fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    fs::write(ledger, proofs_of_here()).unwrap();
    let daemon = scene.daemon("--dry-run --vm dry-busy --wake-latency 30us --switch-cpu 10us");
    let status = daemon.end_by_itself();
    assert_eq!(status["mode"], "observe");
    let of = |name: &str| {
        let mut vms = status["vms"].as_array().unwrap().iter();
        vms.find(|vm| vm["vm"] == name).unwrap()
    };
    let (vm, busy) = (of("dry"), of("dry-busy"));
    assert_eq!(vm["state"], "watching");
    assert!(busy["halts_per_s"].is_number(), "it was counted: {busy}");
    assert!(vm["latency_mean_ns"].is_u64(), "it was looked at: {vm}");
    assert_eq!(status["decisions"]["tried"], 0);
    let errors = &status["errors"];
    assert_eq!(errors["trials"], 0);
    assert!(errors["proofs"].as_u64().unwrap() > 1, "{errors}");
    assert!(errors["p90"].as_f64().unwrap() > 0.0, "{errors}");
    assert_eq!(scene.host.ceiling(), 200_000);
    assert!(!scene.path("var/lib/haltwise/baseline.json").exists());
}

/// A guest that forbids its host to poll is left alone from the first reading on.
#[test]
fn a_guest_that_forbids_host_polling_is_left_alone() {
    let Some(scene) = Scene::of("forbids", "poller --gap fixed:2ms") else {
        return;
    };
    // Its first act is to write the MSR.
    let forbids = |vm: &Value| vm["name"] == "forbids" && vm["effect"] == "guest-disabled";
    until_so("forbidden", || vms("status").iter().any(forbids));
    let checked = vms("status --check").into_iter();
    let checked: Vec<Value> = checked.filter(|vm| vm["name"] == "forbids").collect();
    assert_eq!(checked[0]["window_ns"], Value::Null, "{checked:?}");
    assert_eq!(checked[0]["vetoed_vcpus"], json!([0]), "{checked:?}");
    let daemon = scene.pilot("--act");
    let vm = scene.wait_for(&daemon, "excluded", |vm| vm["state"] == "excluded");
    assert_eq!(vm["why"], "its guest polls by itself");
    assert_eq!(daemon.end()["decisions"]["tried"], 0);
}

/// It keeps what it takes to look at VMs, to ask their VMMs and to record: it writes its state, and KVM's parameters
/// only where it may come to act.
#[test]
fn it_keeps_the_rights_that_it_needs() {
    if !rights::kernel_has_them() {
        println!("skipped: this kernel has no CAP_BPF");
        return;
    }
    let Some(scene) = Scene::set("rights") else {
        return;
    };
    let socket = scene.path("run");
    fs::create_dir(&socket).unwrap();
    let listen = format!("--listen unix:{}", socket.join("socket").display());
    let here = fs::canonicalize(scene.host.0.path()).unwrap();
    let [state, parameters] = ["var/lib/haltwise", "sys/module/kvm/parameters"];
    scene.configure("act = false\n");
    let config = format!("--config {}", scene.path("pilot.toml").display());
    for (more, writes) in [
        ("", vec![state]),
        (&listen, vec!["run", state]),
        ("--act", vec![parameters, state]),
        (&config, vec![parameters, state]),
        (&format!("{config} --observe"), vec![state]),
    ] {
        let daemon = scene.pilot(more);
        let process = daemon.running.id();
        let writes: Vec<PathBuf> = writes.iter().map(|name| here.join(name)).collect();
        rights::assert_confined(process, rights::ALWAYS, &writes, more);
        // One that reads a ring comes with the first recording, one that reads files of processes with a look; its name,
        // once it runs.
        let comm = |task: String| fs::read_to_string(task.replace("/status", "/comm")).ok();
        let is_reader = |name: &String| ["ring\n", "haltwise-proc\n"].contains(&name.as_str());
        let names = || rights::tasks(process).into_iter().filter_map(comm);
        let others = || names().filter(|name| !is_reader(name)).count();
        until_so(more, || others() == 1 + usize::from(more == listen));
        drop(daemon.end());
        assert!(!socket.join("socket").exists());
    }
}
