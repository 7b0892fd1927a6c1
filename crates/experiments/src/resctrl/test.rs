//! Laws: a split is legal, and whatever was done is undone to the byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Bandwidth, Cache, Classes, Found, Root, Schemata};

fn found(cache: Cache, bandwidth: Bandwidth) -> Found {
    Found {
        cache: Some(cache),
        bandwidth: Some(bandwidth),
        schemata: "L3:0=fff;1=fff\nMB:0=100;1=100\n".parse().unwrap(),
    }
}

fn contiguous(mask: u64) -> bool {
    mask != 0 && (mask >> mask.trailing_zeros()).wrapping_add(1).count_ones() <= 1
}

proptest! {
    #[test]
    fn a_split_gives_each_a_piece_of_its_own(
        cbm_mask: u64,
        min_cbm_bits in 0_u32..5,
        bandwidth_gran in 0_u32..60,
        min_bandwidth in 0_u32..101,
    ) {
        let cache = Cache { cbm_mask, min_cbm_bits, num_closids: 4 };
        let bandwidth = Bandwidth { min_bandwidth, bandwidth_gran, num_closids: 8 };
        let Some([vm, neighbours]) = found(cache, bandwidth).split() else {
            let ways = cbm_mask.checked_shr(cbm_mask.trailing_zeros()).unwrap_or(0).trailing_ones();
            prop_assert!(ways / 2 < min_cbm_bits.max(1));
            return Ok(());
        };
        for domain in [0, 1] {
            let mask = |class: &Schemata| u64::from_str_radix(&class.0["L3"][&domain], 16).unwrap();
            let (a, b) = (mask(&vm), mask(&neighbours));
            prop_assert!(contiguous(a) && contiguous(b) && a & b == 0);
            prop_assert_eq!((a | b) & !cbm_mask, 0);
            prop_assert!(a.count_ones().min(b.count_ones()) >= min_cbm_bits);
            let percent: u32 = neighbours.0["MB"][&domain].parse().unwrap();
            prop_assert!((min_bandwidth..=100).contains(&percent) && percent >= 50);
        }
    }
}

proptest! {
    // Each case is some hundred files.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever classes are made, threads placed, moved and placed again, and wherever it breaks off: after
    /// that the root is what it was, to the byte.
    #[test]
    fn what_was_done_is_undone(
        theirs in prop::collection::btree_set(1_u32..40, 0..9),
        placed in prop::collection::vec((0_usize..3, 1_u32..40), 0..30),
        breaks_off: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::fake(folder.path()).unwrap();
        root.make("somebody").unwrap();
        for tid in &theirs {
            root.place(Some("somebody"), *tid).unwrap();
        }
        let before = tree(folder.path());
        let mut classes = Classes::new(root.clone());
        let [vm, neighbours] = root.discover().unwrap().split().unwrap();
        let names = ["vm", "neighbours", "vm-2"];
        for (name, schemata) in names.iter().zip([&vm, &neighbours, &vm]) {
            classes.make(name, schemata).unwrap();
        }
        for (class, tid) in placed {
            prop_assert!(classes.place(names[class], tid).unwrap());
            let is_in = root.class_of(tid).unwrap();
            prop_assert_eq!(is_in.as_deref(), Some(names[class]));
        }
        if breaks_off {
            let taken = classes.make("somebody", &vm);
            let refused = taken.is_err();
            prop_assert!(refused);
            drop(classes);
        } else {
            classes.restore().unwrap();
        }
        let after = tree(folder.path());
        let sorted = |tree: &BTreeMap<PathBuf, Vec<u8>>| {
            let mut tree = tree.clone();
            // Which thread came first says nothing.
            for text in tree.values_mut() {
                let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
                lines.sort_unstable();
                *text = lines.concat();
            }
            tree
        };
        prop_assert_eq!(sorted(&before), sorted(&after));
    }
}

fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.insert(entry.path(), Vec::new());
            found.extend(tree(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn a_fake_root_is_found_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = Root::open(folder.path()).unwrap_err();
    assert!(nothing.to_string().contains("no resctrl"), "{nothing}");
    let root = Root::fake(folder.path()).unwrap();
    assert!(!root.is_kernels());
    let found = root.discover().unwrap();
    assert_eq!(found.cache.unwrap().cbm_mask, 0xfff);
    assert_eq!(found.bandwidth.unwrap().bandwidth_gran, 10);
    let [vm, neighbours] = found.split().unwrap();
    assert_eq!(vm.to_string(), "L3:0=fc0\nMB:0=100\n");
    assert_eq!(neighbours.to_string(), "L3:0=3f\nMB:0=50\n");
    let mut classes = Classes::new(root.clone());
    classes.make("vm", &vm).unwrap();
    assert_eq!(root.schemata(Some("vm")).unwrap(), vm);
    assert_eq!(root.classes().unwrap(), ["vm"]);
}

#[test]
fn monitors_are_summed_and_what_is_unavailable_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::fake(folder.path()).unwrap();
    root.make("vm").unwrap();
    for (domain, occupancy, bytes) in [
        ("mon_L3_00", "4096", "70"),
        ("mon_L3_01", "1", "Unavailable"),
    ] {
        let domain = folder.path().join("vm/mon_data").join(domain);
        fs::create_dir_all(&domain).unwrap();
        fs::write(domain.join("llc_occupancy"), format!("{occupancy}\n")).unwrap();
        fs::write(domain.join("mbm_total_bytes"), format!("{bytes}\n")).unwrap();
    }
    let used = root.monitor("vm");
    assert_eq!((used["llc_occupancy"], used["mbm_total_bytes"]), (4097, 70));
}

#[test]
fn what_cannot_be_split_is_not() {
    let bandwidth = Bandwidth {
        min_bandwidth: 10,
        bandwidth_gran: 10,
        num_closids: 8,
    };
    let cache = |cbm_mask, min_cbm_bits, num_closids| Cache {
        cbm_mask,
        min_cbm_bits,
        num_closids,
    };
    for (cache, splits) in [
        (cache(0xfff, 1, 3), true),
        (cache(0xfff, 1, 2), false),
        (cache(0b11, 1, 4), true),
        (cache(0b11, 2, 4), false),
        (cache(0b101, 1, 4), false),
        (cache(0, 0, 4), false),
    ] {
        assert_eq!(
            found(cache, bandwidth).split().is_some(),
            splits,
            "{cache:?}"
        );
    }
    let whole = "L3:0=fff;1=ff0\nMB:0=100;1=50\n";
    assert_eq!(whole.parse::<Schemata>().unwrap().to_string(), whole);
    for wrong in ["L3", "L3:0", "L3:x=1", "L3:0=1;1"] {
        assert!(wrong.parse::<Schemata>().is_err(), "{wrong}");
    }
}
