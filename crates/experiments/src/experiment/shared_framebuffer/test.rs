//! The experiment's two variants leave the same screen, and only one of them exits.

use super::*;
use crate::experiment::test::trials::Trials;
use crate::experiment::witness::userspace;

#[test]
fn both_leave_the_same_screen_and_only_one_exits() {
    let Some(trials) = Trials::here() else {
        return;
    };
    // Less than a screen, one to the word, and more than one.
    for rounds in [1, 63, 64, 67] {
        let drawn = |variant| draw(&trials.of(variant), Some(rounds)).unwrap();
        let [exits, shared] = [0, 1].map(drawn);
        for drawn in [&exits, &shared] {
            assert_eq!(drawn.ended.rounds, rounds);
            assert!(drawn.is_identical(), "{rounds}");
        }
        assert!(exits.screen.pixels == shared.screen.pixels, "{rounds}");
        let writes = u64::from(rounds * paint::WRITES);
        assert_eq!(exits.ended.exits_to_vmm(), writes);
        assert_eq!(userspace(&exits.ended.counts)["KVM_EXIT_MMIO"], writes);
        assert_eq!(shared.ended.exits_to_vmm(), 0);
    }
}

#[test]
fn a_bit_that_is_flipped_on_the_screen_is_seen() {
    let Some(trials) = Trials::here() else {
        return;
    };
    for variant in [0, 1] {
        let mut drawn = draw(&trials.of(variant), Some(3)).unwrap();
        let at = u64::from(framebuffer::WINDOW.end - 1);
        let mut byte = [0];
        drawn.screen.read(at, &mut byte);
        drawn.screen.write(at, &[byte[0] ^ 1]);
        assert!(!drawn.is_identical(), "{variant}");
        drawn.screen.write(at, &byte);
        assert!(drawn.is_identical(), "{variant}");
    }
}
