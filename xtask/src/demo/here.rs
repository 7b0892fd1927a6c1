//! The loop on this machine's own KVM.

use anyhow::{Context, Result};
use serde_json::Value;

use super::LOAD;
use super::screen::{self, Proof};
use super::shell::{self, OUT, Shell};
use crate::{say, tool};

/// Wake-ups in the recording, and in each block of a proof.
const RECORDED: &str = "30000";
const BLOCK: &str = "3000";

/// Rounds of three blocks in each proof: few, for a demo; the intervals are as wide as they are.
const ROUNDS: &str = "8";

/// Runs it.
pub(super) fn run() -> Result<()> {
    let shell = Shell::new()?;
    let out = shell::empty_out()?;
    let calibration = format!("{OUT}/calibration.json");
    let measured = shell.ask_lab("calibrate --quick --json")?;
    std::fs::write(out.join("calibration.json"), measured).context("keep the calibration")?;
    shell.haltwise(&format!(
        "record -o {OUT}/capture -- haltwise-lab run {LOAD} --rounds {RECORDED}"
    ))?;
    shell.haltwise(&format!("report {OUT}/capture --vm demo"))?;
    let tune = format!("tune {OUT}/capture --vm demo --ceiling-only --calibration {calibration}");
    shell.haltwise(&format!("{tune} --plan {OUT}/plan.json"))?;
    let tuned = read(
        &tool::ask(&mut shell.command(&format!("{tune} --json")))?,
        "tune",
    )?;
    let ceiling = |which: &str| {
        let found = tuned.pointer(&format!("/{which}/halt_poll_ns"));
        found.and_then(Value::as_u64)
    };
    let in_force = ceiling("in_force").context("tune names no ceiling in force")?;
    let prove = |a: u64, b: u64| -> Result<Proof> {
        let json = format!(
            "prove --a kvm:max={a}ns --b kvm:max={b}ns --rounds {ROUNDS} --no-ledger --calibration \
             {calibration} --json -- haltwise-lab run {LOAD} --rounds {BLOCK} --cap {{halt_poll_ns}}"
        );
        say::step(&format!("haltwise {json}"));
        let said = tool::ask_watched(&mut shell.command(&json))?;
        let against = if a == 0 { "off" } else { "in-force" };
        std::fs::write(out.join(format!("proof-{against}.json")), &said)
            .context("keep the proof")?;
        Proof::of(&read(&said, "prove")?)
    };
    match ceiling("recommended") {
        Some(better) if better != in_force => {
            let from_off = (better != 0).then(|| prove(0, better)).transpose()?;
            screen::show(
                in_force,
                better,
                &prove(in_force, better)?,
                from_off.as_ref(),
            );
        }
        _ => {
            screen::nothing_better(&tuned);
            screen::show(in_force, 0, &prove(in_force, 0)?, None);
        }
    }
    shell.haltwise(&format!(
        "report {OUT}/capture --vm demo --html {OUT}/report.html --ceiling-only --calibration \
         {calibration} --proof {OUT}/proof-in-force.json"
    ))?;
    say::note(&format!("{OUT}/report.html shows all of this in a browser"));
    say::note(&format!(
        "all of it is in {OUT}/; on a host of your own, `haltwise apply {OUT}/plan.json` shows what it \
         would write"
    ));
    Ok(())
}

fn read(text: &str, whose: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("read what {whose} says"))
}
