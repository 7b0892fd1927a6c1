//! Data for the page's script: the halts in the file, the grid of settings, and the lanes.
//! `page/data.js` has the same shape as a type.

use haltwise_core::replay::Sums;
use haltwise_core::tune::whatif::Cell;
use serde_json::{Value, json};

use super::timeline::seat_name;
use super::whatif::choice_name;
use crate::html::content::Content;
use crate::html::markup::Markup;
use crate::html::overview::STATES;
use crate::html::sample::{self, Sampled};
use crate::recommend::candidates::SettingRow;
use crate::recommend::view::settings;
use crate::recommend::whatif::WhatIf;

pub(crate) fn data(content: &Content) -> serde_json::Result<Markup> {
    let overview = &content.overview;
    let lanes = overview.rows.iter().map(|row| {
        json!({
            "name": seat_name(content, &row.seat),
            "vm": row.seat.vm.map(|vm| vm.0),
            "shares": row.packed(overview.span_ns),
        })
    });
    Markup::json(&json!({
        "schema": 2,
        "started": content.report.recording.started_utc.as_ref(),
        "span": overview.span_ns,
        "states": STATES,
        "lanes": lanes.collect::<Vec<_>>(),
        "sample": content.sampled.as_ref().map(|sampled| json!({
            "halts": sampled.halts,
            "of": sampled.of,
            "stretches": sampled.stretches,
            "seats": seats(content, sampled),
        })),
        "whatif": content.whatif.as_ref().map(|grid| whatif(content, grid)),
        "recommendation": content.report.recommendation,
    }))
}

fn seats(content: &Content, sampled: &Sampled) -> Vec<Value> {
    let seats = sampled.seats.iter();
    seats
        .map(|(seat, halts)| {
            json!({
                "name": seat_name(content, seat),
                "vm": seat.vm.map(|vm| vm.0),
                "halts": sample::packed(halts, content.report.recording.start_ns),
                "count": halts.len(),
            })
        })
        .collect()
}

/// The grid: every setting with its figures, and the parts of its cost, so that any weight of latency can be
/// put on them.
fn whatif(content: &Content, of: &WhatIf) -> Value {
    let grid = &of.grid;
    let shapes = grid.shapes.iter().map(|shape| of.shape(shape));
    let (vcpus, own) = of.vcpus;
    let (in_force, sums) = &of.in_force;
    let place = |knobs| grid.place(knobs);
    let mut told = figures(of, sums);
    told["setting"] = json!(settings(in_force, of.reach));
    told["vms"] = vms(of, sums, &grid.in_force);
    json!({
        "switch": of.cost.switch_cpu_ns,
        "weight": of.cost.latency_weight_milli,
        "least": least(content),
        "choiceName": choice_name(content),
        "ceilings": grid.ceilings_ns,
        "shapes": shapes.collect::<Vec<_>>(),
        "places": {
            "inForce": place(in_force),
            "default": place(&of.default),
            "choice": of.choice.as_ref().and_then(place),
        },
        "vms": grid.vms.iter().map(|vm| vm.0).collect::<Vec<_>>(),
        "vcpus": vcpus,
        "own": own,
        "inForce": told,
        "cells": grid.cells.iter().map(|one| cell(of, one)).collect::<Vec<_>>(),
    })
}

fn least(content: &Content) -> Option<f64> {
    let played = content.advice()?.played.as_ref()?;
    Some(played.figures(SettingRow::Clairvoyant)?.cost_ns_per_halt)
}

fn cell(of: &WhatIf, cell: &Cell) -> Value {
    let mut told = figures(of, &cell.own);
    told["setting"] = json!(settings(&cell.knobs, of.reach));
    told["other"] = json!((cell.own != cell.other).then(|| figures(of, &cell.other)));
    told["vms"] = vms(of, &cell.own, &cell.vms);
    told
}

fn figures(of: &WhatIf, sums: &Sums) -> Value {
    let halts = sums.halts.max(1) as f64;
    json!({
        "poll_cpu_percent": of.wall.poll_cpu_percent(sums),
        "latency_mean_ns": sums.latency_mean_ns(),
        "cost_ns_per_halt": sums.cost_per_halt_ns(&of.cost),
        "sleeps": rounded(sums.blocks as f64 / (of.wall.under(sums) / 1e9)),
        "poll": rounded(sums.poll_ns as f64 / halts),
        "blocks": sums.blocks as f64 / halts,
    })
}

/// Values per VM: polling in % of a CPU, and mean wake-up latency.
fn vms(of: &WhatIf, all: &Sums, vms: &[Sums]) -> Value {
    let under = of.wall.under(all);
    let one = |sums: &Sums| {
        let percent = 100.0 * sums.poll_ns as f64 / under;
        json!([rounded(percent), rounded(sums.latency_mean_ns())])
    };
    vms.iter().map(one).collect()
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
