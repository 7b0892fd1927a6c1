//! Changes of ceilings while controllers and VMMs are killed, fork, start another program, replace their VM and
//! are reset. After each the kernel's own `struct kvm` is read, and in the end every VMM has the fds and threads that
//! it had and has printed nothing.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use super::super::bench::{Bench, Running, haltwise, told};
use super::super::tries::{judge, tries};
use super::Host;
use super::vmm::{By, Qemu, Vmm};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    ControllerKilled,
    VmmKilled,
    Forked,
    AnotherProgram,
    Replaced,
    OwnCeiling,
    TwoControllers,
    Reset,
}

const ALL: [Disturbance; 9] = [
    Disturbance::Nothing,
    Disturbance::ControllerKilled,
    Disturbance::VmmKilled,
    Disturbance::Forked,
    Disturbance::AnotherProgram,
    Disturbance::Replaced,
    Disturbance::OwnCeiling,
    Disturbance::TwoControllers,
    Disturbance::Reset,
];

struct Scene {
    bench: Bench,
    host: Host,
    other: Host,
    vmms: [Vmm; 2],
    qemu: Option<Qemu>,
    failures: Vec<String>,
}

#[test]
fn many_changes_leave_nothing_behind() {
    let Some(bench) = Bench::set_up() else { return };
    let vmms = [("preloaded", By::Preload), ("linked", By::Crate)];
    let vmms = vmms.map(|(name, by)| Vmm::start(&bench, name, by));
    let qemu = Qemu::start(&bench);
    let without = if qemu.is_some() { "" } else { " (no QEMU)" };
    let mut scene = Scene {
        bench,
        host: Host::new(),
        other: Host::new(),
        vmms,
        qemu,
        failures: Vec::new(),
    };
    let tries = tries(40);
    for turn in 0..tries {
        scene.turn(turn);
    }
    scene.end();
    let attack = format!("changes of a ceiling{without}");
    judge(&attack, tries, &scene.failures);
}

impl Scene {
    fn turn(&mut self, turn: u64) {
        let count = u64::try_from(ALL.len()).unwrap();
        let disturbance = ALL[usize::try_from(turn % count).unwrap()];
        let which = usize::try_from(turn / count % 2).unwrap();
        let ns = turn * 1_000 + 1;
        let said = match disturbance {
            Disturbance::Nothing => self.changed(which, ns),
            Disturbance::ControllerKilled => self.controller_killed(which, ns, turn),
            Disturbance::VmmKilled => self.vmm_killed(ns, turn),
            Disturbance::Forked => self.while_it_has_a_child(which, ns),
            Disturbance::AnotherProgram => self.another_program(which, ns),
            Disturbance::Replaced => self.replaced(which, ns),
            Disturbance::OwnCeiling => self.own_ceiling(ns),
            Disturbance::TwoControllers => self.two_controllers(which, ns),
            Disturbance::Reset => self.reset(ns),
        };
        if let Err(said) = said {
            let failure = format!("{disturbance:?}, VMM {which}, {ns} ns: {said}");
            self.failures.push(failure);
        }
    }

    fn changed(&self, which: usize, ns: u64) -> Result<(), String> {
        self.set(self.vmms[which].id(), ns)
    }

    fn set(&self, pid: u32, ns: u64) -> Result<(), String> {
        self.host
            .done(&format!("apply --vm {pid} --ceiling {ns} --yes"))?;
        has(pid, &[ns])
    }

    /// It is killed at any moment of the change, or has ended before. What comes next works.
    fn controller_killed(&self, which: usize, ns: u64, turn: u64) -> Result<(), String> {
        let apply = self.host.start(self.vmms[which].id(), ns + 1);
        sleep(Duration::from_millis(turn / 18 * 7 % 64));
        let output = apply.end(Signal::KILL);
        if !matches!(output.status.code(), Some(0) | None) {
            return Err(told(&output));
        }
        self.changed(which, ns)
    }

    /// The VMM is killed at any moment of the change. Undo knows that the VM has ended.
    fn vmm_killed(&self, ns: u64, turn: u64) -> Result<(), String> {
        let victim = Vmm::start(&self.bench, "victim", By::Preload);
        let pid = victim.id();
        let apply = self.host.start(pid, ns);
        sleep(Duration::from_millis(turn % 64));
        drop(victim);
        let output = apply.output();
        let said = told(&output);
        if !matches!(output.status.code(), Some(0..=3)) || said.contains("panicked") {
            return Err(said);
        }
        self.host.done("undo")
    }

    /// The child has the same fds: of the socket and of the VM.
    fn while_it_has_a_child(&mut self, which: usize, ns: u64) -> Result<(), String> {
        self.vmms[which].command("fork");
        let during = self.changed(which, ns);
        self.vmms[which].command("reap");
        during
    }

    /// The VM of the program that follows in the same process has no ceiling, and is given one as a new VM is.
    fn another_program(&mut self, which: usize, ns: u64) -> Result<(), String> {
        self.changed(which, ns + 1)?;
        self.vmms[which].command("exec");
        self.changed(which, ns)
    }

    /// The new VM gets the ceiling of the old one, and another after that.
    fn replaced(&mut self, which: usize, ns: u64) -> Result<(), String> {
        self.changed(which, ns + 1)?;
        self.vmms[which].command("replace");
        has(self.vmms[which].id(), &[ns + 1])?;
        self.changed(which, ns)
    }

    /// A ceiling that the VMM sets itself is what was in force before.
    fn own_ceiling(&mut self, ns: u64) -> Result<(), String> {
        // With `Crate`, nothing records changes that bypass the crate.
        let preloaded = 0;
        self.host.done("undo")?;
        self.vmms[preloaded].command(&format!("own {}", ns + 1));
        self.changed(preloaded, ns)?;
        self.host.done("undo")?;
        has(self.vmms[preloaded].id(), &[ns + 1])
    }

    /// Both are answered, or get as an error what the other has set.
    fn two_controllers(&self, which: usize, ns: u64) -> Result<(), String> {
        let pid = self.vmms[which].id();
        let controllers = [(&self.host, ns), (&self.other, ns + 1)];
        let controllers = controllers.map(|(host, ns)| host.start(pid, ns));
        let mut said = String::new();
        let mut codes = Vec::new();
        for controller in controllers {
            let output = controller.output();
            codes.push(output.status.code());
            let _ = writeln!(said, "{}", told(&output));
        }
        if !codes.contains(&Some(0)) || codes.contains(&None) {
            return Err(said);
        }
        has(pid, &[ns, ns + 1])?;
        // The one that was overtaken says so, and takes over if asked to.
        self.other.take_over(pid, ns + 1)?;
        self.host.take_over(pid, ns)
    }

    fn reset(&mut self, ns: u64) -> Result<(), String> {
        let Some(qemu) = &mut self.qemu else {
            return Ok(());
        };
        let pid = qemu.id();
        qemu.reset();
        self.set(pid, ns)?;
        self.qemu.as_mut().unwrap().reset();
        has(pid, &[ns])
    }

    fn end(&mut self) {
        // Where the last turn has undone all, there is something to undo again.
        self.failures.extend(self.changed(0, 1).err());
        let undone = self.host.done("undo");
        let failed = undone.err().map(|said| format!("undo: {said}"));
        self.failures.extend(failed);
        let left = self.vmms.iter().map(Vmm::left);
        let left = left.chain([self.qemu.as_ref().and_then(Qemu::left)]);
        self.failures.extend(left.flatten());
    }
}

impl Host {
    fn start(&self, pid: u32, ns: u64) -> Running {
        Running::start(
            Command::new(haltwise())
                .args(["apply", "--vm", &pid.to_string()])
                .args(["--ceiling", &ns.to_string(), "--yes", "--root"])
                .arg(self.root())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )
    }

    /// Sets a ceiling whatever others have set, and reads it back.
    fn take_over(&self, pid: u32, ns: u64) -> Result<(), String> {
        self.done(&format!(
            "apply --vm {pid} --ceiling {ns} --yes --take-over"
        ))?;
        has(pid, &[ns])
    }

    /// It succeeds, or what is said instead.
    fn done(&self, line: &str) -> Result<(), String> {
        let (code, said) = self.run(line);
        if code == Some(0) { Ok(()) } else { Err(said) }
    }
}

/// Whether the kernel has one of these ceilings for the VM of a process.
fn has(pid: u32, expected: &[u64]) -> Result<(), String> {
    let kernel = super::in_kernel(|vm| vm["pid"] == pid);
    let is_one = |(ns, by): &(u64, String)| expected.contains(ns) && by == "own-cap";
    if matches!(&kernel[..], [one] if is_one(one)) {
        return Ok(());
    }
    Err(format!("the kernel has {kernel:?}, not {expected:?}"))
}
