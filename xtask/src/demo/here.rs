//! The demo on this machine's own KVM.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::screen::{self, Figures};
use super::shell::{OUT, Shell};
use crate::say;

/// A guest that is woken 125 us after each of its answers. Under a ceiling of 200 us nearly every poll is met and they
/// burn nearly a CPU. Where only CPU time counts (goal density), no noise of a machine changes which setting is best.
const LOAD: &str = "pingpong --name demo --gap fixed:125us --host-wait spin --duration 6s --json";

/// The ceiling that it begins with: KVM's default, set for this VM alone.
const CEILING_NS: u64 = 200_000;

pub(super) fn run(shell: &Shell) -> Result<()> {
    let calibration = format!("--calibration {OUT}/calibration.json");
    shell.keep("haltwise-lab calibrate --quick --json", "calibration.json")?;
    let before = Run::record(shell, "before", CEILING_NS)?;
    let tune =
        format!("haltwise tune {OUT}/before --vm demo --ceiling-only --goal density {calibration}");
    let tuned = shell.ask(&format!("{tune} --json"))?;
    let recommended = tuned.pointer("/recommended/halt_poll_ns");
    let ceiling_ns = recommended.and_then(Value::as_u64).unwrap_or(CEILING_NS);
    let replay = |name: &str| {
        shell.ask(&format!(
            "haltwise replay {OUT}/{name} --policy kvm:max={ceiling_ns}ns --json {calibration}"
        ))
    };
    let replayed = replay("before")?;
    let after = Run::record(shell, "after", ceiling_ns)?;
    let again = replay("after")?;
    let [was, will, is] = [
        before.figures(&replayed, "recorded")?,
        before.figures(&replayed, "played/0/from_zero")?,
        after.figures(&again, "recorded")?,
    ];
    shell.keep(&tune, "tune.txt")?;
    shell.keep(
        &format!("haltwise diff {OUT}/before {OUT}/after"),
        "diff.txt",
    )?;
    shell.keep(
        &format!(
            "haltwise report {OUT}/before --vm demo --ceiling-only {calibration} --html {OUT}/report.html"
        ),
        "report.txt",
    )?;
    screen::show(CEILING_NS, ceiling_ns, [&was, &will, &is]);
    before.judge(&replayed, &again, &after, [&will, &is])?;
    say::note(&format!(
        "{OUT}/report.html shows the first recording in a browser; tune.txt says why this ceiling, diff.txt \
         how the two recordings differ"
    ));
    say::note(&format!(
        "for the VMs of a host: `sudo {}`, which changes nothing",
        shell.program("haltwise").display()
    ));
    Ok(())
}

struct Run {
    cpu_ns: f64,
    elapsed_ns: f64,
}

impl Run {
    fn record(shell: &Shell, name: &str, ceiling_ns: u64) -> Result<Self> {
        let said = shell.ask(&format!(
            "haltwise record -o {OUT}/{name} -- haltwise-lab run {LOAD} --cap {ceiling_ns}"
        ))?;
        let of = |pointer: &str| said.pointer(pointer).and_then(Value::as_f64);
        let cpu_ns = of("/vms/0/vcpus/0/cpu_ns").context("the lab says no CPU time")?;
        let elapsed_ns = of("/elapsed_ns").context("the lab says no time")?;
        ensure!(elapsed_ns > 0.0, "the lab ran for no time");
        Ok(Self { cpu_ns, elapsed_ns })
    }

    /// Says why the prediction is not what was measured, where that differs by more than a tenth.
    fn judge(
        &self,
        replayed: &Value,
        again: &Value,
        after: &Self,
        of: [&Figures; 2],
    ) -> Result<()> {
        let number = |of: &Value, pointer: &str| {
            let found = of.pointer(pointer).and_then(Value::as_f64);
            found.with_context(|| format!("replay says no {pointer}"))
        };
        let halts = number(replayed, "/vms/0/halts")?.max(1.0);
        let more = number(again, "/vms/0/halts")?;
        let cut = number(replayed, "/basis/doubts/poll_cut")?;
        screen::preempted(cut / halts);
        let base = |run: &Self, it: &Value| {
            Ok::<_, anyhow::Error>(run.cpu_ns - number(it, "/vms/0/recorded/poll_ns")?)
        };
        let switch_ns = number(replayed, "/basis/switch_cpu_ns")?;
        let blocks = |it: &Value| number(it, "/vms/0/recorded/blocks");
        let rest_ns = base(self, replayed)? - blocks(replayed)? * switch_ns;
        let measured_ns = (base(after, again)? - rest_ns / halts * more) / blocks(again)?.max(1.0);
        screen::differences(of, [switch_ns, measured_ns]);
        Ok(())
    }

    /// The figures of a row of `replay` on the recording of this run.
    ///
    /// A thread's CPU time is polling, switching, and what every halt costs whatever the setting: the exit, the entry
    /// and the guest's own instructions. The last is what was left of it while recorded.
    fn figures(&self, replayed: &Value, which: &str) -> Result<Figures> {
        let of = |row: &str, field: &str| {
            let found = replayed.pointer(&format!("/vms/0/{row}/{field}"));
            let found = found.and_then(Value::as_f64);
            found.with_context(|| format!("replay says no {field} of {row}"))
        };
        let number = |pointer: &str| replayed.pointer(pointer).and_then(Value::as_f64);
        let switch_ns = number("/basis/switch_cpu_ns").context("replay says no price")?;
        let halts = number("/vms/0/halts").filter(|&halts| halts > 0.0);
        let halts = halts.context("no halt was recorded")?;
        let settled = |row: &str| {
            Ok::<_, anyhow::Error>(of(row, "poll_ns")? + of(row, "blocks")? * switch_ns)
        };
        let rest_ns = self.cpu_ns - settled("recorded")?;
        // A guest that wakes later answers later, and so halts less often.
        let slower_ns = of(which, "latency_ns")? - of("recorded", "latency_ns")?;
        let elapsed_ns = self.elapsed_ns + slower_ns;
        Ok(Figures {
            poll: of(which, "poll_ns")? / elapsed_ns,
            thread: (rest_ns + settled(which)?) / elapsed_ns,
            mean_ns: of(which, "latency_mean_ns")?,
            p99_ns: of(which, "latency_p99_ns")?,
            halts_per_s: halts * 1e9 / elapsed_ns,
        })
    }
}
