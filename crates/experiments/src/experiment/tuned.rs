//! Recommendation of `haltwise tune` for a load, from a recording of the load under the ceiling in force.

use anyhow::{Context as _, ensure};
use haltwise_core::units::Nanos;
use serde_json::Value;

use super::recorder::Haltwise;
use super::results::Further;
use haltwise_lab::load::{Length, Load};
use haltwise_lab::run::run;

/// Recorded for so long: some thousands of halts, of which tune judges by half.
const RECORDED: Nanos = Nanos(1_000_000_000);

/// The ceiling that tune would leave in force for each goal that has a name.
pub(super) fn ceilings(further: &Further<'_>, load: &Load) -> anyhow::Result<Vec<(String, u64)>> {
    let haltwise = further.haltwise.context("haltwise is not there")?;
    let load = Load {
        length: Length::Duration(RECORDED),
        vm_max_halt_poll_ns: None,
        ..load.clone()
    };
    let advice = advice(haltwise, further, &load)?;
    let ceilings = ceilings_of(&advice);
    let reason = advice["reason"].as_str().unwrap_or("it played nothing");
    ensure!(!ceilings.is_empty(), "{reason}");
    Ok(ceilings)
}

/// By goal, out of `docs/tune-json.md`'s `played.goals`.
fn ceilings_of(advice: &Value) -> Vec<(String, u64)> {
    let goals = advice["played"]["goals"].as_array();
    let goals = goals.map(Vec::as_slice).unwrap_or_default();
    let ceiling = |goal: &Value| {
        let name = goal["goal"]["name"].as_str()?.to_owned();
        Some((name, goal["setting"]["halt_poll_ns"].as_u64()?))
    };
    goals.iter().filter_map(ceiling).collect()
}

fn advice(haltwise: &Haltwise, further: &Further<'_>, load: &Load) -> anyhow::Result<Value> {
    let mut recording = haltwise.record("full")?;
    run(load, &further.trial.interrupt)?;
    recording.end()?;
    let pid = std::process::id().to_string();
    let arguments = ["tune", "--ceiling-only", "--vm", &pid];
    haltwise.ask(&arguments, &recording.capture())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_goal_has_its_ceiling_and_what_is_not_there_is_left_out() {
        let goal = |name: &str, setting: Value| serde_json::json!({"goal": {"name": name}, "setting": setting});
        let advice = serde_json::json!({"played": {"goals": [
            goal("density", serde_json::json!({"halt_poll_ns": 0})),
            goal("latency", serde_json::json!({"halt_poll_ns": 80_000})),
            goal("odd", Value::Null),
        ]}});
        let ceilings = [("density".to_owned(), 0), ("latency".to_owned(), 80_000)];
        assert_eq!(ceilings_of(&advice), ceilings);
        assert_eq!(ceilings_of(&Value::Null), []);
    }
}
