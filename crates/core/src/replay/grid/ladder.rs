//! The windows that a setting can come to, and what leads from each to the next.
//!
//! Settings with the same ladder do the same on any halts, for nothing but the window and the ceiling
//! decides what a halt does: with a `grow` of 1, say, any `shrink` but 1 leads from the first window
//! straight to 0. Of a whole grid more than a quarter are doubles.

use super::Choice;
use crate::kvm::{Observed, Rule};

/// Windows of a ladder at most: longer ones are not followed, and count as like no other.
const MOST: usize = 48;

/// A window and what halts make of it: those between it and the ceiling, those above the ceiling, those at
/// the ceiling, and those with an invalid wake-up.
type Rung = (u32, [u32; 4]);

/// The ceiling, and every window from the first on that can be reached, in the order of a walk: equal
/// walks have equal steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ladder {
    ceiling_ns: u32,
    rungs: Vec<Rung>,
}

impl Ladder {
    /// Ladder of a setting whose next halt has this window; `None` if the ladder is too long.
    pub(super) fn of(choice: &Choice, rule: Rule, window: u32) -> Option<Self> {
        let mut rungs: Vec<Rung> = Vec::new();
        let mut ahead = vec![window];
        while let Some(window) = ahead.pop() {
            if rungs.iter().any(|(known, _)| *known == window) {
                continue;
            }
            if rungs.len() == MOST {
                return None;
            }
            let next = next(choice, rule, window);
            rungs.push((window, next));
            ahead.extend(next);
        }
        Some(Self {
            ceiling_ns: choice.ceiling_ns,
            rungs,
        })
    }
}

/// Windows after each of the four kinds of halts. Valid halts no longer than the window leave it unchanged.
fn next(choice: &Choice, rule: Rule, window: u32) -> [u32; 4] {
    let (ceiling, own) = (u64::from(choice.ceiling_ns), u64::from(window));
    let after = |halt_ns, valid| {
        let observed = Observed {
            halt_ns,
            valid,
            allowed: true,
        };
        let step = rule.after(&choice.knobs, choice.ceiling_ns, window, observed);
        rule.entry(step.window, choice.ceiling_ns)
    };
    let between = if own + 1 < ceiling {
        after(own + 1, true)
    } else {
        window
    };
    let at = if own < ceiling {
        after(ceiling, true)
    } else {
        window
    };
    [
        between,
        after(ceiling.max(own) + 1, true),
        at,
        after(0, false),
    ]
}
