//! The edges of the window.

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
