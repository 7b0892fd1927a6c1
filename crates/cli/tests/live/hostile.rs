//! Root's tools on a host whose tenants do what they can against them, beside an honest VM.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use self::hanging::Hanging;
use crate::bench::{Bench, INTO_FILE, Running, haltwise, until_so};
use crate::ceilings::Host;
use crate::counted::counted;

#[path = "../../../host/src/ceiling/test/hanging.rs"]
mod hanging;

/// VMs of the process that has many.
const VMS: u32 = 2_500;

/// Processes of another user: many VMs in one, VMMs that never answer, that answer late, and that show a file which to
/// close takes for ever, some of them while they execute a program.
struct Tenants {
    // Gone before the processes: one that has a file of it could not end.
    _files: Option<Hanging>,
    _processes: Vec<Running>,
}

/// As another user, who may use `/dev/kvm` as one may where its mode lets all.
fn tenant(program: &std::path::Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--clear-groups"])
        .args("--inh-caps +dac_override --ambient-caps +dac_override".split(' '))
        .arg(program);
    command
}

impl Tenants {
    fn start(bench: &Bench) -> Self {
        let vmm = haltwise().with_file_name("examples").join("small_vmm");
        let quiet = |command: &mut Command| {
            let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
            Running::start(command)
        };
        let silent = (0..40).map(|_| quiet(tenant(&vmm).arg("silent")));
        let slow = (0..20).map(|_| quiet(tenant(&vmm).arg("slow")));
        let mut processes: Vec<_> = silent.chain(slow).collect();
        let files = Hanging::mount();
        if let Some(files) = &files {
            processes.push(quiet(tenant(&vmm).arg("shows").arg(files.file())));
            // These hold the lock of their files in /proc in an `execve()` that never ends.
            let exec = bench.path("exec");
            std::fs::write(&exec, "exec\n").unwrap();
            for _ in 0..8 {
                let command = std::fs::File::open(&exec).unwrap();
                let mut vmm = tenant(&vmm);
                let vmm = vmm.arg("shows").arg(files.file()).stdin(command);
                processes.push(Running::start(vmm.stdout(Stdio::null())));
            }
        } else {
            println!("skipped: no FUSE, or not permitted to mount it: no VMM shows a file on it");
        }
        let mut many = tenant(bench.lab().get_program().as_ref());
        many.args(["run", "tick", "--gap", "fixed:500ms", "--name", "many"])
            .args(["--duration", "170s", "--timeout", "175s", "--vms"])
            .arg(VMS.to_string());
        processes.push(quiet(&mut many));
        Self {
            _files: files,
            _processes: processes,
        }
    }
}

/// Runs a program, which must end: by itself with one of these codes, or by a SIGINT some time after. How long that took
/// is shown; gives what it said.
fn ends(
    bench: &Bench,
    what: &str,
    command: &mut Command,
    codes: &[i32],
    interrupted: Option<Duration>,
) -> String {
    let said = bench.path("said");
    let file = || std::fs::File::create(&said).unwrap();
    let mut running = Running::start(command.stdout(file()).stderr(file()));
    if let Some(after) = interrupted {
        std::thread::sleep(after);
        running.signal(Signal::INT);
    }
    let began = Instant::now();
    until_so(what, || running.has_ended());
    println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
    let (status, said) = (
        running.output().status,
        std::fs::read_to_string(&said).unwrap(),
    );
    // One that had not begun is ended by the signal itself.
    let by_signal = interrupted.is_some() && status.signal() == Some(Signal::INT.as_raw());
    let ended = status.code().is_some_and(|code| codes.contains(&code));
    assert!(ended || by_signal, "{what}: {status}: {said}");
    said
}

/// Every halt of the honest VM is recorded, as KVM counts them, also where each sync of the disk takes ten seconds.
fn the_honest_vm_is_recorded_whole(bench: &Bench) {
    let sync = "fsync,fdatasync,syncfs,sync_file_range";
    let mut recorder = Command::new("strace");
    recorder
        .args(["-D", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf"])
        .args(["-e", &format!("trace={sync}")])
        .args(["-e", &format!("inject={sync}:delay_enter=10s")])
        .arg(haltwise());
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed: no sync of the disk takes ten seconds");
        recorder = Command::new(haltwise());
    }
    recorder
        .args(["record", "-o"])
        .arg(bench.path("capture"))
        .args(["--", "sh", "-c", INTO_FILE, "sh"])
        .arg(bench.path("lab.json"))
        .arg(bench.lab().get_program())
        .args("run pingpong --rounds 1000 --gap fixed:1ms --name honest --json".split(' '));
    // 5: of the tenants' VMs some may have no name.
    let said = ends(bench, "record", &mut recorder, &[0, 5], None);
    let lab = std::fs::read_to_string(bench.path("lab.json")).unwrap();
    let honest = &counted(&serde_json::from_str::<Value>(&lab).unwrap())[0];
    let capture = bench.capture("capture");
    let halts = capture.halts().unwrap().map(Result::unwrap);
    let kept = halts.filter(|halt| halt.tid.0 == honest.tid).count() as u64;
    assert_eq!(kept, honest.waits + honest.successful, "{said}");
}

#[test]
#[ignore = "long: make test-long"]
fn tenants_keep_no_tool_from_its_work() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let _tenants = Tenants::start(&bench);
    Bench::wait_for(&format!("many-{}", VMS - 1));
    the_honest_vm_is_recorded_whole(&bench);
    let honest = bench.keep_halting("fixed:1ms", "honest");
    let [dir, root] = [bench.dir.path(), host.0.path()].map(|path| path.to_str().unwrap());
    let soon = Some(Duration::from_secs(2));
    for (line, codes, interrupted) in [
        ("status --check --json", &[0, 1][..], None),
        ("status --json", &[0], None),
        ("--for 1s --json", &[0, 5], None),
        ("top --once --json", &[0, 5], None),
        ("record --duration 1s -o DIR/halts", &[0, 5], None),
        (
            "record --duration 1s --mode counts -o DIR/counts",
            &[0, 5],
            None,
        ),
        ("record --duration 1s --exits -o DIR/exits", &[0, 5], None),
        ("record -o DIR/interrupted", &[0, 5], soon),
        ("metrics --listen 127.0.0.1:0", &[0, 130], soon),
        ("pilot --root ROOT --wake-latency 30us", &[0, 130], soon),
        (
            "apply --vm honest --ceiling 70us --yes --root ROOT",
            &[0],
            None,
        ),
        ("undo --root ROOT", &[0], None),
    ] {
        let line = line.replace("DIR", dir).replace("ROOT", root);
        let mut command = Command::new(haltwise());
        let command = command.args(line.split(' '));
        ends(&bench, &line, command, codes, interrupted);
    }
    honest.end(Signal::TERM);
}
