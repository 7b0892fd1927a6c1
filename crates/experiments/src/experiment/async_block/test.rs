//! Every block comes back and lies where it belongs, whichever thread serves it; only one of both exits.

use super::*;
use crate::experiment::test::trials::Trials;

#[test]
fn all_store_the_same_and_only_one_exits_for_a_request() {
    let Some(trials) = Trials::here() else {
        return;
    };
    // Less than the disk has blocks, and more: the ring's indices go round too.
    let variants = if why_no_ring().is_some() { 2 } else { 3 };
    for rounds in [1, 7, 70] {
        for variant in 0..variants {
            let stored = store(&trials.of(variant), Some(rounds)).unwrap();
            assert!(stored.is_correct().unwrap(), "{variant}, {rounds}");
            assert_eq!(stored.ended.rounds, rounds);
            let requests = u64::from(2 * rounds);
            assert_eq!(stored.device.lock().served.done, requests);
            // The driver's initialization writes eleven registers.
            let expected = 11 + if variant == 0 { requests } else { 0 };
            assert_eq!(stored.ended.exits_to_vmm(), expected);
        }
    }
}

#[test]
fn a_bit_that_is_flipped_on_the_disk_is_seen() {
    let Some(trials) = Trials::here() else {
        return;
    };
    let stored = store(&trials.of(1), Some(7)).unwrap();
    let file = stored.file.as_file();
    // Flip a bit of the first block, and one of a block that was never written.
    for offset in [0, u64::from(disk::BLOCK * (disk::BLOCKS - 1))] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
        assert!(!stored.is_correct().unwrap(), "{offset}");
        file.write_all_at(&byte, offset).unwrap();
    }
    assert!(stored.is_correct().unwrap());
}
