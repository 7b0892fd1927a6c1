//! A check in a stock kernel: a script that runs inside, and what is judged of what it left. Checks may share a boot.
//!
//! A boot that the emulator spoilt is tried again with the checks that it left undone; a fault of ours is a failure.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::guest::{Booted, Guest, Left};
use super::qemu::Ended;
use crate::say;

/// Result of one judgement; a disagreement is a sentence.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) summary: String,
    pub(crate) disagreements: Vec<String>,
}

impl Found {
    /// Adds to the summary.
    pub(crate) fn say(&mut self, text: impl Display) {
        let separator = if self.summary.is_empty() { "" } else { "; " };
        // Formatting into a String cannot fail.
        let _ = write!(self.summary, "{separator}{text}");
    }

    pub(crate) fn disagree(&mut self, text: impl Into<String>) {
        self.disagreements.push(text.into());
    }

    /// Disagrees unless the condition holds.
    pub(crate) fn require(&mut self, holds: bool, text: impl Into<String>) {
        if !holds {
            self.disagree(text);
        }
    }

    pub(crate) fn equal(&mut self, what: impl Display, kvm: u64, recorded: u64) {
        let text = format!("{what}: KVM {kvm}, recorder {recorded}");
        self.require(kvm == recorded, text);
    }
}

/// Findings about what a script left, each under its name; an error is a disagreement.
pub(crate) type Findings = Vec<(&'static str, Result<Found>)>;

type Judge = Box<dyn Fn(&Left) -> Findings>;

pub(crate) struct Check {
    pub(crate) name: String,
    /// Script that runs inside; its folder is /out, and everything in the folder is brought back.
    pub(crate) script: String,
    /// How long it takes at the most, its boot included, on a machine that does nothing else.
    pub(crate) limit: Duration,
    /// Console text after which our programs run, if the programs do not run at once: kernel faults before the text
    /// are the emulator's.
    pub(crate) begins: Option<&'static str>,
    /// Whether it is worth something on one CPU, too. QEMU 10.0 at times delivers an interrupt that one emulated CPU sent to
    /// another at the instruction after VMRUN, where GS is still the guest's, and the host faults until it resets itself. One
    /// CPU sends none.
    pub(crate) also_on_one_cpu: bool,
    pub(crate) judge: Judge,
}

impl Check {
    pub(crate) fn new(
        name: impl Into<String>,
        script: String,
        limit: Duration,
        judge: impl Fn(&Left) -> Findings + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            script,
            limit,
            begins: None,
            also_on_one_cpu: false,
            judge: Box::new(judge),
        }
    }
}

/// How often a boot is tried: with all CPUs, and then with one, where the checks allow it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tries {
    pub(crate) as_is: u32,
    pub(crate) on_one_cpu: u32,
}

/// Exit code of a script if a VM inside stands still, whatever is tried, or its guest panics.
const STOOD_STILL: i32 = 75;

/// Fault of a boot, as the console and the end of the boot show.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Emulator(String),
    Ours(String),
}

/// Runs checks in one boot of a guest that has the files of all; gives those that the emulator left undone each time, each
/// with the reason.
///
/// # Errors
/// Where a check fails, the guest does not come to its end in time, or its kernel reports an oops.
pub(crate) fn run(
    guest: &mut Guest,
    checks: Vec<Check>,
    tries: Tries,
    work: &Path,
) -> Result<Vec<String>> {
    let mut undone = checks;
    let mut wrong = Vec::new();
    let mut last = String::new();
    let mut times = 1;
    for nth in 0..tries.as_is + tries.on_one_cpu {
        if nth >= tries.as_is && undone.iter().all(|check| check.also_on_one_cpu) {
            // Two VMs inside took 82 s to boot on one CPU, and 38 s on two.
            (guest.cpus, times) = (1, 2);
        }
        let scripts = undone.iter().map(|check| (&*check.name, &*check.script));
        let limit = undone.iter().map(|check| check.limit * times).sum();
        let booted = guest.boot(&scripts.collect::<Vec<_>>(), work, limit)?;
        pass_on(&booted.console);
        for left in &booted.left {
            let at = undone.iter().position(|check| check.name == left.name);
            let at = at.context("a result of no check")?;
            if left.exit_code == STOOD_STILL {
                continue;
            }
            let check = undone.remove(at);
            if let Err(error) = judged(&check, left) {
                say::note(&format!("FAILED: {}: {error:#}", check.name));
                wrong.push(format!("{}: {error:#}", check.name));
            }
        }
        let elapsed = say::seconds(booted.elapsed);
        say::note(&format!("{} checks within {elapsed}", booted.left.len()));
        match fault(&booted, &undone) {
            None if wrong.is_empty() => break,
            None => {}
            Some(Fault::Ours(why)) => wrong.push(why),
            Some(Fault::Emulator(why)) => {
                let console = kept_console(work, nth);
                say::note(&format!("the emulator spoilt this boot: {why}{console}"));
                last = why;
            }
        }
        if !wrong.is_empty() {
            bail!("{}; see {}", wrong.join("; "), work.display());
        }
    }
    let spoilt = |check: Check| format!("the emulator spoilt {} each time: {last}", check.name);
    Ok(undone.into_iter().map(spoilt).collect())
}

fn pass_on(console: &str) {
    let said = console.lines().filter_map(|line| line.split_once("check:"));
    for (_, text) in said {
        say::note(text.trim());
    }
}

fn kept_console(work: &Path, nth: u32) -> String {
    let kept = work.join(format!("console.spoilt-{nth}"));
    let copied = std::fs::copy(work.join("console"), &kept);
    copied.map_or_else(|_| String::new(), |_| format!("; see {}", kept.display()))
}

fn judged(check: &Check, left: &Left) -> Result<()> {
    let dmesg = left.out_dir.join("dmesg");
    let log = std::fs::read_to_string(&dmesg).context("read dmesg")?;
    if let Some((_, line)) = trouble(&log) {
        bail!("the kernel reports `{line}`; see {}", dmesg.display());
    }
    let findings = (check.judge)(left).into_iter();
    let disagreements: usize = findings.map(|(name, found)| tell(name, found)).sum();
    if disagreements > 0 || left.exit_code != 0 {
        bail!(
            "{disagreements} disagreements, and the script returned {}; results are in {}",
            left.exit_code,
            left.out_dir.display()
        );
    }
    Ok(())
}

/// Says what was found; gives the number of disagreements.
fn tell(check: &str, found: Result<Found>) -> usize {
    let found = found.unwrap_or_else(|error| Found {
        summary: "cannot be judged".to_owned(),
        disagreements: vec![format!("{error:#}")],
    });
    say::note(&format!("{check:<13} {}", found.summary));
    for text in &found.disagreements {
        say::note(&format!("{check:<13} DISAGREES: {text}"));
    }
    found.disagreements.len()
}

/// Fault that spoilt a boot in which these checks were left undone.
fn fault(booted: &Booted, undone: &[Check]) -> Option<Fault> {
    let begins = |name: &str| {
        let check = undone.iter().find(|check| check.name == name);
        check.and_then(|check| check.begins)
    };
    let fault = fault_of(&booted.console, &booted.ended, &begins);
    let stood_still = "a VM inside it stands still, or its guest panics".to_owned();
    fault.or((!undone.is_empty()).then_some(Fault::Emulator(stood_still)))
}

/// The same, as the console and its end show; `begins` gives the sign after which a check's own programs run.
fn fault_of(
    console: &str,
    ended: &Ended,
    begins: &dyn Fn(&str) -> Option<&'static str>,
) -> Option<Fault> {
    let emulator = |text: &str| Some(Fault::Emulator(text.to_owned()));
    if let Some((at, line)) = trouble(console) {
        let text = format!("the kernel reports `{line}`");
        let is_known = is_of_stale_code(&console[at..]) || is_of_a_vcpu(&console[at..]);
        return Some(if is_ours_begun(&console[..at], begins) && !is_known {
            Fault::Ours(format!("{text}; the console ends:\n{}", tail(console, 60)))
        } else {
            Fault::Emulator(text)
        });
    }
    match ended {
        Ended::ByItself if console.contains(POWERED_OFF) => None,
        // A machine that resets itself: neither init nor the kernel ends it before.
        Ended::ByItself => emulator("it ended before its results were on the disk"),
        Ended::Stalled => emulator("one of its CPUs stands still"),
        Ended::Frozen => emulator("it stands still"),
        Ended::Late => Some(Fault::Ours(format!(
            "not at its end in time; the console ends:\n{}",
            tail(console, 60)
        ))),
    }
}

const POWERED_OFF: &str = "init: all results are on the disk";

/// Whether a program of ours has run, as a console shows up to some place.
fn is_ours_begun(console: &str, begins: &dyn Fn(&str) -> Option<&'static str>) -> bool {
    let began = |line: &str| {
        let (_, name) = line.split_once("init: ")?;
        Some(name.strip_suffix(" begins")?.to_owned())
    };
    let names: Vec<String> = console.lines().filter_map(began).collect();
    let Some((last, before)) = names.split_last() else {
        return false;
    };
    !before.is_empty() || begins(last).is_none_or(|sign| console.contains(sign))
}

/// Whether a kernel's own stack or registers are lost in the thread of a vCPU, where no program of ours stands on that
/// stack: the emulator mixes up host and guest at VMRUN and #VMEXIT. A BPF program cannot do that, the verifier sees to it.
fn is_of_a_vcpu(trouble: &str) -> bool {
    let end = trouble.find("</TASK>").unwrap_or(trouble.len());
    let thread = trouble
        .lines()
        .find_map(|line| Some(line.split_once(" Comm: ")?.1));
    thread.is_some_and(|name| name.contains("/KVM") || name.contains("-vcpu"))
        && (trouble.lines().next()).is_some_and(|line| line.contains("corrupted stack end"))
        && !["bpf", "perf_", "trace_"]
            .iter()
            .any(|ours| trouble[..end].contains(ours))
}

/// Whether a kernel stumbles over a breakpoint where its code has none: it patches itself by breakpoints (static branches,
/// trampolines), and the emulator ran what it had translated before the last patch.
fn is_of_stale_code(trouble: &str) -> bool {
    let code = trouble
        .lines()
        .find_map(|line| Some(line.split_once(" Code: ")?.1));
    // RIP, in angle brackets, is behind the breakpoint.
    let before = code.and_then(|code| code.split_once(" <")?.0.rsplit(' ').next());
    trouble
        .lines()
        .next()
        .is_some_and(|line| line.contains("Oops: int3"))
        && before.is_some_and(|byte| byte != "cc")
}

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The first line in which a kernel says that something is wrong with it, and where it is. Stalls and late timers are not
/// among them: under emulation on a busy machine they say nothing about the kernel.
fn trouble(log: &str) -> Option<(usize, &str)> {
    const SIGNS: [&str; 7] = [
        "Oops:",
        "BUG:",
        "Kernel panic",
        "general protection fault",
        "kernel NULL pointer",
        "unable to handle page fault",
        "WARNING: CPU:",
    ];
    let stall = |line: &str| line.contains("soft lockup") || line.contains("workqueue lockup");
    let line = log
        .lines()
        .find(|line| SIGNS.iter().any(|sign| line.contains(sign)) && !stall(line))?;
    Some((line.as_ptr() as usize - log.as_ptr() as usize, line))
}

#[cfg(test)]
mod test;
