//! Tests of the conditions for a disagreement.

use super::*;

fn verified(differences: u64, silent: u64) -> Verified {
    serde_json::from_value(serde_json::json!({
        "halts": 600, "checked": 599, "differences": differences, "several_settings": 7,
        "transitions": {
            "grow": {"checked": 100, "matched": 100}, "shrink": {"checked": 90, "matched": 90},
            "silent": {"checked": silent, "matched": silent},
            "none": {"checked": 400, "matched": 400},
        },
        "skipped": {"first": 1}, "capture": {"lost": 0, "cut": false}, "settings": [{"changes": 1}, {"changes": 2}],
        "shown": [{"vm": 0}],
    }))
    .unwrap()
}

#[test]
fn what_differs_is_missing_or_was_lost_disagrees() {
    let usual = settings()[0];
    let quick = Depth::Quick;
    let fine = verified(0, 9);
    assert_eq!(fine.disagreements(&usual, quick), Vec::<String>::new());
    assert_eq!(
        fine.summary(),
        "599 checked, 0 differ: 100 grow, 90 shrink, 9 silent, 400 none; 1 not checked, 7 against \
         several settings"
    );
    assert_eq!(
        fine.disagreements(&usual, Depth::Thorough),
        ["only 599 halts were checked"]
    );
    assert_eq!(
        verified(0, 0).disagreements(&usual, quick),
        ["there was no silent"]
    );
    assert_eq!(
        verified(2, 9).disagreements(&usual, quick),
        ["2 differences, the first: {\"vm\":0}"]
    );
    let differ = |(differences, settings, written)| {
        let mut of = verified(differences, 9);
        of.shown[0]["settings"] = serde_json::Value::from(settings);
        of.forgive(written);
        of.differences
    };
    let three = "1\n2\n3\n";
    let all = [
        (1, 2, "1\n2\n"),
        (1, 1, three),
        (2, 2, three),
        (1, 2, three),
    ];
    assert_eq!(all.map(differ), [1, 1, 2, 0]);
    let mut lossy = verified(0, 9);
    lossy.capture.lost = 3;
    assert_eq!(lossy.disagreements(&usual, quick), ["3 events were lost"]);
}
