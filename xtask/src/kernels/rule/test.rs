//! Tests of the conditions for a disagreement.

use serde_json::json;

use super::*;
use crate::kernels::reported::changed;

fn verified(changes: &[(&str, Value)]) -> Verified {
    let document = json!({
        "halts": 600, "checked": 599, "differences": 0, "several_settings": 7,
        "transitions": {"grow": {"matched": 100}, "shrink": {"matched": 90}, "silent": {"matched": 9},
            "none": {"matched": 400}},
        "skipped": {"first": 1}, "capture": {"lost": 0}, "settings": [{"changes": 1}, {"changes": 2}],
        "shown": [{"vm": 0, "settings": 1}],
    });
    changed(&document, changes)
}

#[test]
fn what_differs_is_missing_or_was_lost_disagrees() {
    let usual = settings()[0];
    let found = verified(&[]).judge(&usual, Depth::Quick);
    assert_eq!(found.disagreements, [""; 0]);
    assert_eq!(
        found.summary,
        "599 checked, 0 differ: 100 grow, 90 shrink, 9 silent, 400 none; 1 not checked, 7 against \
         several settings"
    );
    let thorough = verified(&[]).judge(&usual, Depth::Thorough);
    assert_eq!(thorough.disagreements, ["only 599 halts were checked"]);
    for (pointer, value, text) in [
        ("/transitions/silent/matched", 0, "there was no silent"),
        (
            "/differences",
            2,
            "2 differences, the first: {\"settings\":1,\"vm\":0}",
        ),
        ("/capture/lost", 3, "3 events were lost"),
    ] {
        let found = verified(&[(pointer, value.into())]).judge(&usual, Depth::Quick);
        assert_eq!(found.disagreements, [text]);
    }
}

#[test]
fn a_difference_is_forgiven_where_a_setting_was_not_seen_and_its_halt_met_a_change() {
    let three = "1\n2\n3\n";
    for (differences, settings, written, left) in [
        (1, 2, "1\n2\n", 1),
        (1, 1, three, 1),
        (2, 2, three, 2),
        (1, 2, three, 0),
    ] {
        let mut of = verified(&[
            ("/differences", differences.into()),
            ("/shown/0/settings", settings.into()),
        ]);
        of.forgive(written);
        assert_eq!(of.differences, left);
    }
}
