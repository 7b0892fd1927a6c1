//! Rights of a recorder: with the fewest capabilities, and once recording has begun.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haltwise_core::profile::Space;
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, has_recorded, told, until_so};

const DAC_READ_SEARCH: u64 = 1 << 2;
const KILL: u64 = 1 << 5;
const IPC_LOCK: u64 = 1 << 14;
const SYS_PTRACE: u64 = 1 << 19;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
const CHECKPOINT_RESTORE: u64 = 1 << 40;

/// Minimum set of capabilities that a recorder keeps.
pub(crate) const ALWAYS: u64 = PERFMON | BPF | IPC_LOCK | SYS_PTRACE | DAC_READ_SEARCH;

/// A line of a file that tells of a process or thread.
pub(crate) fn line(path: &str, field: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

/// Waits until the process holds to a list of system calls: it gives up its rights after its files are there. Then no
/// thread may do more than that with these capabilities, or write anywhere else.
fn becomes_confined(process: u32, kept: u64, writes: &[PathBuf], name: &str) {
    let status = format!("/proc/{process}/status");
    until_so("a filter", || line(&status, "Seccomp") == "2");
    assert_confined(process, kept, writes, name);
}

pub(crate) fn assert_confined(process: u32, kept: u64, writes: &[PathBuf], name: &str) {
    assert_holds(process, kept, name);
    for task in tasks(process) {
        assert_eq!(line(&task, "NoNewPrivs"), "1", "{name}");
        assert_eq!(line(&task, "Seccomp"), "2", "{name}");
    }
    assert_eq!(writable(process), writes, "{name}");
}

/// Before Linux 5.9 a recorder keeps `CAP_SYS_ADMIN` instead of others.
pub(crate) fn kernel_has_them() -> bool {
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap();
    last.trim().parse::<u32>().unwrap() >= 40
}

fn set_up() -> Option<Bench> {
    let bench = Bench::set_up()?;
    if !kernel_has_them() {
        println!("skipped: this kernel has no CAP_BPF");
    }
    kernel_has_them().then_some(bench)
}

pub(crate) fn tasks(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: std::io::Result<fs::DirEntry>| {
        let status = task.unwrap().path().join("status");
        status.to_str().unwrap().to_owned()
    };
    tasks.map(status).collect()
}

/// No thread has a capability beyond these.
fn assert_holds(process: u32, kept: u64, name: &str) {
    for task in tasks(process) {
        for set in ["CapEff", "CapPrm"] {
            let held = u64::from_str_radix(&line(&task, set), 16).unwrap();
            assert_eq!(held & !kept, 0, "{name}: {set} {held:x}");
        }
    }
}

fn writable(process: u32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap();
    let writable = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(4);
        let (point, flags) = (words.next()?, words.next()?);
        flags.starts_with("rw").then(|| PathBuf::from(point))
    });
    writable.collect()
}

#[test]
fn a_recorder_keeps_the_rights_that_it_needs() {
    let Some(bench) = set_up() else { return };
    let lab = bench.keep_halting("fixed:200us", "watched");
    for (name, options, kept) in [
        ("halts", "", ALWAYS),
        ("samples", "--profile", ALWAYS | CHECKPOINT_RESTORE),
        ("counts", "--mode counts", ALWAYS),
        ("tracepoints", "--source tracepoints", ALWAYS),
    ] {
        let recorder = bench.recorder(name, options);
        let output = fs::canonicalize(bench.path(name)).unwrap();
        becomes_confined(recorder.id(), kept, &[output], name);
        has_recorded(&recorder.end(Signal::INT));
        let capture = bench.capture(name);
        let vms = &capture.info().roster.vms;
        assert!(vms.iter().any(|vm| vm.name == "watched"), "{vms:?}");
    }
    lab.end(Signal::TERM);
}

#[test]
fn what_watches_and_measures_keeps_the_rights_that_it_needs() {
    let Some(bench) = set_up() else { return };
    let lab = bench.keep_halting("fixed:200us", "looked-at");
    let prove = "prove --a current --b current --rounds 200 --ledger ledger.jsonl";
    let kept = [fs::canonicalize(bench.dir.path()).unwrap()];
    for (line, writes) in [
        ("top --json", &[][..]),
        ("top --json --source tracepoints", &[]),
        (prove, &kept),
    ] {
        let running = Running::start(
            Command::new(haltwise())
                .args(line.split(' '))
                .args(["--vm", "looked-at"])
                .current_dir(&bench.dir)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        becomes_confined(running.id(), ALWAYS, writes, line);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let output = running.end(Signal::INT);
        let said = told(&output);
        assert!(!said.contains("keeps rights"), "{said}");
        if line != prove {
            has_recorded(&output);
            assert!(said.contains("looked-at"), "{said}");
        }
    }
    lab.end(Signal::TERM);
}

/// A command may be anything that its user may start: it has root's capabilities, `prove` itself has not.
#[test]
fn the_command_of_a_proof_has_the_rights_that_the_proof_gave_up() {
    let Some(bench) = set_up() else { return };
    let script = "cat /proc/self/status > \"$2\"; sleep 600; : $1";
    let said = bench.path("status");
    let prove = Running::start(
        Command::new(haltwise())
            .args(["prove", "--a", "off", "--b", "kvm:max=50us"])
            .args(["--", "sh", "-c", script, "sh", "{halt_poll_ns}"])
            .arg(&said)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    until_so("the command", || {
        fs::read_to_string(&said).is_ok_and(|text| text.contains("Seccomp"))
    });
    assert_holds(prove.id(), ALWAYS | KILL, "prove");
    let (own, commands) = ("/proc/self/status", said.to_str().unwrap());
    for set in ["CapEff", "CapPrm", "NoNewPrivs", "Seccomp"] {
        assert_eq!(line(own, set), line(commands, set), "{set}");
    }
    drop(prove.end(Signal::INT));
}

#[test]
fn a_command_of_another_user_is_ended() {
    let Some(bench) = Bench::set_up() else { return };
    let line = "record --duration 1s -o capture -- setpriv --reuid 65534 --clear-groups sleep 600";
    has_recorded(&bench.ran(line));
    let capture = bench.capture("capture");
    assert_eq!(capture.info().ended.as_ref().unwrap().by, "duration");
}

/// `haltwise` where any user may start it.
fn for_anybody(bench: &Bench) -> PathBuf {
    fs::set_permissions(bench.dir.path(), Permissions::from_mode(0o777)).unwrap();
    let program = bench.path("haltwise");
    fs::copy(haltwise(), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// A command of user 65534 with `CAP_PERFMON`, these capabilities and no others; `None` without the program for that.
fn as_nobody(program: &Path, capabilities: &str) -> Option<Command> {
    let there = Command::new("setpriv").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no setpriv");
        return None;
    }
    let set = format!("-all,+perfmon,{capabilities}");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", &set, "--ambient-caps", &set])
        .args(["--bounding-set", &set])
        .arg(program);
    Some(command)
}

/// Halts need two capabilities, names two more, functions of the kernel one, and those of VMMs one where their
/// files cannot be known by their names.
#[test]
fn nobody_records_with_exactly_the_capabilities_that_it_takes() {
    let Some(bench) = set_up() else { return };
    let program = for_anybody(&bench);
    let lab = bench.keep_halting("fixed:200us", "foreign");
    let id = lab.id();
    for (name, capabilities, options, is_named) in [
        ("halts", "+bpf", "", false),
        ("names", "+bpf,+sys_ptrace,+dac_read_search", "", true),
        (
            "functions",
            "+bpf,+sys_ptrace,+dac_read_search,+syslog,+checkpoint_restore",
            "--profile 997hz",
            true,
        ),
        (
            "tracepoints",
            "+sys_ptrace,+dac_read_search,+ipc_lock",
            "--source tracepoints",
            true,
        ),
    ] {
        let Some(mut command) = as_nobody(&program, capabilities) else {
            return;
        };
        let output = command
            .args(["record", "--duration", "1500ms", "-o"])
            .arg(bench.path(name))
            .args(options.split_whitespace())
            .output()
            .unwrap();
        has_recorded(&output);
        let capture = bench.capture(name);
        let vms = &capture.info().roster.vms;
        let mine = vms.iter().find(|vm| vm.key.pid.0 == id);
        let mine = mine.unwrap_or_else(|| panic!("{vms:?}"));
        assert_eq!(mine.name == "foreign", is_named, "{name}: {mine:?}");
        assert!(!mine.name.contains("gone"), "{mine:?}");
        let halts = capture.halts().unwrap().map(Result::unwrap);
        assert!(halts.filter(|halt| halt.vm == Some(mine.index)).count() > 0);
        if name == "functions" {
            let frames = capture.sample_frames().unwrap().map(Result::unwrap);
            let frames: Vec<_> = frames.filter(|frame| frame.symbol.is_some()).collect();
            for space in [Space::Kernel, Space::User] {
                assert!(frames.iter().any(|it| it.space == space), "{space:?}");
            }
        }
    }
    lab.end(Signal::TERM);
}
