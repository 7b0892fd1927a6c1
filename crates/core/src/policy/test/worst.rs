//! The gaps on which a rule costs most as a multiple of the oracle's cost, by search of all states that gaps lead to.

use std::collections::HashMap;
use std::hash::Hash;

/// A quarter of the price of a block. Costs and states are rounded to quarters: a gap that is a nanosecond longer than a
/// window costs the oracle as much as one of that length. On coarser worlds the ratio is smaller and tends to this one.
const UNIT: u32 = 1 << 16;
pub(in crate::policy) const BLOCK: u32 = 4 * UNIT;

/// Gaps that the adversary chooses from: each number of quarters, and a nanosecond more.
const GAPS: [u32; 10] = [
    0,
    1,
    UNIT,
    UNIT + 1,
    2 * UNIT,
    2 * UNIT + 1,
    3 * UNIT,
    3 * UNIT + 1,
    BLOCK,
    BLOCK + 1,
];

pub(in crate::policy) fn rounded(ns: i64) -> i64 {
    let unit = i64::from(UNIT);
    (ns + unit / 2).div_euclid(unit) * unit
}

#[derive(Debug)]
pub(in crate::policy) struct Worst {
    states: usize,
    /// The rule's cost over the oracle's.
    pub(in crate::policy) ratio: f64,
    /// Gaps in quarters of a block, which the adversary repeats; `+` is a nanosecond more.
    gaps: Vec<String>,
}

impl Worst {
    /// Shows the adversary's gaps under `--nocapture`.
    #[expect(
        clippy::print_stdout,
        reason = "the sequence is a result of the search"
    )]
    pub(in crate::policy) fn print(&self) {
        println!(
            "{} states, {:.3} times the oracle's cost on {:?}",
            self.states, self.ratio, self.gaps
        );
    }
}

struct Edge {
    to: usize,
    gap: u32,
    /// The rule's and the oracle's, in quarters of a block.
    costs: (i64, i64),
}

/// `window` is the window of a state, `after` the state after a halt with a gap.
pub(in crate::policy) fn worst<S: Clone + Eq + Hash>(
    start: S,
    window: impl Fn(&S) -> u32,
    after: impl Fn(&S, u32) -> S,
) -> Worst {
    let (mut states, mut numbers) = (vec![start.clone()], HashMap::from([(start, 0)]));
    let mut edges: Vec<[Edge; GAPS.len()]> = Vec::new();
    while let Some(state) = states.get(edges.len()).cloned() {
        let window = window(&state);
        edges.push(GAPS.map(|gap| {
            let next = after(&state, gap);
            let to = *numbers.entry(next.clone()).or_insert_with(|| {
                states.push(next);
                states.len() - 1
            });
            let cost = if gap <= window { gap } else { window + BLOCK };
            let units = |ns: u32| rounded(ns.into()) / i64::from(UNIT);
            let costs = (units(cost), units(gap.min(BLOCK)));
            Edge { to, gap, costs }
        }));
    }
    let (mut costs, mut gaps) = ((1, 1), Vec::new());
    while let Some(cycle) = dearer_cycle(&edges, costs) {
        costs = (
            cycle.iter().map(|it| it.costs.0).sum(),
            cycle.iter().map(|it| it.costs.1).sum(),
        );
        let text = |it: &&Edge| match it.gap % UNIT {
            0 => (it.gap / UNIT).to_string(),
            _ => format!("{}+", it.gap / UNIT),
        };
        gaps = cycle.iter().map(text).collect();
    }
    Worst {
        states: states.len(),
        ratio: costs.0 as f64 / costs.1 as f64,
        gaps,
    }
}

/// A cycle on which the rule costs more than this multiple of the oracle's cost, by Bellman and Ford: where none exists, the
/// greatest loss on the way to each state comes to rest.
fn dearer_cycle(edges: &[[Edge; GAPS.len()]], than: (i64, i64)) -> Option<Vec<&Edge>> {
    let mut most = vec![0; edges.len()];
    let mut from: Vec<Option<(usize, &Edge)>> = vec![None; edges.len()];
    for round in 1.. {
        let mut moved = false;
        for (state, leaving) in edges.iter().enumerate() {
            for edge in leaving {
                let loss = most[state] + edge.costs.0 * than.1 - edge.costs.1 * than.0;
                if loss > most[edge.to] {
                    most[edge.to] = loss;
                    from[edge.to] = Some((state, edge));
                    moved = true;
                }
            }
        }
        if !moved {
            break;
        }
        let cycle = (round % 8 == 0).then(|| cycle_of(&from)).flatten();
        if cycle.is_some() {
            return cycle;
        }
    }
    None
}

/// A cycle among the edges by which states were reached last.
fn cycle_of<'a>(from: &[Option<(usize, &'a Edge)>]) -> Option<Vec<&'a Edge>> {
    let mut walk_of = vec![usize::MAX; from.len()];
    for start in 0..from.len() {
        let mut state = start;
        while let Some((before, _)) = from[state].filter(|_| walk_of[state] == usize::MAX) {
            walk_of[state] = start;
            state = before;
        }
        if walk_of[state] != start {
            continue;
        }
        let (end, mut cycle) = (state, Vec::new());
        while let Some((before, edge)) = from[state] {
            cycle.insert(0, edge);
            state = before;
            if state == end {
                return Some(cycle);
            }
        }
    }
    None
}
