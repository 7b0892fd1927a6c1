//! `tune` on captures of a guest: what it recommends where the guest's CPUs are its own, and where its host gives
//! their time to others.

use std::path::Path;

use haltwise_core::event::{Facts, HostSample, Knob, KnobScope, WakeSource};
use haltwise_core::recording::Side;
use serde_json::Value;

use super::guest::Guest;
use super::{START_NS, haltwise, home, info_of, record, scenarios};

const LENGTH_NS: u64 = 400_000_000;

/// A guest that is woken by IPIs after some 30 us, and has not polled. Of 4 CPUs' time, these shares were busy and
/// stolen.
fn write(dir: &Path, governor: &str, busy: f64, steal: f64) {
    let scenario = scenarios::all().remove(0);
    let mut info = info_of(&scenario);
    info.roster = scenario.roster;
    info.side = Side::Guest;
    let knob = |name: &str, scope, value: &str| Knob {
        time_ns: START_NS,
        name: name.to_owned(),
        scope,
        value: value.to_owned(),
    };
    info.knobs = vec![
        knob("cpuidle.current_governor", KnobScope::Host, governor),
        knob("guest_halt_poll_ns", KnobScope::GuestOfOther, "0"),
    ];
    let mut facts = Facts::default();
    Guest {
        gaps: "exp:30us",
        ceiling_ns: 0,
        wakes: &[WakeSource::Ipi],
        until_ns: START_NS + LENGTH_NS,
        ..Guest::default()
    }
    .run(&mut facts);
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts.windows.clear();
    facts.host = [0, LENGTH_NS]
        .map(|at_ns| {
            let part = |share: f64| Some((4.0 * at_ns as f64 * share) as u64);
            HostSample {
                time_ns: START_NS + at_ns,
                cpus: 4,
                busy_ns: part(busy).unwrap(),
                total_ns: part(1.0).unwrap(),
                steal_ns: part(steal),
                idle_ns: None,
                package_uj: None,
                ..HostSample::default()
            }
        })
        .to_vec();
    record(dir, info, &facts, Some(scenarios::ending(LENGTH_NS)));
}

fn tuned(home: &Path, arguments: &[&str]) -> Value {
    let all = [&["tune", "guest", "--json"], arguments].concat();
    serde_json::from_str(&haltwise(home, &all).0).unwrap()
}

fn in_home(governor: &str, busy: f64, steal: f64, arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("guest"), governor, busy, steal);
    tuned(dir.path(), arguments)
}

#[test]
fn a_guest_polls_where_that_costs_less_and_its_cpus_are_its_own() {
    let view = in_home("haltpoll", 0.3, 0.001, &["--exit-cpu", "5us"]);
    assert_eq!(view["place"], "guest", "{view:#}");
    assert_eq!(view["in_force"]["guest_halt_poll_ns"], 0);
    assert!(view["recommended"]["guest_halt_poll_ns"].as_u64() >= Some(50_000));
    let rows = view["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["row"] == name).unwrap();
    let figure = |name: &str, of: &str| row(name)[of].as_f64().unwrap();
    // Polls that end by a wake spare exits and IPIs; in the host nothing spares them.
    assert!(figure("choice", "exits_per_s") < 0.5 * figure("off", "exits_per_s"));
    assert!(figure("choice", "ipis_per_s") < 0.5 * figure("off", "ipis_per_s"));
    assert!(figure("host", "exits_per_s") >= figure("off", "exits_per_s"));
    assert!(figure("choice", "cost_ns_per_halt") < figure("host", "cost_ns_per_halt"));
    // No setting is cheaper than the oracle.
    assert!(rows.iter().all(|row| row["ratio"].as_f64() >= Some(1.0)));
}

#[test]
fn no_guest_polls_whose_host_gives_its_time_to_others() {
    let view = in_home("haltpoll", 0.4, 0.1, &["--exit-cpu", "5us"]);
    assert_ne!(view["place"], "guest", "{view:#}");
    assert_eq!(view["recommended"], Value::Null);
    let steal = view["basis"]["stolen_of_wanted"].as_f64().unwrap();
    assert!((0.24..0.26).contains(&steal), "{steal}");
    assert!(view["notes"][0].as_str().unwrap().contains("steal"));
    // Intervals are those of a contended host: at least 3 % less, where one at rest has 21 %.
    let high = view["cpu_pm_against_best"]["cost_share"]["high"].as_f64();
    assert!(high > Some(-0.1), "{high:?}");
}

#[test]
fn another_governor_is_taken_for_no_polling_and_that_is_said() {
    let view = in_home("menu", 0.3, 0.0, &["--exit-cpu", "5us"]);
    let note = view["notes"][0].as_str().unwrap();
    assert!(note.contains("governor is menu"), "{note}");
    let line = view["command_line"].as_array().unwrap();
    assert!(
        line.contains(&"cpuidle.governor=haltpoll".into()),
        "{line:?}"
    );
}

/// The price of an exit decides between polling in the guest and in its host: without one, where they differ.
#[test]
fn the_price_of_an_exit_decides_where_to_poll() {
    let dear = in_home("haltpoll", 0.3, 0.0, &["--exit-cpu", "20us"]);
    let free = in_home("haltpoll", 0.3, 0.0, &["--exit-cpu", "0"]);
    let gap = |view: &Value| {
        view["host_against_in_force"]["cost_share"]["value"]
            .as_f64()
            .unwrap()
    };
    assert!(gap(&free) < gap(&dear));
    assert_eq!(dear["place"], "guest");
}

/// By CPU time alone the host's polls are cheaper in this recording: its driver must go, or they are off.
#[test]
fn where_the_host_should_poll_the_guests_driver_is_unloaded() {
    let arguments = ["tune", "--goal", "density", "recorded/inside"];
    let view = haltwise(&home(), &[&arguments[..], &["--json"]].concat()).0;
    let view: Value = serde_json::from_str(&view).unwrap();
    assert_eq!(
        (&view["place"], &view["recommended"]),
        (&"host".into(), &Value::Null)
    );
    let commands = view["host_commands"].as_array().unwrap();
    assert_eq!(commands[0], "modprobe -r cpuidle_haltpoll");
    let host = commands[1].as_str().unwrap();
    assert!(
        host.starts_with("haltwise apply --set halt_poll_ns"),
        "{host}"
    );
    let text = haltwise(&home(), &arguments).0;
    assert!(
        text.contains("modprobe -r cpuidle_haltpoll  # in the guest"),
        "{text}"
    );
    assert!(
        text.contains("--yes  # on the host") && !text.contains("echo "),
        "{text}"
    );
}
