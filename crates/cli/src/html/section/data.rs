//! What the page's script works on: the halts in the file, the rule that replays them, and the lanes.
//! `page/data.js` has the same shape as a type.

use std::collections::BTreeMap;

use haltwise_core::event::WakeSource;
use haltwise_core::kvm::rule::{Clamp, GrowStart, GrowthCap, WindowOf};
use haltwise_core::kvm::{Knobs, Rule};
use haltwise_core::replay::latency::CLASSES;
use haltwise_core::tune::material::Seated;
use serde_json::{Value, json};

use super::timeline::seat_name;
use super::whatif::choice_name;
use crate::html::content::Content;
use crate::html::markup::Markup;
use crate::html::overview::STATES;
use crate::html::sample::Sampled;
use crate::html::sample::packed::{self, Packed};
use crate::html::sample::playable::{Playable, Point};

/// All of it.
pub(crate) fn data(content: &Content) -> serde_json::Result<Markup> {
    let overview = &content.overview;
    let lanes = overview.rows.iter().map(|row| {
        json!({
            "name": seat_name(content, &row.seat),
            "vm": row.seat.vm.map(|vm| vm.0),
            "shares": row.packed(overview.span_ns),
        })
    });
    let start_unix_ms = content.report.recording.started_utc.as_ref();
    let playable = content
        .sampled
        .as_ref()
        .and_then(|sampled| sampled.playable.as_ref());
    let mut pool = Pool::default();
    let seats = content
        .sampled
        .as_ref()
        .map(|sampled| seats(content, sampled, &mut pool));
    Markup::json(&json!({
        "schema": 1,
        "started": start_unix_ms,
        "span": overview.span_ns,
        "states": STATES,
        "lanes": lanes.collect::<Vec<_>>(),
        "sample": content.sampled.as_ref().map(|sampled| json!({
            "halts": sampled.halts,
            "of": sampled.of,
            "stretches": sampled.stretches,
            "seats": seats,
            "latencies": pool.texts,
        })),
        "play": playable.map(|playable| play(content, playable)),
    }))
}

/// Lists of latencies, each once.
#[derive(Debug, Default)]
struct Pool {
    known: BTreeMap<Vec<u64>, usize>,
    texts: Vec<String>,
}

impl Pool {
    fn place(&mut self, list: &[u64]) -> usize {
        if let Some(place) = self.known.get(list) {
            return *place;
        }
        let mut packed = Packed::default();
        for ns in list {
            packed.number(*ns);
        }
        self.texts.push(packed.text());
        self.known.insert(list.to_vec(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

fn seats(content: &Content, sampled: &Sampled, pool: &mut Pool) -> Vec<Value> {
    let seats = sampled.seats.iter().enumerate();
    seats
        .map(|(place, kept)| {
            let playable = sampled.playable.as_ref();
            let seated = playable.and_then(|playable| {
                let found = playable.places.iter().position(|&one| one == place)?;
                playable.material.seats.get(found)
            });
            let played = seated.map(|seated| &seated.samples[..]);
            json!({
                "name": seat_name(content, &kept.seat),
                "vm": kept.seat.vm.map(|vm| vm.0),
                "halts": packed::halts(&kept.halts, played, content.report.recording.start_ns),
                "count": kept.halts.len(),
                "play": seated.map(|seated| seat(seated, pool)),
            })
        })
        .collect()
}

/// What a replay knows of a vCPU beside its halts.
fn seat(seated: &Seated, pool: &mut Pool) -> Value {
    let classes: Vec<(usize, bool)> = (0..CLASSES)
        .map(|class| {
            let (latencies, guessed) = seated.table.of_class(class);
            (pool.place(latencies), guessed)
        })
        .collect();
    json!({
        "classes": classes.iter().map(|(place, _)| place).collect::<Vec<_>>(),
        "guessed": classes.iter().map(|(_, guessed)| guessed).collect::<Vec<_>>(),
        "follow": WakeSource::ALL.map(|source| seated.follow.share_milli(source)),
        "ceiling": seated.ceiling_ns,
        "own": seated.own_ceiling_ns,
    })
}

fn play(content: &Content, playable: &Playable) -> Value {
    let terms = &playable.material.terms;
    let wall = &playable.material.judged_wall;
    json!({
        "rule": rule(&terms.rule()),
        "reach": {
            "polls": playable.reach.polls,
            "adapts": playable.reach.adapts,
            "growStart": playable.reach.grow_start,
        },
        "inForce": knobs(&terms.in_force),
        "choiceName": choice_name(content),
        "cost": {
            "switch": playable.cost.switch_cpu_ns,
            "weight": playable.cost.latency_weight_milli,
        },
        "wall": { "span": wall.span_ns, "halt": wall.halt_ns, "vcpus": wall.vcpus },
        "points": playable.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// The rule of the kernel, as the page's own transcript takes it.
pub(crate) fn rule(rule: &Rule) -> Value {
    json!({
        "window": match rule.window {
            WindowOf::NoPolling => "none",
            WindowOf::Nobody => "nobody",
            WindowOf::Vcpu | WindowOf::Vcore => "vcpu",
        },
        "growStart": match rule.grow_start {
            GrowStart::Fixed => "fixed",
            GrowStart::Param => "param",
        },
        "growthCap": match rule.growth_cap {
            GrowthCap::None => "none",
            GrowthCap::Param => "param",
            GrowthCap::Ceiling => "ceiling",
        },
        "clamp": match rule.clamp {
            Clamp::Never => "never",
            Clamp::AtEntry => "entry",
            Clamp::AfterHalt => "after",
        },
        "shrinkFloor": rule.shrink_floor,
        "invalidWakeups": rule.invalid_wakeups,
    })
}

/// Parameters, in the page's words.
pub(crate) fn knobs(knobs: &Knobs) -> Value {
    json!({
        "ceiling": knobs.halt_poll_ns,
        "grow": knobs.grow,
        "growStart": knobs.grow_start,
        "shrink": knobs.shrink,
    })
}

fn point(point: &Point) -> Value {
    json!({
        "which": point.which,
        "knobs": point.knobs.as_ref().map(knobs),
        "halts": point.sums.halts,
        "blocks": point.sums.blocks,
        "poll": point.sums.poll_ns,
        "latency": point.sums.latency_ns,
        "halt": point.sums.halt_ns,
        "p99": point.latency_p99_ns,
    })
}

#[cfg(test)]
mod test;
