//! All lanes of vectors, in groups, and which settings share one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::group::{Group, LANES, Terms};
use super::halt::{Ahead, Prepared};
use super::kernel;
use super::ladder::Ladder;
use super::lane::Lane;
use crate::kvm::Rule;
use crate::replay::Sums;
use crate::replay::arrivals::Follow;
use crate::replay::latency::Table;
use crate::replay::sample::Sample;

/// Halts that are prepared together: few enough for a second-level cache.
const BLOCK: usize = 256;

/// Groups that play a block together: few enough for a first-level cache of 32 KiB.
const TILE: usize = 8;

#[derive(Debug, Clone)]
struct Member {
    lane: usize,
    /// Sums of the member beyond the lane's tally, from the time when the member had a lane of its own.
    more: Sums,
}

#[derive(Debug, Clone)]
pub(super) struct Vectors {
    rule: Rule,
    members: Vec<Member>,
    groups: Vec<Group>,
    /// The same lanes one by one, for halts that vectors do not cover.
    lanes: Vec<(Lane, Terms)>,
    ahead: Ahead,
    block: Vec<Prepared>,
    filled: usize,
    /// Halts that were played, and after how many lanes are compared again.
    played: usize,
    look: usize,
}

impl Vectors {
    pub(super) fn new(rule: Rule, lanes: Vec<(Lane, Terms)>) -> Self {
        let member = |lane| Member {
            lane,
            more: Sums::default(),
        };
        let mut groups = vec![Group::default(); lanes.len().div_ceil(LANES)];
        for (number, (_, terms)) in lanes.iter().enumerate() {
            groups[number / LANES].put(number % LANES, terms);
        }
        let longest = lanes.iter().map(|(_, terms)| terms.longest).max();
        let mut vectors = Self {
            rule,
            members: (0..lanes.len()).map(member).collect(),
            groups,
            lanes,
            ahead: Ahead::new(longest.unwrap_or(0)),
            block: vec![Prepared::default(); BLOCK],
            filled: 0,
            played: 0,
            look: BLOCK,
        };
        vectors.join();
        vectors
    }

    #[cfg(test)]
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn play(&mut self, samples: &[Sample], table: &Table, follow: &Follow) {
        for sample in samples {
            let prepared = &mut self.block[self.filled];
            let ahead = &mut self.ahead;
            if (ahead.prepare(self.rule, sample, table, follow, prepared)).is_some() {
                self.filled += 1;
                if self.filled == BLOCK {
                    self.run_block();
                }
            } else {
                self.run_block();
                self.step_apart(sample, table, follow);
            }
        }
        self.run_block();
    }

    fn run_block(&mut self) {
        for tile in self.groups.chunks_mut(TILE) {
            kernel::run(tile, &self.block[..self.filled]);
        }
        self.played += self.filled;
        self.filled = 0;
        if self.played >= self.look {
            // Those that never meet are not to be looked at for ever.
            self.look *= 2;
            self.join();
        }
    }

    /// A halt that vectors do not cover, lane by lane.
    fn step_apart(&mut self, sample: &Sample, table: &Table, follow: &Follow) {
        let turn = self.ahead.turn();
        let known = self.ahead.is_last_known();
        for (number, (lane, _)) in self.lanes.iter_mut().enumerate() {
            let (group, index) = (&mut self.groups[number / LANES], number % LANES);
            lane.take_over(group.window(index));
            if known {
                lane.set_ahead(self.ahead.recorded_ns(), group.last_ns(index));
            }
            lane.step(self.rule, sample, table, follow, turn);
            group.take_over(index, lane.window());
        }
        self.ahead.went_apart(sample);
    }

    /// Puts those into one lane that will do the same from here on: the same ladder, and the same latency
    /// of the last halt, which may come off the next gap. Lanes are put in order, those with the
    /// shortest windows first, since a tile's longest decides how much it has to do.
    fn join(&mut self) {
        if !self.ahead.is_last_known() {
            return;
        }
        let mut first = BTreeMap::new();
        let mut stands_for: Vec<usize> = (0..self.lanes.len()).collect();
        for (number, (lane, _)) in self.lanes.iter().enumerate() {
            let (group, index) = (&self.groups[number / LANES], number % LANES);
            let Some(ladder) = Ladder::of(lane.choice(), self.rule, group.window(index)) else {
                continue;
            };
            match first.entry((ladder, group.last_ns(index))) {
                Entry::Occupied(known) => stands_for[number] = *known.get(),
                Entry::Vacant(free) => {
                    free.insert(number);
                }
            }
        }
        let mut kept: Vec<usize> = (0..self.lanes.len())
            .filter(|&number| stands_for[number] == number)
            .collect();
        kept.sort_by_key(|&number| {
            let (_, terms) = &self.lanes[number];
            (!terms.is_binary(), terms.longest)
        });
        self.move_members(&stands_for, &kept);
        self.move_lanes(&kept);
    }

    fn move_members(&mut self, stands_for: &[usize], kept: &[usize]) {
        let mut place = vec![0; self.lanes.len()];
        for (new, &old) in kept.iter().enumerate() {
            place[old] = new;
        }
        let tallies: Vec<Sums> = (0..self.lanes.len())
            .map(|lane| self.of_lane(lane))
            .collect();
        for member in &mut self.members {
            let into = stands_for[member.lane];
            // A difference below 0 wraps here, and wraps back in `tally`.
            let apart = tallies[member.lane].with(&tallies[into], u64::wrapping_sub);
            member.more = member.more.with(&apart, u64::wrapping_add);
            member.lane = place[into];
        }
    }

    fn move_lanes(&mut self, kept: &[usize]) {
        let mut groups = vec![Group::default(); kept.len().div_ceil(LANES)];
        for (new, &old) in kept.iter().enumerate() {
            let (from, at) = (&self.groups[old / LANES], old % LANES);
            groups[new / LANES].put_on(new % LANES, &self.lanes[old].1, from, at);
        }
        self.groups = groups;
        self.lanes = kept.iter().map(|&old| self.lanes[old].clone()).collect();
    }

    fn of_lane(&self, number: usize) -> Sums {
        let (group, (lane, _)) = (&self.groups[number / LANES], &self.lanes[number]);
        group.tally(number % LANES, &self.ahead, &lane.tally())
    }

    /// Totals of all halts so far under one of the settings.
    pub(super) fn tally(&self, number: usize) -> Sums {
        let member = &self.members[number];
        self.of_lane(member.lane)
            .with(&member.more, u64::wrapping_add)
    }
}
