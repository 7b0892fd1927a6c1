//! The settings of haltpoll that are evaluated, and their neighbours.

use crate::kvm::guest::Params;
use crate::tune::candidates::{self, SHORTEST_NS};

/// Ceilings of the grid in nanoseconds, as people write them. People sweep this parameter by hand from 0.2 to
/// 10 ms; a longer poll saves one exit in ten milliseconds at most, which no user notices.
const CEILINGS_NS: [u32; 20] = [
    0, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 250_000, 300_000,
    400_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000, LONGEST_NS,
];

/// No ceiling above this is evaluated, in nanoseconds.
pub(super) const LONGEST_NS: u32 = 10_000_000;

/// First limits of the grid in nanoseconds; the ceiling itself comes to them.
const FIRST_LIMITS_NS: [u32; 5] = [10_000, 25_000, 50_000, 100_000, 400_000];

/// Factors of growth. 0 and 1 stay at the first limit, which is what a first limit at the ceiling does better.
const GROWS: [u32; 2] = [2, 4];

/// Divisors of shrinking: at once to 0, by half, to a quarter.
const SHRINKS: [u32; 3] = [0, 2, 4];

/// The whole grid. Where a parameter makes no difference it is as in `in_force`.
pub(super) fn grid(in_force: &Params) -> Vec<Params> {
    let mut grid = vec![Params {
        guest_halt_poll_ns: 0,
        allow_shrink: true,
        ..*in_force
    }];
    for ceiling_ns in CEILINGS_NS.into_iter().filter(|&ns| ns > 0) {
        let ceiling = Params {
            guest_halt_poll_ns: ceiling_ns,
            ..*in_force
        };
        for grow_start in FIRST_LIMITS_NS.into_iter().filter(|&ns| ns < ceiling_ns) {
            for grow in GROWS {
                shrinking(
                    Params {
                        grow,
                        grow_start,
                        ..ceiling
                    },
                    &mut grid,
                );
            }
        }
        let grow_start = ceiling_ns;
        shrinking(
            Params {
                grow_start,
                ..ceiling
            },
            &mut grid,
        );
    }
    grid
}

fn shrinking(of: Params, grid: &mut Vec<Params>) {
    let allow_shrink = true;
    grid.extend(SHRINKS.map(|shrink| Params {
        shrink,
        allow_shrink,
        ..of
    }));
    grid.push(Params {
        allow_shrink: false,
        ..of
    });
}

/// Settings around one, each a step away. `steps` are factors for times.
pub(super) fn neighbours(around: &Params, steps: &[f64]) -> Vec<Params> {
    if around.guest_halt_poll_ns == 0 {
        return Vec::new();
    }
    let scaled = |ns: u32, step| candidates::scaled(ns, step, SHORTEST_NS..=LONGEST_NS);
    let mut found = Vec::new();
    for &step in steps {
        let ceiling_ns = scaled(around.guest_halt_poll_ns, step);
        let grow_start = scaled(around.grow_start, step);
        let with_ceiling = Params {
            guest_halt_poll_ns: ceiling_ns,
            ..*around
        };
        found.extend([
            with_ceiling,
            Params {
                grow_start,
                ..with_ceiling
            },
            Params {
                grow_start,
                ..*around
            },
        ]);
    }
    for grow in [around.grow.saturating_sub(1), around.grow.saturating_add(1)] {
        found.push(Params { grow, ..*around });
    }
    shrinking(*around, &mut found);
    found.retain(|params| params.grow_start <= params.guest_halt_poll_ns && params.grow > 0);
    found
}
