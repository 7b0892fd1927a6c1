//! Laws of the window: its edges, and that both ways to keep a screen come to the same.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

#[test]
fn the_edges_of_the_window() {
    let (first, last) = (u64::from(WINDOW.start), u64::from(WINDOW.end) - 1);
    for (address, length, inside) in [
        (first, 1, true),
        (first, 8, true),
        (first - 1, 1, false),
        (first - 1, 2, false),
        (last, 1, true),
        (last, 2, false),
        (last - 7, 8, true),
        (last - 6, 8, false),
        (last + 1, 1, false),
        (0, 4, false),
        (u64::MAX, 8, false),
    ] {
        let mut screen = Screen::default();
        screen.write(address, &vec![7; length]);
        let drawn: usize = screen
            .pixels
            .iter()
            .map(|pixel| usize::from(*pixel == 7))
            .sum();
        assert_eq!(drawn, if inside { length } else { 0 }, "{address:#x}");
        assert_eq!(screen.refused, u64::from(!inside), "{address:#x}");
        let mut back = vec![9; length];
        screen.read(address, &mut back);
        assert_eq!(
            back,
            vec![if inside { 7 } else { 0 }; length],
            "{address:#x}"
        );
    }
}

proptest! {
    #[test]
    fn drawing_write_by_write_and_page_by_page_leaves_the_same(
        writes in prop::collection::vec((0_usize..WINDOW_BYTES - 8, prop::collection::vec(any::<u8>(), 1..9)), 0..40),
        scans in prop::collection::vec(any::<bool>(), 40),
    ) {
        let (mut direct, mut scanned) = (Screen::default(), Screen::default());
        let mut memory = vec![0; WINDOW_BYTES];
        let mut log = vec![0_u64];
        let copy = |memory: &[u8], scanned: &mut Screen, log: &mut Vec<u64>| {
            let bits = u64::from(log[0].count_ones());
            let copied = scanned.refresh(log, |address, page| {
                let start = (address - WINDOW.start) as usize;
                page.copy_from_slice(&memory[start..start + page.len()]);
                Ok::<(), Infallible>(())
            });
            log[0] = 0;
            assert_eq!(copied, Ok(bits));
        };
        for ((at, bytes), scan) in writes.iter().zip(scans) {
            direct.write(u64::from(WINDOW.start) + *at as u64, bytes);
            memory[*at..*at + bytes.len()].copy_from_slice(bytes);
            for page in *at / PAGE_BYTES..=(*at + bytes.len() - 1) / PAGE_BYTES {
                log[0] |= 1 << page;
            }
            if scan {
                copy(&memory, &mut scanned, &mut log);
            }
        }
        copy(&memory, &mut scanned, &mut log);
        prop_assert_eq!(direct, scanned);
    }
}
