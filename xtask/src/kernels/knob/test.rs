//! Documents that disagree with what was set.

use serde_json::json;

use super::*;
use crate::kernels::reported::changed;

fn disagreements(judge: impl FnOnce(&mut Found)) -> usize {
    let mut found = Found::default();
    judge(&mut found);
    found.disagreements.len()
}

fn report(free: &[(u64, u64)], capped: &[(u64, u64)]) -> Report {
    let ceiling = |(ns, halts): &(u64, u64)| json!({"ns": ns, "halts": halts});
    let vm = |(name, ceilings): (&str, &[(u64, u64)])| {
        let ceilings: Vec<_> = ceilings.iter().map(ceiling).collect();
        json!({"name": name, "account": {"ceilings": ceilings}})
    };
    let vms = [("free", free), ("capped", capped)].map(vm);
    serde_json::from_value(json!({"vms": vms})).unwrap()
}

#[test]
fn vms_that_do_not_follow_disagree() {
    let applied = json!({"vms_unwatched": null, "vms": [
        {"name": "free", "effect": "follows", "ceiling_ns": 80_000},
        {"name": "capped", "effect": "own-cap", "ceiling_ns": 70_000}]});
    for (pointer, value, wrong) in [
        ("/vms_unwatched", Value::Null, 0),
        ("/vms/0/effect", "keeps".into(), 1),
        ("/vms/0/ceiling_ns", 200_000.into(), 1),
        ("/vms/1/name", "other".into(), 1),
        ("/vms_unwatched", "no BPF".into(), 1),
    ] {
        let applied: Value = changed(&applied, &[(pointer, value)]);
        let found = disagreements(|found| watched(&applied, &BY_CEILING, found));
        assert_eq!(found, wrong, "{pointer}");
    }
}

#[test]
fn halts_under_another_ceiling_disagree() {
    for (early, differences, wrong) in [(7, 0, 0), (0, 0, 1), (7, 1, 1)] {
        let reported = report(&[(80_000, 9), (200_000, early)], &[(70_000, 9)]);
        let verified = json!({"checked": 5, "differences": differences});
        let verified = serde_json::from_value(verified).unwrap();
        let found = disagreements(|found| recorded(&reported, &verified, found));
        assert_eq!(found, wrong, "{early} {differences}");
    }
}

#[test]
fn a_vm_under_any_other_ceiling_than_the_plans_disagrees() {
    let reported = report(&[(80_000, 9), (200_000, 7)], &[(70_000, 9)]);
    let of = |ceilings| disagreements(|found| governed("planned", &reported, ceilings, found));
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
    for (open, wrong) in [
        (json!({"turns": [{"result": "not-done"}]}), 0),
        (json!({"turns": [{"result": "done"}]}), 1),
        (Value::Null, 1),
    ] {
        let status = json!({"journal": {"open": open}});
        assert_eq!(disagreements(|found| settled(&status, found)), wrong);
    }
}

#[test]
fn a_block_that_was_not_measured_under_its_setting_disagrees() {
    let block = |under: &str| {
        let polling = if under == "b" { 2.5 } else { 0.0 };
        json!({"block": under, "halts": 5, "figures": {"poll-cpu": polling}})
    };
    let blocks = ["a", "b", "control", "b", "a", "control"].map(block);
    let proof =
        json!({"side": "host", "means": "host-parameters", "partial": false, "blocks": blocks});
    for (pointer, value, wrong) in [
        ("/partial", json!(false), 0),
        ("/partial", json!(true), 1),
        ("/means", json!("in-force"), 1),
        ("/blocks", json!(blocks[..5]), 1),
        ("/blocks/0/figures/poll-cpu", json!(0.5), 1),
        ("/blocks/1/figures/poll-cpu", json!(0.0), 1),
        ("/blocks/2/figures/poll-cpu", json!(0.5), 1),
        ("/blocks/3/halts", json!(0), 1),
    ] {
        let proof = changed(&proof, &[(pointer, value)]);
        let found = disagreements(|found| proved(&proof, found));
        assert_eq!(found, wrong, "{pointer}");
    }
}
