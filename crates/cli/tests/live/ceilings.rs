//! Ceilings of VMs whose VMM was started with `libhaltwise_preload.so` or has `haltwise-governor`, as the lab does, set
//! and taken back through the real program. What was set is read back from the kernel's own `struct kvm`, by `status`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haltwise_core::ids::Pid;
use haltwise_host::ceiling::Governor;
use haltwise_host::root::Root;
use rustix::process::Signal;
use serde_json::Value;

mod changes;
mod libvirt;
pub(crate) mod vmm;

use self::vmm::{By, Vmm};
use super::bench::{Bench, Running, haltwise, ran, told, until, vms};

/// Where haltwise keeps what it sets: not the host's own place, whose processes are seen all the same.
pub(crate) struct Host(pub(crate) tempfile::TempDir);

impl Host {
    pub(crate) fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        let parameters = "sys/module/kvm/parameters";
        fs::create_dir_all(host.0.path().join(parameters)).unwrap();
        std::os::unix::fs::symlink("/proc", host.0.path().join("proc")).unwrap();
        for name in ["halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_shrink"] {
            let from = PathBuf::from("/").join(parameters).join(name);
            // Not its mode: a file may be written here that is read-only on this host.
            let value = fs::read(from).unwrap();
            fs::write(host.0.path().join(parameters).join(name), value).unwrap();
        }
        host
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn ceiling(&self) -> u64 {
        let path = self.0.path().join("sys/module/kvm/parameters/halt_poll_ns");
        // A file is empty for a moment while it is written.
        until("a ceiling", || {
            fs::read_to_string(&path).unwrap().trim().parse().ok()
        })
    }

    /// Exit code and everything that is said.
    fn run(&self, line: &str) -> (Option<i32>, String) {
        let output = ran(&format!("{line} --root {}", self.root().display()));
        (output.status.code(), told(&output))
    }

    /// Runs a line, asserts its exit code and returns its output.
    #[track_caller]
    pub(crate) fn says(&self, code: i32, line: &str) -> String {
        let (found, said) = self.run(line);
        assert_eq!(found, Some(code), "{line}: {said}");
        said
    }

    #[track_caller]
    fn set(&self, vm: &str, ceiling: &str) {
        self.says(0, &format!("apply --vm {vm} --ceiling {ceiling} --yes"));
    }
}

fn library() -> PathBuf {
    let library = haltwise().with_file_name("libhaltwise_preload.so");
    assert!(library.exists(), "cargo build -p haltwise-preload");
    library
}

/// A VM of the lab, with what else its VMM is given.
pub(crate) fn start(
    bench: &Bench,
    name: &str,
    more: impl FnOnce(&mut Command) -> &mut Command,
) -> Running {
    let mut lab = bench.lab();
    lab.args(["run", "tick", "--name", name, "--gap", "fixed:1ms"])
        .args(["--rounds", "1000000", "--timeout", "60s"])
        .stdout(Stdio::null());
    Bench::vm(name, more(&mut lab))
}

/// The ceiling and its source that the kernel has for each VM of this name.
pub(crate) fn in_kernel_by(name: &str) -> Vec<(u64, String)> {
    in_kernel(|vm| vm["name"] == name)
}

/// The same for those that are meant.
fn in_kernel(meant: impl Fn(&Value) -> bool) -> Vec<(u64, String)> {
    let ceiling = |vm: &Value| {
        let ns = vm["ceiling_ns"].as_u64().unwrap();
        (ns, vm["effect"].as_str().unwrap().to_owned())
    };
    let all = vms("status");
    all.iter().filter(|vm| meant(vm)).map(ceiling).collect()
}

/// All VMs of this name have this ceiling of their own.
#[track_caller]
fn assert_own(name: &str, ns: u64) {
    assert_eq!(in_kernel_by(name), [(ns, "own-cap".to_owned())]);
}

/// Entry of a VM in `status --check`.
fn doctor(is_meant: impl Fn(&Value) -> bool) -> Value {
    vms("status --check").into_iter().find(is_meant).unwrap()
}

#[test]
fn a_ceiling_is_set_and_taken_back() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let vm = start(&bench, "governed", |lab| lab);
    let before = in_kernel_by("governed");
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].1, "follows");
    for (text, ns) in [("0", 0), ("70us", 70_000), ("4294967295", 4_294_967_295)] {
        host.set("governed", text);
        assert_own("governed", ns);
    }
    let said = host.says(0, "status --json");
    assert!(said.contains("ceiling of governed (pid "), "{said}");
    let said = host.says(0, "undo");
    // KVM cannot take a ceiling away: what was in force is set.
    assert!(said.contains("does not follow halt_poll_ns"), "{said}");
    assert_own("governed", host.ceiling());
    // A VM that ends takes its ceiling with it.
    host.set("governed", "0");
    drop(vm);
    let said = host.says(0, "undo");
    assert!(said.contains("the VM has ended"), "{said}");
}

#[test]
#[ignore = "long: make test-long"]
fn a_vmm_without_the_library_or_that_is_stopped_is_reported() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let plain = Vmm::start(&bench, "plain", By::Nothing);
    let said = host.says(3, &format!("apply --vm {} --ceiling 0 --yes", plain.id()));
    assert!(said.contains("without libhaltwise_preload.so"), "{said}");
    assert!(!host.0.path().join("var").exists());
    drop(plain);
    let vm = start(&bench, "stopped", |lab| lab);
    host.set("stopped", "0");
    vm.signal(Signal::STOP);
    let said = host.says(1, "apply --vm stopped --ceiling 1us --yes");
    assert!(said.contains("did not answer"), "{said}");
    let said = host.says(5, "undo");
    assert!(said.contains("the VMM does not answer"), "{said}");
    vm.signal(Signal::CONT);
    host.says(0, "undo");
    assert_eq!(in_kernel_by("stopped")[0].0, host.ceiling());
}

/// As many VMs as a VMM answers for; one more, and none is changed, because it cannot be told which is which.
#[test]
fn a_process_with_more_vms_than_are_answered_for_is_reported() {
    let Some(bench) = Bench::set_up() else { return };
    for by in [By::Crate, By::Preload] {
        let host = Host::new();
        let mut vmm = Vmm::start(&bench, "many", by);
        let pid = vmm.id().to_string();
        vmm.command("more 15");
        host.set(&pid, "70us");
        let governed = Governor::of(&Root::host(), Pid(vmm.id())).unwrap();
        let vms = governed.vms().unwrap();
        assert_eq!(vms.len(), 16);
        let is_set = vms.iter().all(|vm| vm.ceiling_ns == Some(70_000));
        assert!(is_set, "{vms:?}");
        host.says(0, "undo");
        vmm.command("more 1");
        let other = Host::new();
        let said = other.says(3, &format!("apply --vm {pid} --ceiling 1us --yes"));
        let says = "answers for 16 VMs of a process, and this one has 17";
        assert!(said.contains(says), "{said}");
        assert!(!other.0.path().join("var").exists());
        let obstacle = doctor(|vm| vm["pid"] == vmm.id())["ceiling_obstacle"].clone();
        assert!(obstacle.as_str().unwrap().contains(says), "{obstacle}");
    }
}

/// A VMM that has haltwise-governor and is preloaded too is asked by one of both.
#[test]
fn a_vmm_that_has_the_library_and_the_crate() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let vm = start(&bench, "both", |lab| lab.env("LD_PRELOAD", library()));
    host.set("both", "70us");
    assert_own("both", 70_000);
    host.says(0, "undo");
    assert_eq!(in_kernel_by("both")[0].0, host.ceiling());
    drop(vm);
}

/// A stock QEMU whose VM is never started, of this program and with more options.
fn qemu(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-name", &format!("guest={name}")])
        .args("-machine microvm,accel=kvm -S -nodefaults -display none".split(' '));
    command
}

pub(crate) fn has_qemu() -> bool {
    let version = Command::new("qemu-system-x86_64").arg("-version").output();
    if version.is_err() {
        println!("skipped: no qemu-system-x86_64");
    }
    version.is_ok()
}

/// A QEMU of the distribution, under its strictest sandbox: nothing of it knows of haltwise.
#[test]
fn a_stock_qemu_under_its_sandbox() {
    let Some(bench) = Bench::set_up() else { return };
    if !has_qemu() {
        return;
    }
    let host = Host::new();
    let deny = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
    for (name, options) in [
        ("sandboxed", ["-sandbox", deny]),
        ("as-nobody", ["-runas", "nobody"]),
    ] {
        let said = bench.path(name);
        let qemu = Bench::vm(
            name,
            qemu("qemu-system-x86_64".as_ref(), name)
                .args(options)
                .env("LD_PRELOAD", library())
                .stdout(fs::File::create(&said).unwrap())
                .stderr(Stdio::null()),
        );
        host.set(name, "70us");
        assert_own(name, 70_000);
        host.says(0, "undo");
        drop(qemu);
        assert_eq!(fs::read_to_string(said).unwrap(), "");
    }
}

/// As libvirt names an emulator: a link to `haltwise-exec` with QEMU's name.
#[test]
fn a_stock_qemu_by_the_wrapper() {
    let Some(bench) = Bench::set_up() else { return };
    if !has_qemu() {
        return;
    }
    let exec = haltwise().with_file_name("haltwise-exec");
    assert!(exec.exists(), "cargo build -p haltwise-exec");
    let link = bench.path("qemu-system-x86_64");
    std::os::unix::fs::symlink(exec, &link).unwrap();
    let start = |name: &str, library: &PathBuf| {
        let mut qemu = qemu(&link, name);
        qemu.env("HALTWISE_PRELOAD", library)
            .env("HALTWISE_HALT_POLL_NS", "30000");
        Bench::vm(name, qemu.stderr(Stdio::null()))
    };
    let host = Host::new();
    let wrapped = start("wrapped", &library());
    // From its first halt on.
    assert_own("wrapped", 30_000);
    host.set("wrapped", "70us");
    assert_own("wrapped", 70_000);
    // Without the library it is QEMU all the same.
    let bare = start("bare", &bench.path("nowhere.so"));
    assert_eq!(in_kernel_by("bare")[0].1, "follows");
    for (name, settable) in [("wrapped", true), ("bare", false)] {
        let vm = doctor(|vm| vm["name"] == name);
        assert_eq!(vm["ceiling_settable"], settable, "{vm}");
        assert_eq!(vm["ceiling_obstacle"].is_null(), settable, "{vm}");
    }
    drop((wrapped, bare));
}
