//! The kernel's rule of halt polling, held against the kernel: a grid of settings, odd ones included,
//! each recorded inside a stock kernel while lab guests halt. `haltwise verify` must then find every
//! transition as its rule has it, and the transitions that a setting allows must have happened.
//!
//! Parameters are written inside the emulated guest, never on this machine.

mod grid;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::deb::Kernel;
use super::scenario::PRELUDE;
use super::{Binaries, LIMIT};
use crate::say;
use grid::{Setting, settings};

/// How many halts each setting is to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Some hundreds: what every run of all tests can afford.
    Quick,
    /// Five thousand.
    Thorough,
}

impl Depth {
    /// Rounds of the lab's guest.
    fn rounds(self) -> u32 {
        match self {
            Self::Quick => 600,
            Self::Thorough => 5_500,
        }
    }

    /// Halts that must have been checked.
    fn least(self) -> u64 {
        match self {
            Self::Quick => 500,
            Self::Thorough => 5_000,
        }
    }

    /// Settings to a boot. The emulator spoils a boot now and then, see [`super::guest`]; the longer
    /// it is the more is to be done again.
    fn settings_per_boot(self) -> usize {
        match self {
            Self::Quick => 6,
            Self::Thorough => 4,
        }
    }
}

/// What we read of `haltwise verify --json`.
#[derive(Debug, Deserialize)]
struct Verified {
    checked: u64,
    differences: u64,
    several_settings: u64,
    transitions: std::collections::BTreeMap<String, Count>,
    skipped: std::collections::BTreeMap<String, u64>,
    capture: Captured,
    shown: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Count {
    matched: u64,
}

#[derive(Debug, Deserialize)]
struct Captured {
    lost: u64,
}

/// The names of all settings.
pub(crate) fn names() -> Vec<&'static str> {
    settings().into_iter().map(|setting| setting.name).collect()
}

/// Runs the settings whose name contains `filter`.
pub(crate) fn run(
    kernel: &Kernel,
    binaries: &Binaries,
    filter: Option<&str>,
    depth: Depth,
    work: &Path,
) -> Result<()> {
    let mut settings = settings();
    settings.retain(|setting| filter.is_none_or(|text| setting.name.contains(text)));
    let work = work.join("rule");
    let mut disagreements = 0;
    for (boot, settings) in settings.chunks(depth.settings_per_boot()).enumerate() {
        if !super::has_time(&format!(
            "the rule under {} and what follows",
            settings[0].name
        )) {
            break;
        }
        let work = work.join(boot.to_string());
        std::fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
        disagreements += run_boot(kernel, binaries, settings, depth, &work)?;
    }
    if disagreements > 0 {
        bail!(
            "{disagreements} disagreements; captures are in {}",
            work.display()
        );
    }
    Ok(())
}

/// Runs some settings in one boot; how many disagreed.
fn run_boot(
    kernel: &Kernel,
    binaries: &Binaries,
    settings: &[Setting],
    depth: Depth,
    work: &Path,
) -> Result<usize> {
    let guest = binaries.guest(kernel)?.script(&script(settings, depth));
    let run = guest.run_patiently(work, 2 * LIMIT)?;
    let said = run.console.lines();
    for line in said.filter_map(|line| line.strip_prefix("check:")) {
        say::note(line.trim());
    }
    if run.exit_code != 0 {
        bail!(
            "the script returned {}; see {}",
            run.exit_code,
            work.join("console").display()
        );
    }
    let mut disagreements = 0;
    for setting in settings {
        let dir = run.out_dir.join(setting.name);
        let verified = verify(binaries, &dir).with_context(|| format!("rule {}", setting.name))?;
        say::note(&format!("{:<16} {}", setting.name, verified.summary()));
        for text in verified.disagreements(setting, depth) {
            say::note(&format!("{:<16} DISAGREES: {text}", setting.name));
            disagreements += 1;
        }
    }
    say::note(&format!("all within {}", say::seconds(run.elapsed)));
    Ok(disagreements)
}

/// Verifies a capture that a guest left behind, here and not inside: it is the same program.
fn verify(binaries: &Binaries, dir: &Path) -> Result<Verified> {
    let output = Command::new(&binaries.haltwise)
        .args(["verify", "--json"])
        .arg(dir.join("capture"))
        .output()
        .context("start haltwise verify")?;
    std::fs::write(dir.join("verify.json"), &output.stdout).context("keep the result")?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "understand verify: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

impl Verified {
    fn matched(&self, transition: &str) -> u64 {
        self.transitions.get(transition).map_or(0, |it| it.matched)
    }

    fn summary(&self) -> String {
        let [grow, shrink, silent, none] =
            ["grow", "shrink", "silent", "none"].map(|name| self.matched(name));
        let skipped: u64 = self.skipped.values().sum();
        format!(
            "{} checked, {} differ: {grow} grow, {shrink} shrink, {silent} silent, {none} none; \
             {skipped} not checked, {} against several settings",
            self.checked, self.differences, self.several_settings
        )
    }

    fn disagreements(&self, setting: &Setting, depth: Depth) -> Vec<String> {
        let mut found = Vec::new();
        if self.differences > 0 {
            let first = self.shown.first().map(ToString::to_string);
            let first = first.unwrap_or_default();
            found.push(format!(
                "{} differences, the first: {first}",
                self.differences
            ));
        }
        if self.checked < depth.least() {
            found.push(format!("only {} halts were checked", self.checked));
        }
        if self.capture.lost > 0 {
            found.push(format!("{} events were lost", self.capture.lost));
        }
        for transition in setting.allows {
            if self.matched(transition) == 0 {
                found.push(format!("there was no {transition}"));
            }
        }
        found
    }
}

/// The guest's script: for each setting a folder with the capture.
fn script(settings: &[Setting], depth: Depth) -> String {
    let mut text = format!("cat >/run/lab.sh <<'END'\n{PRELUDE}{SETTER}END\n{SETTER}failed=0\n");
    for setting in settings {
        let name = setting.name;
        // Formatting into a String cannot fail.
        let _ = writeln!(text, "mkdir /out/{name}\nset_all {}", setting.before);
        let _ = writeln!(text, "(cat /run/lab.sh; cat <<'END'");
        // Where settings change, there should be time for all of them.
        let times = if setting.during.is_empty() { 1 } else { 3 };
        let rounds = (depth.rounds() * times).to_string();
        let load = setting.load.replace("ROUNDS", &rounds);
        if setting.during.is_empty() {
            let _ = writeln!(text, "lab {name}/lab '{load}'");
            if let Some(then) = setting.then {
                let load = then.replace("ROUNDS", &(depth.rounds() / 4).to_string());
                let _ = writeln!(text, "lab {name}/then '{load}'");
            }
        } else {
            let _ = writeln!(text, "lab {name}/lab '{load}' & lab=$!\n");
            let _ = writeln!(text, "while kill -0 $lab 2>/dev/null; do");
            for parameters in setting.during {
                let _ = writeln!(text, "set_all {parameters}\nsleep 0.5");
            }
            let _ = writeln!(text, "done\nwait $lab");
        }
        let rung = setting.rung;
        let _ = writeln!(
            text,
            "END\n) >/run/{name}.sh\n\
             haltwise record --rung {rung} --json -o /out/{name}/capture -- sh /run/{name}.sh \
             >/out/{name}/record.json || {{ echo \"check: record {name} returned $?\"; failed=1; }}"
        );
    }
    text.push_str("exit $failed\n");
    text
}

/// Sets the four parameters, in KVM's own order: ceiling, grow, `grow_start`, shrink.
const SETTER: &str = r#"set_all() {
    echo "$1" >/sys/module/kvm/parameters/halt_poll_ns
    echo "$2" >/sys/module/kvm/parameters/halt_poll_ns_grow
    echo "$3" >/sys/module/kvm/parameters/halt_poll_ns_grow_start
    echo "$4" >/sys/module/kvm/parameters/halt_poll_ns_shrink
}
"#;

#[cfg(test)]
mod test;
