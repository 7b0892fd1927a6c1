//! What the page replays, and what core makes of the same halts.

use haltwise_core::event::Halt;
use haltwise_core::kvm::Knobs;
use haltwise_core::policy::Start;
use haltwise_core::replay::{Cost, Outcome, Sample};
use haltwise_core::tune::Alone;
use haltwise_core::tune::candidates::Reach;
use haltwise_core::tune::figures::{self, Subject};
use haltwise_core::tune::material::{Material, Seated};
use haltwise_core::tune::pareto;
use haltwise_core::tune::stage::{CeilingsOf, Entry};
use haltwise_core::tune::sums::{Sums, Wall};

use super::Sampled;
use crate::exit::Failure;
use crate::tune::seek::Sought;

/// Latencies of each class that go into the file, of one vCPU at most and of all together about.
const LATENCIES: usize = 128;
const LATENCIES_IN_ALL: usize = 4_096;

/// The sample as a replay takes it.
#[derive(Debug)]
pub(crate) struct Playable {
    /// The halts. All of them judge: nothing is fitted to them.
    pub(crate) material: Material,
    /// Of each of the material's vCPUs, which of the sample's it is.
    pub(crate) places: Vec<usize>,
    /// What a halt costs, by the goal that was asked for.
    pub(crate) cost: Cost,
    /// What core makes of some settings and of the clairvoyant.
    pub(crate) points: Vec<Point>,
    /// What of the parameters the kernel has.
    pub(crate) reach: Reach,
}

/// A setting or policy, and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// Whose.
    pub(crate) which: Which,
    /// The parameters; `None` for the clairvoyant.
    pub(crate) knobs: Option<Knobs>,
    /// What came of it.
    pub(crate) sums: Sums,
    /// The 99th percentile of the wake-up latency over all halts, in nanoseconds.
    pub(crate) latency_p99_ns: u64,
}

/// Whose figures these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Which {
    /// The setting in force when recorded, each VM under its own ceiling.
    InForce,
    /// The kernel's default.
    Default,
    /// What is recommended, or came nearest to it.
    Choice,
    /// No polling.
    Off,
    /// The bound.
    Clairvoyant,
    /// A setting that no other beats in both polling and latency.
    Front,
}

impl Playable {
    /// Takes tables and terms from a search over all halts. `None` if no kept halt can be played.
    pub(super) fn new(sampled: &Sampled, sought: &Sought) -> Result<Option<Self>, Failure> {
        let from = &sought.material;
        let mut seats = Vec::new();
        let mut places = Vec::new();
        let most = (LATENCIES_IN_ALL / sampled.seats.len().max(1)).clamp(8, LATENCIES);
        for (place, kept) in sampled.seats.iter().enumerate() {
            let found = from.seats.iter().find(|seated| seated.seat == kept.seat);
            if let Some(seated) = found {
                places.push(place);
                seats.push(seat(seated, &kept.halts, most));
            }
        }
        if seats.is_empty() {
            return Ok(None);
        }
        let lengths = sampled.stretches.iter().map(|(begin, end)| end - begin);
        let played = seats.iter().flat_map(|seated| &seated.samples);
        let wall = Wall {
            span_ns: lengths.sum(),
            halt_ns: played.map(|sample| sample.halt_ns).sum(),
            vcpus: seats.len() as u64,
        };
        let material = Material {
            terms: from.terms.clone(),
            seats,
            fit_wall: Wall::default(),
            judged_wall: wall,
            out_of_order: 0,
            skipped: sampled.of - sampled.halts,
        };
        let mut playable = Self {
            reach: Reach::of(&material.terms.rule()),
            cost: sought.advice.goal.aim.cost,
            material,
            places,
            points: Vec::new(),
        };
        playable.points = playable.points_of(sought)?;
        Ok(Some(playable))
    }

    /// Settings that the page draws, as core plays them on the same halts.
    fn points_of(&self, sought: &Sought) -> Result<Vec<Point>, Failure> {
        let terms = &self.material.terms;
        let off = Knobs {
            halt_poll_ns: 0,
            ..terms.in_force
        };
        let mut wanted = vec![
            (Which::InForce, Some(terms.in_force)),
            (Which::Default, Some(terms.default_knobs())),
        ];
        if let Some(choice) = &sought.advice.choice {
            wanted.push((Which::Choice, Some(choice.knobs)));
        }
        wanted.extend([(Which::Off, Some(off)), (Which::Clairvoyant, None)]);
        let cost = &sought.advice.goal.aim.cost;
        let stable = (sought.of.others.iter()).filter(|one| one.two_states(cost).is_none());
        wanted.extend(stable.map(|one| (Which::Front, Some(one.knobs))));
        let subject = |(which, knobs): &(Which, Option<Knobs>)| match knobs {
            Some(knobs) => Ok(Subject::Setting(entry(*which, *knobs))),
            None => Ok(Subject::Policy("clairvoyant".parse()?)),
        };
        let subjects: Result<Vec<Subject>, Failure> = wanted.iter().map(subject).collect();
        let outcomes = figures::figures(&self.material, &subjects?, &self.cost, &Alone)?;
        let points = wanted.into_iter().zip(&outcomes);
        let points = points.map(|((which, knobs), of)| point(which, knobs, of));
        Ok(with_a_front(points.collect()))
    }
}

/// A setting as the page plays it.
fn entry(which: Which, knobs: Knobs) -> Entry {
    Entry {
        ceilings: match which {
            Which::InForce => CeilingsOf::Recorded,
            _ => CeilingsOf::Param,
        },
        start: Start::Zero,
        knobs,
    }
}

fn point(which: Which, knobs: Option<Knobs>, of: &Outcome) -> Point {
    Point {
        which,
        knobs,
        sums: Sums::of_outcome(of),
        latency_p99_ns: of.latency.percentile(0.99).unwrap_or(0),
    }
}

/// Of the points for the front, those that no other of them beats on these halts.
fn with_a_front(points: Vec<Point>) -> Vec<Point> {
    let (for_front, mut kept): (Vec<Point>, Vec<Point>) =
        (points.into_iter()).partition(|point| point.which == Which::Front);
    let places: Vec<pareto::Point> = for_front
        .iter()
        .map(|point| (point.sums.poll_ns, point.sums.latency_ns))
        .collect();
    let front = pareto::front(&places).into_iter();
    kept.extend(front.map(|index| for_front[index].clone()));
    kept
}

/// A vCPU with the halts that were kept.
fn seat(from: &Seated, halts: &[Halt], most: usize) -> Seated {
    let table = from.table.thinned(most);
    let mut recorded = Outcome::default();
    let samples: Vec<Sample> = (0..)
        .zip(halts)
        .map(|(turn, halt)| {
            let sample = Sample::new(halt, &table, turn);
            recorded.add_recorded(halt, &sample);
            sample
        })
        .collect();
    Seated {
        seat: from.seat,
        ends: vec![0, samples.len()],
        samples,
        table,
        follow: from.follow,
        ceiling_ns: from.ceiling_ns,
        own_ceiling_ns: from.own_ceiling_ns,
        recorded,
    }
}
