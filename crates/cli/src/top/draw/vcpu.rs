//! The screen of one vCPU: its figures over time, and where its halted time goes.

use haltwise_core::account::Spread;
use haltwise_core::ids::{VcpuId, VmIndex};

use super::pen::{Pen, Theme, fitting};
use super::{charts, head, parts};
use crate::number::{maybe_nanos, scaled};
use crate::top::columns::cpu;
use crate::top::model::Model;
use crate::top::rows::{self, Key, TopRow};
use crate::top::step::Cell;

pub(super) fn draw(
    model: &Model,
    (vm, id): (VmIndex, VcpuId),
    pen: &mut Pen<'_>,
    top: u16,
    height: u16,
) {
    let there = model.step().and_then(|step| {
        let of_vm = step.around.vms.iter().find(|there| there.index == vm)?;
        let mut rows = rows::of_vcpus(step, of_vm, model.origin.names.as_ref()).into_iter();
        rows.find(|row| row.key == Key::Vcpu(vm, id))
    });
    let Some(row) = there else {
        let text = format!("vCPU {id} was not present in this interval.");
        pen.text(0, top, &text, pen.theme.worth());
        return;
    };
    let y = said(&row, pen, top);
    if row.instead().is_some() {
        return;
    }
    let under = parts::height(model);
    let end = top + height;
    let under = if end.saturating_sub(y) > under + 4 {
        under
    } else {
        0
    };
    charts::four(model, row.key, pen, (y, end - under));
    if under > 0 {
        let cell = model.step().and_then(|step| step.vcpu(vm, id));
        let nothing = Cell::default();
        parts::draw(model, cell.unwrap_or(&nothing), pen, end - under, under);
    }
}

fn said(row: &TopRow, pen: &mut Pen<'_>, top: u16) -> u16 {
    let figures = &row.figures;
    if let Some(text) = row.instead() {
        let x = pen.text(0, top, &row.name, Theme::strong());
        pen.text(x, top, &format!(": {text}"), pen.theme.worth());
        return top + 1;
    }
    let x = pen.text(0, top, &row.name, Theme::strong());
    let mut pieces = vec![
        format!("{} halts/s", scaled(figures.halts_per_s)),
        format!("failed {}", cpu(figures.wasted)),
        format!("successful {}", cpu(figures.useful)),
    ];
    if let Some(exits) = &figures.exits {
        pieces.push(format!("{} exits/s", scaled(exits.per_s)));
    }
    let text = format!(": {}", fitting(&pieces, pen.width().saturating_sub(x + 2)));
    pen.text(x, top, &text, Theme::plain());
    let latency = |of: &dyn Fn(Spread) -> u64| maybe_nanos(figures.latency.map(of));
    let text = format!(
        "sleeps: wake-up p50 {}, p95 {}, p99 {}, max {}",
        latency(&|l| l.p50),
        latency(&|l| l.p95),
        latency(&|l| l.p99),
        latency(&|l| l.max),
    );
    pen.text(0, top + 1, &text, Theme::plain());
    pen.text(0, top + 2, &head::limits(figures), Theme::plain());
    top + 3
}
