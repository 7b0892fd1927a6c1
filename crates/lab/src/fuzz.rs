//! Entry points for the fuzz targets and their smoke runs: any bytes as KVM's binary statistics, and as what
//! a guest does to a device.
//!
//! Not part of the library's interface.

use std::convert::Infallible;

use crate::device::framebuffer::{PAGE_BYTES, Screen, WINDOW, WINDOW_BYTES};
use crate::stats_fd::{StatKind, parse};

/// Reads bytes as a stats fd's content; gives how many statistics it holds.
///
/// # Panics
/// If more was read than the bytes hold, or a difference to itself is not zero.
pub fn stats_fd(bytes: &[u8]) -> u64 {
    let Ok(stats) = parse(bytes) else { return 0 };
    let held: usize = stats
        .0
        .iter()
        .map(|(name, stat)| name.len() + stat.values.len() * 8)
        .sum();
    assert!(held <= 2 * bytes.len(), "{held} bytes of {}", bytes.len());
    let change = stats.since(&stats);
    assert_eq!(change.0.len(), stats.0.len(), "statistics of a difference");
    for (name, now) in &stats.0 {
        let is_state = matches!(now.kind, StatKind::Instant | StatKind::Peak);
        let same = if is_state {
            now.values.clone()
        } else {
            vec![0; now.values.len()]
        };
        assert_eq!(change.0[name].values, same, "change of {name}");
        assert!(stats.scalar(name).is_none() || stats.log_hist(name).is_none());
    }
    stats.0.len() as u64
}

/// Takes bytes as accesses to the VGA window, 16 of them each: kind, length, a word of a dirty log or of an
/// address's upper half, its lower half, and what is written. Gives how many were within the window.
///
/// # Panics
/// If an access is neither done nor refused, or the screen is of another size than the window.
pub fn framebuffer(bytes: &[u8]) -> u64 {
    let mut screen = Screen::default();
    let (mut accesses, mut within) = (0, 0);
    for access in bytes.chunks_exact(16) {
        let word = |at: usize| {
            access[at..at + 4]
                .iter()
                .rev()
                .fold(0, |w, b| w << 8 | u64::from(*b))
        };
        let (length, address) = (usize::from(access[1] % 9), word(8) | word(4) << 32);
        let refused = screen.refused();
        match access[0] % 3 {
            0 => screen.write(address, &vec![access[15]; length]),
            1 => screen.read(address, &mut vec![access[15]; length]),
            _ => {
                let log = [word(4), word(8) << 32 | word(12)];
                let copied = screen.refresh(&log[..length % 3], |address, page| {
                    assert!(WINDOW.contains(&address) && page.len() == PAGE_BYTES);
                    page.fill(access[15]);
                    Ok::<(), Infallible>(())
                });
                assert!(copied.is_ok_and(|pages| pages <= 16));
                continue;
            }
        }
        accesses += 1;
        let last = address.saturating_add((length as u64).saturating_sub(1));
        let inside = address >= u64::from(WINDOW.start) && last < u64::from(WINDOW.end);
        // Nothing at all may also be read or written at the very end.
        assert!(
            length == 0 || (screen.refused() == refused) == inside,
            "{address:#x} {length}"
        );
        within += u64::from(screen.refused() == refused);
    }
    assert_eq!(accesses, within + screen.refused(), "done or refused");
    assert_eq!(screen.pixels().len(), WINDOW_BYTES);
    within
}
