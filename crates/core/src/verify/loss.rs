//! When events were lost: who halted then may have halted more often than was recorded.

/// Stretches of time in which something was lost, in order and apart from each other.
///
/// Grows with the number of losses, and with their stretch at most as fast as the recorder samples:
/// what overlaps becomes one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    stretches: Vec<(u64, u64)>,
}

impl Losses {
    /// Something was lost between two moments, both included. To be told in order of the first.
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        match self.stretches.last_mut() {
            Some((_, end)) if from_ns <= *end => *end = to_ns.max(*end),
            _ => self.stretches.push((from_ns, to_ns.max(from_ns))),
        }
    }

    /// Whether anything was lost between two moments, both included.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> bool {
        let next = self.stretches.partition_point(|(_, end)| *end < from_ns);
        let next = self.stretches.get(next);
        next.is_some_and(|(start, _)| *start <= to_ns)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_loss_is_found_from_both_sides_and_by_its_edges() {
        let mut losses = Losses::default();
        losses.add(100, 200);
        losses.add(150, 250);
        losses.add(400, 400);
        for (from, to, lost) in [
            (0, 99, false),
            (0, 100, true),
            (120, 130, true),
            (250, 300, true),
            (251, 399, false),
            (300, 500, true),
            (400, 400, true),
            (401, u64::MAX, false),
        ] {
            assert_eq!(losses.between(from, to), lost, "{from} to {to}");
        }
        assert!(!Losses::default().between(0, u64::MAX));
    }
}
