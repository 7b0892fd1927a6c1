//! Simultaneous recordings of the guest and its host: `tune --host` must match the halts of both.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::kernels::check::Found;
use crate::kernels::reported::{ask, list};

/// Round trips (240 are 150 stays in HLT, too few to tell offsets between clocks apart), then the governors that are tried
/// after haltpoll: each attaches a recorder inside the guest again, over which an emulator stumbles now and then, so that only
/// thorough runs do.
pub(super) const LOAD: &str = "1200 menu";

const GUEST_CPUS: [u64; 2] = [0, 1];

/// Entries into HLT of a hundred that the host's halts may contradict, or halts that lie in no entry, and some more where
/// both recordings begin and end.
const CONTRADICTED: u64 = 1;
const EDGE: u64 = 5;

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
    }
    Ok(found)
}

#[cfg(test)]
mod test {
    use super::*;

    const JOIN: &str = r#"{"residual_p50_ns": 1, "cpus": [
        {"cpu": 0, "vcpu": 0, "hlts": 100, "matched": 80, "without_halt": 16, "halts": 90, "halts_matched": 86},
        {"cpu": 1, "vcpu": 1, "hlts": 100, "matched": 80, "without_halt": 16, "halts": 90, "halts_matched": 86}]}"#;

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
