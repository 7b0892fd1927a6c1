//! What would be a disagreement is told as one.

use super::*;

fn from<T: for<'a> Deserialize<'a>>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

const VMS: &str = r#"{"vms_unwatched": null, "vms": [
    {"name": "free", "effect": "follows", "ceiling_ns": 80000},
    {"name": "capped", "effect": "own-cap", "ceiling_ns": 70000}]}"#;

const REPORT: &str = r#"{"vms": [
    {"name": "free", "account": {"ceilings": [{"ns": 80000, "halts": 9}, {"ns": 200000, "halts": 7}]}},
    {"name": "capped", "account": {"ceilings": [{"ns": 70000, "halts": 9}]}}]}"#;

#[test]
fn vms_that_do_not_follow_are_told() {
    assert_eq!(watched(&from(VMS), &BY_CEILING), [""; 0]);
    for (good, bad) in [
        ("follows", "keeps"),
        ("80000", "200000"),
        ("capped", "other"),
    ] {
        assert_eq!(
            watched(&from(&VMS.replace(good, bad)), &BY_CEILING).len(),
            1,
            "{bad}"
        );
    }
    assert_eq!(
        watched(&from(&VMS.replace("null", "\"no BPF\"")), &BY_CEILING).len(),
        1
    );
}

#[test]
fn halts_under_another_ceiling_are_told() {
    let verified: Verified = from(r#"{"checked": 5, "differences": 0}"#);
    assert_eq!(recorded(&from(REPORT), &verified), [""; 0]);
    assert_eq!(
        recorded(&from(&REPORT.replace(": 7}", ": 0}")), &verified).len(),
        1
    );
    let differs = from(r#"{"checked": 5, "differences": 1}"#);
    assert_eq!(recorded(&from(REPORT), &differs).len(), 1);
}

#[test]
fn a_vm_under_any_other_ceiling_than_the_plans_is_told() {
    let reported: Report = from(REPORT);
    let of = |ceilings| governed("planned", &reported, ceilings).len();
    assert_eq!(of([("capped", 70_000), ("capped", 70_000)]), 0);
    assert_eq!(
        of([("capped", 70_000), ("free", 80_000)]),
        1,
        "two ceilings"
    );
    assert_eq!(of([("capped", 50_000), ("late", 0)]), 2);
}

#[test]
fn a_write_that_was_not_made_is_not_called_made() {
    let status = |result: &str| {
        format!(r#"{{"journal": {{"open": {{"turns": [{{"result": "{result}"}}]}}}}}}"#)
    };
    assert_eq!(settled(&from(&status("not-done"))), [""; 0]);
    assert_eq!(settled(&from(&status("done"))).len(), 1);
    assert_eq!(settled(&from(r#"{"journal": {"open": null}}"#)).len(), 1);
}

#[test]
fn a_block_that_was_not_measured_under_its_setting_is_told() {
    let block = |number: usize, block: &str, polling: f64, halts: u64| {
        format!(
            r#"{{"number": {number}, "block": "{block}", "halts": {halts}, "figures": {{"poll-cpu": {polling}}}}}"#
        )
    };
    let of = |blocks: &[String], means: &str, partial: bool| {
        let blocks = blocks.join(", ");
        proved(&from(&format!(
            r#"{{"means": "{means}", "partial": {partial}, "blocks": [{blocks}]}}"#
        )))
    };
    let good = [
        ("a", 0.0),
        ("b", 2.5),
        ("control", 0.0),
        ("b", 2.5),
        ("a", 0.0),
        ("control", 0.0),
    ];
    let good: Vec<String> = (1..)
        .zip(good)
        .map(|(number, (name, polling))| block(number, name, polling, 5))
        .collect();
    assert_eq!(of(&good, "host-parameters", false), [""; 0]);
    assert_eq!(of(&good, "host-parameters", true).len(), 1);
    assert_eq!(of(&good, "in-force", false).len(), 1);
    assert_eq!(of(&good[1..], "host-parameters", false).len(), 1);
    for bad in [
        block(1, "a", 0.5, 5),
        block(1, "b", 0.0, 5),
        block(1, "control", 0.5, 5),
        block(1, "b", 0.5, 0),
    ] {
        let mut blocks = good.clone();
        blocks[3] = bad;
        assert_eq!(of(&blocks, "host-parameters", false).len(), 1, "{blocks:?}");
    }
}

#[test]
fn the_script_is_a_shell_script() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    std::fs::write(&path, SCRIPT).unwrap();
    crate::tool::ask(std::process::Command::new("sh").arg("-n").arg(path)).unwrap();
}
