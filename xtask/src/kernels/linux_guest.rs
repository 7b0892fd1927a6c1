//! A stock Linux guest under a stock QEMU with KVM, inside a stock kernel that is emulated.
//!
//! The lab cannot provide this: a VM that the authors of haltwise did not write. QMP stops the VM before
//! and after each recording, so that KVM's own counters and the recording speak of the same halts, and
//! each counter that both have must be equal, to the unit and the nanosecond.

mod counters;
#[path = "../../../crates/cli/tests/agree/documents.rs"]
mod documents;
mod explained;
mod inside;
mod interrupts;
mod joined;
pub(super) mod piloted;
mod proved;
pub(crate) mod rig;
pub(super) mod stability;
mod text;
mod tuned;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::check::{Check, Findings, Found};
use super::deb::Kernel;
use super::guest::{Guest, Left};
use super::initramfs::Initramfs;
use super::reported::{Exits, Report, Verified, ask, count, list, read};
use super::rule::Depth;
use super::{Boot, add_ours, emulator, knob, ours};
use crate::{say, tool};
use counters::Knows;

pub(super) const NAME: &str = "linux-guest";

/// Two kernels boot, one inside the other: 45 s on two cores that have nothing else to do. A hundred thousand idle
/// periods, which the guest records of itself where the checks are thorough, take most of an hour.
fn limit(depth: Depth) -> Duration {
    match depth {
        Depth::Quick => Duration::from_mins(5),
        Depth::Thorough => Duration::from_mins(50),
    }
}

/// Two systems, and a VM's memory beside them.
const MEMORY_MIB: u32 = 2048;

/// QEMU's own files that a guest without a display needs: firmware, and what loads a kernel.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "linuxboot_dma.bin"];

/// A load of the guest, while which a recording is made.
#[derive(Debug, Clone, Copy)]
struct Phase {
    name: &'static str,
    vm: &'static str,
    record: Record,
    before: &'static str,
    inside: &'static str,
    outside: &'static str,
    /// Source of most wake-ups.
    wake: Option<&'static str>,
    /// Which rules of `explain` fire, where that is judged.
    explained: Option<&'static [&'static str]>,
}

/// Arguments of `haltwise record`, and what it knows then.
type Record = (&'static str, Knows);

const FULL: Record = ("--source bpf --exits", Knows::Halts);
const DETAILED: Record = ("--source bpf --exits=pio,mmio,msr", Knows::Halts);
const COUNTS: Record = ("--source bpf --mode counts --exits", Knows::Sums);
const STATS: Record = (
    "--source bpf --mode stats --interval 200ms --exits",
    Knows::Sums,
);
const TRACEPOINTS: Record = ("--source tracepoints", Knows::Tracepoints);

/// The phase in which other tools record the same.
const BESIDE_TOOLS: &str = "text";

/// The VM whose guest's cpuidle driver is haltpoll.
const HALTPOLL: &str = "web2";

/// Console text once both VMs are there: nothing of ours but haltwise-exec runs before.
const UP: &str = "web2: up with ";

const TIMER: &str = "guest-tool timer 1000 300";
const PIPE: &str = "taskset 1 guest-tool pipe 300";
/// Windows are known after a call of grow or shrink, which a halt over the ceiling makes; where all fit the window,
/// tracepoints record none.
const SLEEP_AND_PIPE: &str = "sleep 1; taskset 1 guest-tool pipe 300";
const DISK: &str = "dd if=/dev/vda of=/dev/null bs=4k count=300 iflag=direct 2>/dev/null";

const fn phase(name: &'static str, record: Record, inside: &'static str) -> Phase {
    Phase {
        name,
        vm: "web1",
        record,
        before: "",
        inside,
        outside: "",
        wake: None,
        explained: None,
    }
}

/// Times are stretched twenty times and more: counts and shares are judged, never times.
fn phases(depth: Depth) -> Vec<Phase> {
    let woken = |by, phase| Phase {
        wake: Some(by),
        ..phase
    };
    let network = Phase {
        outside: "guest-tool request 10.9.1.2:9 300",
        ..phase("tcp", FULL, "guest-tool respond 9")
    };
    let mut phases = vec![
        woken("timer", phase("idle", FULL, "sleep 1")),
        woken("timer", phase("timer", FULL, TIMER)),
        woken("ipi", phase("pipe", FULL, PIPE)),
        woken("device", network),
        woken("device", phase("disk", FULL, DISK)),
        phase("tracepoints", TRACEPOINTS, SLEEP_AND_PIPE),
        phase("counts", COUNTS, PIPE),
        phase("stats", STATS, PIPE),
        phase(BESIDE_TOOLS, FULL, SLEEP_AND_PIPE),
        Phase {
            vm: HALTPOLL,
            ..phase("haltpoll", FULL, PIPE)
        },
    ];
    if depth == Depth::Thorough {
        phases.extend(explained::phases());
    }
    phases
}

/// The emulated host, and the check with all phases.
pub(super) fn boot(kernel: &Kernel, depth: Depth) -> Result<Boot> {
    let phases = phases(depth);
    let script = script(&phases, limit(depth), Some(depth));
    let release = kernel.release.clone();
    let judge = move |left: &Left| judge_all(&release, &phases, depth, left);
    booted(kernel, Check::new(NAME, script, limit(depth), judge))
}

/// The same with some phases alone, and nothing else.
pub(super) fn short_boot(kernel: &Kernel) -> Result<Boot> {
    let phases: Vec<Phase> = (phases(Depth::Quick).into_iter())
        .filter(|phase| SHORT.contains(&phase.name))
        .collect();
    let script = script(&phases, SHORT_LIMIT, None);
    let release = kernel.release.clone();
    let judge = move |left: &Left| judge_phases(&release, &phases, left);
    booted(kernel, Check::new(NAME, script, SHORT_LIMIT, judge))
}

/// Phases that show most: timers and IPIs, a device, halts of a guest that polls itself.
const SHORT: [&str; 4] = ["timer", "pipe", "disk", "haltpoll"];
const SHORT_LIMIT: Duration = Duration::from_mins(2);

/// The emulated host with one check, whose own programs run once both VMs are there.
fn booted(kernel: &Kernel, check: Check) -> Result<Boot> {
    let check = Check {
        begins: Some(UP),
        also_on_one_cpu: true,
        ..check
    };
    Ok((host(kernel)?, vec![check]))
}

fn judge_phases(release: &str, phases: &[Phase], left: &Left) -> Findings {
    if left.cpus == 1 {
        say::skipped("what woke the guests: the host has one CPU, so that guests halt less often");
    }
    let of = |phase: &Phase| {
        let dir = left.out_dir.join(phase.name);
        (phase.name, judge(phase, &dir, release, left.cpus))
    };
    phases.iter().map(of).collect()
}

fn judge_all(release: &str, phases: &[Phase], depth: Depth, left: &Left) -> Findings {
    let out = &left.out_dir;
    let recorded = inside::judge(&out.join("inside"), depth);
    let mut findings = judge_phases(release, phases, left);
    findings.extend([
        ("settings", settings(&out.join("settings"))),
        ("inside", recorded),
        ("joined", joined::judge(out)),
        ("proved", proved::judge(&out.join("proved"))),
    ]);
    if depth == Depth::Thorough {
        findings.push(("tuned", Ok(tuned::judge(&out.join("tuned")))));
    }
    findings
}

/// Whether a VM ran, as whichever verb says.
fn ran(vm: &Value) -> Option<bool> {
    let span_ns = vm["account"]["span_ns"].as_u64();
    let paused = match (vm["paused_ns"].as_u64(), span_ns) {
        (Some(0), _) => Some(false),
        (Some(paused_ns), Some(span_ns)) if paused_ns >= span_ns / 100 * 99 => Some(true),
        _ => vm["paused"].as_bool(),
    };
    vm["running"].as_bool().or(paused.map(|paused| !paused))
}

const UNSTARTED: &str = "unstarted";

/// Checks the VMs that a verb reports; at most one VM runs.
fn judge_vms(what: &str, reported: &Value, running: &[&str], found: &mut Found) {
    for name in ["web1", HALTPOLL, UNSTARTED] {
        let vm = list(reported, "vms").iter().find(|vm| vm["name"] == name);
        let expected = running.contains(&name);
        let text = format!("{what}: {vm:?}, where running is {expected}");
        found.require(vm.and_then(ran) == Some(expected), text);
    }
}

/// Checks the output of verbs for VMs that are paused, were never started, or run and are idle; and the output of
/// apply and status for VMs that follow.
fn settings(dir: &Path) -> Result<Found> {
    let mut found = Found::default();
    found.say("paused, unstarted, running, applied, proved, undone, with a ceiling of its own");
    let paused = read(&dir.join("paused.json"))?;
    judge_vms("status --check", &paused, &[], &mut found);
    let web1 = &["web1"];
    for file in ["running", "status", "top"] {
        let seen = read(&dir.join(file).with_extension("json"))?;
        judge_vms(file, &seen, web1, &mut found);
    }
    for source in ["bpf", "counts", "stats", "tracepoints"] {
        let capture = dir.join(source);
        for verb in [&["report", "--json"][..], &["top", "--once", "--json"]] {
            let seen = ask(verb, &capture)?;
            judge_vms(&format!("{source}: {}", verb[0]), &seen, web1, &mut found);
        }
        let wrong = documents::contradictions(&ours("haltwise")?, &capture);
        found.disagreements.extend(wrong);
    }
    let applied = &[
        ("web1", "follows", Some(2_000_000)),
        (HALTPOLL, "guest-disabled", None),
    ];
    // The host's parameter was changed between the two, and undo gives the VM what it has then.
    let [ceiling, restored] = [1_000_000, 3_000_000].map(|ns| [("web1", "own-cap", Some(ns))]);
    for (file, expected) in [
        ("apply.json", &applied[..]),
        ("status.json", &applied[..]),
        ("ceiling.json", &ceiling),
        ("restored.json", &restored),
    ] {
        knob::watched(&read(&dir.join(file))?, expected, &mut found);
    }
    Ok(found)
}

fn judge(phase: &Phase, dir: &Path, release: &str, cpus: u32) -> Result<Found> {
    let capture = dir.join("capture");
    let kvm = counters::Counters::between(&dir.join("kvm.before"), &dir.join("kvm.after"))?;
    let report: Report = ask(&["report", "--json"], &capture)?;
    let (_, knows) = phase.record;
    let mut found = counters::judge_halts(&kvm, &report, knows);
    if knows != Knows::Tracepoints {
        let exits = ["report", "--exits", "--json", "--by", "vcpu"];
        let exits: Exits = ask(&exits, &capture)?;
        counters::judge_exits(&kvm, &report, &exits, &mut found);
    }
    if matches!(knows, Knows::Halts | Knows::Tracepoints) {
        let verified: Verified = ask(&["verify", "--json"], &capture)?;
        judge_verified(&verified, phase, &mut found);
    }
    // A guest that polls itself is running when most interrupts come, and of an idle one many belong to the shell
    // that reads them.
    let has_wakes = phase.vm != HALTPOLL && phase.explained.is_none();
    // With one CPU `disk` left 105 halts for 300 reads, of which 24 ended by the device.
    let has_wakes = has_wakes && cpus > 1;
    if knows == Knows::Halts && has_wakes {
        let sources = interrupts::between(
            &dir.join("interrupts.before"),
            &dir.join("interrupts.after"),
        )?;
        let wakes = interrupts::wakes(&report);
        interrupts::judge(&sources, &wakes, phase.wake, &mut found);
    }
    found
        .disagreements
        .extend(documents::contradictions(&ours("haltwise")?, &capture));
    if let Some(expected) = phase.explained {
        let explain = ["report", "--findings", "--json", "--vm", phase.vm];
        let explained: Value = ask(&explain, &capture)?;
        explained::judge(&explained, expected, &mut found);
    }
    if phase.name == BESIDE_TOOLS {
        text::judge(dir, release, &mut found)?;
    }
    Ok(found)
}

/// Every halt but the first of each vCPU can be checked, and is as KVM's algorithm has it; but for those
/// of a guest that disabled host polling, and for what a loss makes unknown.
fn judge_verified(verified: &Verified, phase: &Phase, found: &mut Found) {
    let mut allowed = vec!["first"];
    if phase.vm == HALTPOLL {
        allowed.push("veto");
    }
    if phase.record.1 == Knows::Tracepoints {
        allowed.extend(["loss", "out-of-order", "window"]);
    }
    let skipped = |reason: &&str| count(&verified.skipped, reason);
    let skipped: u64 = allowed.iter().map(skipped).sum();
    let is_whole = verified.checked > 0 && verified.checked + skipped == verified.halts;
    let text = format!("verify: {verified:?}");
    found.require(verified.differences == 0 && is_whole, text);
    found.say(format_args!("{} verified", verified.checked));
}

const CEILING_NS: u32 = 5_000_000;

/// Script of an emulated host with two VMs that stand still at first: one whose QEMU is started by haltwise-exec, and
/// one with these options of its kernel and this root.
fn scripted(options: &str, root: &str, limit: Duration, text: &str) -> String {
    // Before its end, so that there is time to ask.
    let patience = limit.as_secs() * 3 / 5;
    let host = include_str!("linux_guest/host.sh");
    format!(
        "{host}echo {CEILING_NS} >/sys/module/kvm/parameters/halt_poll_ns\n\
         mkdir /wrapped\nln -s /bin/haltwise-exec /wrapped/qemu-system-x86_64\n\
         launch web1 '' /wrapped/qemu-system-x86_64 384 initramfs\n\
         launch web2 '{options}' qemu-system-x86_64 384 {root}\n\
         wait_for web1\nwait_for web2\n(watch_over $(({patience} * $(cat /run/slower))) web1 web2 &)\nqmp web1 stop >/dev/null\nqmp web2 stop >/dev/null\n\
         {text}touch /run/over\nfor vm in web1 web2 unstarted; do\n\
         [ ! -S /run/$vm.qmp ] || qmp $vm quit >/dev/null\ndone\nwait\nexit $failed\n"
    )
}

/// Script of the emulated host. The guest that records itself is booted with `nopvspin`: a vCPU that waits for a
/// paravirtual spinlock executes HLT, which is no idle period and which cpuidle does not count.
fn script(phases: &[Phase], limit: Duration, beyond: Option<Depth>) -> String {
    let mut text = String::from(include_str!("linux_guest/agent.sh"));
    for phase in phases {
        let Phase {
            name,
            vm,
            record: (record, _),
            before,
            inside,
            outside,
            ..
        } = phase;
        // Formatting into a String cannot fail.
        let function = if *name == BESIDE_TOOLS {
            "phase_beside_tools"
        } else {
            "phase"
        };
        let _ = writeln!(
            text,
            "{before}\n{function} {name} {vm} '{record}' '{inside}' '{outside}' ''"
        );
    }
    if let Some(depth) = beyond {
        let _ = writeln!(text, "specified {HALTPOLL}\nagent {HALTPOLL}");
        let _ = writeln!(text, "inside {HALTPOLL} {}", inside::load(depth));
        let _ = writeln!(text, "left_inside {HALTPOLL} proved");
        if depth == Depth::Thorough {
            let _ = writeln!(text, "joined {HALTPOLL} {}", joined::LOAD);
            let _ = writeln!(text, "left_inside {HALTPOLL} tuned");
        }
        text.push_str("settings web1\n");
    }
    let options = "nopvspin cpuidle_haltpoll.force=1 cpuidle.governor=haltpoll";
    scripted(options, "with-haltwise", limit, &text)
}

/// The emulated host, with a guest that has haltwise, and tools of others that record the same.
fn host(kernel: &Kernel) -> Result<Guest> {
    let host = bare_host(kernel, &guest(kernel, &[])?, kernel)?;
    let root = &host.root;
    root.nested("guest/with-haltwise", &with_haltwise(kernel)?)?;
    for program in ["perf", "trace-cmd"] {
        match tool::find(program) {
            Some(path) => root.program(&format!("bin/{program}"), &path)?,
            None => say::skipped(&format!("{NAME}: text of {program}: it is not installed")),
        }
    }
    Ok(host)
}

/// QEMU as it is installed here, and in the folder `guest` the root and the kernel that it boots.
fn bare_host(kernel: &Kernel, guest: &Initramfs, guest_kernel: &Kernel) -> Result<Guest> {
    let qemu = tool::find(emulator::PROGRAM).context("QEMU is not installed")?;
    let mut host = super::guest(kernel)?;
    host.memory_mib = MEMORY_MIB;
    host.modules.extend(["tun", "vhost_net"]);
    let root = &host.root;
    root.program("bin/qemu-system-x86_64", &qemu)?;
    root.program("guest/kernel", &guest_kernel.image)?;
    let own = ["guest-tool", "haltwise-exec", "libhaltwise_preload.so"];
    add_ours(root, &own)?;
    root.nested("guest/initramfs", guest)?;
    for file in &firmware()? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        root.program(&format!("firmware/{name}"), file)?;
    }
    Ok(host)
}

const DEVICES: [&str; 5] = [
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "virtio_console",
    "qemu_fw_cfg",
];

fn guest(kernel: &Kernel, devices: &[&str]) -> Result<Initramfs> {
    let root = Initramfs::new(include_str!("linux_guest/guest.sh"))?;
    add_ours(&root, &["guest-tool"])?;
    root.modules(kernel, &[&DEVICES, devices].concat())?;
    Ok(root)
}

fn with_haltwise(kernel: &Kernel) -> Result<Initramfs> {
    let root = guest(kernel, &[])?;
    add_ours(&root, &["haltwise"])?;
    match guest_agent() {
        Ok(agent) => root.program("bin/qemu-ga", &agent)?,
        Err(error) => say::skipped(&format!("{NAME}: agent: {error:#}")),
    }
    let haltpoll = include_str!("../../../contrib/guest/haltwise-haltpoll");
    root.file("haltwise-haltpoll", haltpoll)?;
    root.file("inside.sh", include_str!("linux_guest/inside.sh"))?;
    root.file("plan.json", include_str!("linux_guest/plan.json"))?;
    root.file("sets", include_str!("linux_guest/sets"))?;
    root.file("loads", include_str!("linux_guest/loads"))?;
    Ok(root)
}

/// Debian's qemu-ga: the installed one, or one that is fetched and only unpacked.
fn guest_agent() -> Result<PathBuf> {
    if let Some(installed) = tool::find("qemu-ga") {
        return Ok(installed);
    }
    let home = super::cache().join("qemu-guest-agent");
    let program = home.join("usr/sbin/qemu-ga");
    if !program.is_file() {
        super::deb::fetch_packages(str::to_owned, &["qemu-guest-agent"], &home)?;
    }
    Ok(program)
}

/// Where QEMU keeps its own files.
pub(super) fn firmware() -> Result<Vec<PathBuf>> {
    let dirs = tool::ask(Command::new(emulator::PROGRAM).args(["-L", "help"]))?;
    let find = |name: &&str| {
        let paths = dirs.lines().map(|dir| Path::new(dir).join(name));
        let mut there = paths.filter(|path| path.is_file());
        there.next().with_context(|| format!("QEMU has no {name}"))
    };
    FIRMWARE.iter().map(find).collect()
}

#[cfg(test)]
pub(super) fn scripts() -> Vec<String> {
    let depth = Depth::Thorough;
    let all = script(&phases(depth), limit(depth), Some(depth));
    let short = script(&phases(Depth::Quick), SHORT_LIMIT, None);
    let others = [all, short, piloted::script(), stability::script()];
    others.into_iter().chain(rig::scripts()).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    /// A VM that answers, or is paused, is left alone; one that runs and thrice gives no answer ends the boot.
    #[test]
    fn a_vm_is_given_up_at_the_third_silence_in_a_row() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            tool::ask(Command::new("chmod").arg("+x").arg(&path)).unwrap();
        };
        // Each call of one takes the next line of its own file.
        let next = "head -1 $0.says; sed -i 1d $0.says";
        let says = |name: &str, lines: &str| {
            program(name, next);
            std::fs::write(dir.path().join(format!("{name}.says")), lines).unwrap();
        };
        let (running, paused) = ("{\"running\": true}\n", "{\"running\": false}\n");
        says(
            "guest-tool",
            &format!("{running}{paused}{}", running.repeat(9)),
        );
        says("nc", "here\n\n\nhere\n\n\n\n");
        let host = dir.path().join("host");
        std::fs::write(&host, include_str!("linux_guest/host.sh")).unwrap();
        let script = ". $0; sleep() { :; }; timeout() { shift; \"$@\"; }
            give_up() { echo \"gives up with $1\"; exit; }; watch_over 0 web1";
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let mut sh = Command::new("sh");
        let said = tool::ask(sh.args(["-c", script]).arg(&host).env("PATH", path)).unwrap();
        assert!(said.trim_end().ends_with("gives up with 75"), "{said}");
        let left = std::fs::read_to_string(dir.path().join("nc.says")).unwrap();
        assert_eq!(left, "", "asked until then");
    }

    #[test]
    fn phases_have_names_of_their_own_and_keep_their_quotes() {
        let phases = phases(Depth::Thorough);
        for (n, phase) in phases.iter().enumerate() {
            assert!(phases[..n].iter().all(|other| other.name != phase.name));
            assert!(!format!("{phase:?}").contains('\''), "{}", phase.name);
        }
    }

    #[test]
    fn a_halt_that_was_not_checked_disagrees() {
        for (checked, differences, wrong) in [(8, 0, 0), (7, 0, 1), (8, 1, 1)] {
            let verified = serde_json::json!({"halts": 10, "checked": checked,
                "differences": differences, "skipped": {"first": 2}});
            let mut found = Found::default();
            let phase = phases(Depth::Quick)[0];
            judge_verified(
                &serde_json::from_value(verified).unwrap(),
                &phase,
                &mut found,
            );
            assert_eq!(found.disagreements.len(), wrong, "{checked} {differences}");
        }
    }
}
