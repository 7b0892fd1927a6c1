//! Simultaneous recordings of the guest and its host: `tune --host` must match the halts of both, and the governor menu
//! must choose HLT as often as its replay says. Debian's kernels are built without teo.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::kernels::check::Found;
use crate::kernels::reported::{Halt, ask, halts, list};

/// Round trips (240 are 150 stays in HLT, too few to tell offsets between clocks apart), then the governors that are tried
/// after haltpoll: each attaches a recorder inside the guest again, over which an emulator stumbles now and then, so that only
/// thorough runs do.
pub(super) const LOAD: &str = "1200 menu";

const GUEST_CPUS: [u64; 2] = [0, 1];

/// Entries into HLT of a hundred that the host's halts may contradict, or halts that lie in no entry, and some more where
/// both recordings begin and end.
const CONTRADICTED: u64 = 1;
const EDGE: u64 = 5;

/// How far apart the shares of idle periods that poll may be, replayed and recorded. The governor looks at the next timer
/// before the way to HLT, which an emulated machine takes long for; a capture has what is left at its end.
const APART: f64 = 0.06;

/// Whether every CPU is its vCPU, as QEMU numbers both, and each side confirms what the other recorded.
fn agrees(join: &Value) -> bool {
    let cpus = list(join, "cpus");
    cpus.iter().map(|cpu| &cpu["cpu"]).eq(&GUEST_CPUS)
        && join["residual_p50_ns"].as_u64() > Some(0)
        && cpus.iter().all(|cpu| cpu_agrees(cpu) == Some(true))
}

fn cpu_agrees(cpu: &Value) -> Option<bool> {
    let number = |name: &str| cpu[name].as_u64();
    let nearly_all = |part: u64, all: u64| part + all * CONTRADICTED / 100 + EDGE >= all;
    let matched = number("matched")?;
    Some(
        number("cpu")? == number("vcpu")?
            && matched > 0
            && nearly_all(matched + number("without_halt")?, number("hlts")?)
            && nearly_all(number("halts_matched")?, number("halts")?),
    )
}

/// Judges what the guest and its host left among the results: of `inside`, and of `joined` where that ran.
pub(super) fn judge(out_dir: &Path) -> Result<Found> {
    let (inside, joined) = (out_dir.join("inside"), out_dir.join("joined"));
    let mut found = Found::default();
    for (name, guest, host) in [
        ("inside", inside.join("capture"), inside.join("host")),
        ("guest", joined.join("guest"), joined.join("host")),
        ("menu", joined.join("menu"), joined.join("host")),
    ] {
        if !guest.is_dir() {
            continue;
        }
        let host = host.display().to_string();
        let verb = ["tune", "--json", "--host", &host];
        let tuned: Value = ask(&verb, &guest)?;
        let join = &tuned["join"];
        found.require(agrees(join), format!("{name}: {join}"));
        found.say(format_args!("{name}: {join}"));
        if name == "menu" {
            governor(name, &guest, &mut found)?;
        }
    }
    Ok(found)
}

/// The share of idle periods that poll, replayed and recorded. Recorded polls that nothing ended but their limit are left
/// out: the governor chose them again and again, since a timer was due whose interrupt the busy emulator had not delivered.
fn governor(name: &str, guest: &Path, found: &mut Found) -> Result<()> {
    let verb = ["tune", "--json", "--policy", name];
    let replay: Value = ask(&verb, guest)?;
    let number = |pointer: &str| {
        let number = replay.pointer(pointer).and_then(Value::as_u64);
        number.with_context(|| format!("replay has no {pointer}"))
    };
    let all = number("/host/halts")?.max(1);
    let share = |polls: u64| polls as f64 / all as f64;
    let replayed = share(number("/host/played/0/from_zero/polls")?);
    let [ended, limited] = polls(&halts(guest)?);
    let recorded = share(ended);
    let text = format!(
        "{name} polls {recorded:.4} recorded, {replayed:.4} replayed, {limited} polls ended by their limit alone"
    );
    found.say(&text);
    found.require((recorded - replayed).abs() <= APART, text);
    Ok(())
}

/// Recorded polls: those that a wake or HLT ended, and the others.
fn polls(halts: &[Halt]) -> [u64; 2] {
    let mut polls = [0, 0];
    for halt in halts.iter().filter(|halt| halt.has_polled()) {
        let by_limit = !halt.waited && halt.wake().is_none();
        polls[usize::from(by_limit)] += 1;
    }
    polls
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kernels::reported::parse_halts;

    const JOIN: &str = r#"{"residual_p50_ns": 1, "cpus": [
        {"cpu": 0, "vcpu": 0, "hlts": 100, "matched": 80, "without_halt": 16, "halts": 90, "halts_matched": 86},
        {"cpu": 1, "vcpu": 1, "hlts": 100, "matched": 80, "without_halt": 16, "halts": 90, "halts_matched": 86}]}"#;

    #[test]
    fn polls_are_told_apart_by_what_ended_them() {
        let halts = [
            (true, "ipi", false),
            (false, "unknown", true),
            (true, "unknown", true),
            (false, "timer", true),
        ];
        let halts = halts.map(|(waited, wake, polled)| {
            format!(r#"{{"tid":1,"start_ns":1,"halt_ns":9,"change":"none","waited":{waited},"wake":"{wake}","polled":{polled}}}"#)
        });
        assert_eq!(polls(&parse_halts(&halts.concat()).unwrap()), [2, 1]);
    }

    #[test]
    fn both_sides_confirm_the_other_on_each_cpu() {
        let join: Value = serde_json::from_str(JOIN).unwrap();
        assert!(agrees(&join));
        for (figure, wrong) in [
            ("/cpus/1/vcpu", 0),
            ("/cpus/1/matched", 77),
            ("/cpus/1/halts_matched", 83),
            ("/residual_p50_ns", 0),
        ] {
            let mut join = join.clone();
            *join.pointer_mut(figure).unwrap() = wrong.into();
            assert!(!agrees(&join), "{figure}: {wrong}");
        }
        let mut unmatched = join.clone();
        unmatched["cpus"][1]["matched"] = 0.into();
        unmatched["cpus"][1]["hlts"] = 0.into();
        assert!(!agrees(&unmatched), "no entry was matched");
        let mut one = join.clone();
        one["cpus"].as_array_mut().unwrap().pop();
        assert!(!agrees(&one), "a vCPU that the host did not record");
        assert!(!agrees(&Value::Null), "no join");
    }
}
