//! Documents that disagree with what was set.

use super::*;
use crate::kernels::reported::{Account, Block, Ceiling, Vm as ReportedVm};

fn from(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const VMS: &str = r#"{"vms_unwatched": null, "vms": [
    {"name": "free", "effect": "follows", "ceiling_ns": 80000},
    {"name": "capped", "effect": "own-cap", "ceiling_ns": 70000}]}"#;

fn report(vms: &[(&str, &[(u64, u64)])]) -> Report {
    let ceiling = |&(ns, halts): &(u64, u64)| Ceiling { ns, halts };
    let vm = |(name, ceilings): &(&str, &[(u64, u64)])| ReportedVm {
        name: (*name).to_owned(),
        account: Account {
            ceilings: ceilings.iter().map(ceiling).collect(),
            ..Account::default()
        },
        ..ReportedVm::default()
    };
    Report {
        vms: vms.iter().map(vm).collect(),
        ..Report::default()
    }
}

#[test]
fn vms_that_do_not_follow_disagree() {
    for (good, bad, wrong) in [
        ("", "", 0),
        ("follows", "keeps", 1),
        ("80000", "200000", 1),
        ("capped", "other", 1),
        ("null", "\"no BPF\"", 1),
    ] {
        let applied = from(&VMS.replace(good, bad));
        assert_eq!(watched(&applied, &BY_CEILING).len(), wrong, "{bad}");
    }
}

#[test]
fn halts_under_another_ceiling_disagree() {
    let disagreements = |early, differences| {
        let vms: [(&str, &[(u64, u64)]); 2] = [
            ("free", &[(80_000, 9), (200_000, early)]),
            ("capped", &[(70_000, 9)]),
        ];
        let verified = Verified {
            checked: 5,
            differences,
            ..Verified::default()
        };
        recorded(&report(&vms), &verified).len()
    };
    assert_eq!(disagreements(7, 0), 0);
    assert_eq!(disagreements(0, 0), 1);
    assert_eq!(disagreements(7, 1), 1);
}

#[test]
fn a_vm_under_any_other_ceiling_than_the_plans_disagrees() {
    let reported = report(&[
        ("free", &[(80_000, 9), (200_000, 7)]),
        ("capped", &[(70_000, 9)]),
    ]);
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
    assert_eq!(settled(&from(&status("not-done"))), None);
    assert!(settled(&from(&status("done"))).is_some());
    assert!(settled(&from(r#"{"journal": {"open": null}}"#)).is_some());
}

#[test]
fn a_block_that_was_not_measured_under_its_setting_disagrees() {
    let block = |under: &str, polling: f64, halts| Block {
        under: under.to_owned(),
        halts,
        figures: [("poll-cpu".to_owned(), polling)].into(),
        ..Block::default()
    };
    let good = || Proof {
        side: "host".to_owned(),
        means: "host-parameters".to_owned(),
        blocks: ["a", "b", "control", "b", "a", "control"]
            .map(|under| block(under, if under == "b" { 2.5 } else { 0.0 }, 5))
            .into(),
        ..Proof::default()
    };
    assert_eq!(proved(&good()), [""; 0]);
    let faults: [fn(&mut Proof); 3] = [
        |proof| proof.partial = true,
        |proof| proof.means = "in-force".to_owned(),
        |proof| drop(proof.blocks.pop()),
    ];
    for fault in faults {
        let mut proof = good();
        fault(&mut proof);
        assert_eq!(proved(&proof).len(), 1);
    }
    for bad in [
        block("a", 0.5, 5),
        block("b", 0.0, 5),
        block("control", 0.5, 5),
        block("b", 0.5, 0),
    ] {
        let mut proof = good();
        proof.blocks[3] = bad;
        assert_eq!(proved(&proof).len(), 1, "{proof:?}");
    }
}
