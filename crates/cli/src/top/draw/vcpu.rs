//! The screen of one vCPU: its figures over time, and where its halted time goes.

use haltwise_core::account::Spread;
use haltwise_core::ids::{VcpuId, VmIndex};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::theme::{Theme, fitting};
use super::{charts, head, parts};
use crate::number::{maybe_nanos, scaled};
use crate::top::columns::{cpu, per_second};
use crate::top::model::Model;
use crate::top::rows::{self, TopRow};
use crate::top::step::Key;

pub(super) fn lines(
    model: &Model,
    (vm, id): (VmIndex, VcpuId),
    theme: Theme,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let row = model.step().and_then(|step| {
        let of_vm = step.around.vms.iter().find(|it| it.index == vm)?;
        let mut rows = rows::of_vcpus(step, of_vm, model.origin.names.as_ref()).into_iter();
        rows.find(|row| row.key == Key::Vcpu(vm, id))
    });
    let Some(row) = row else {
        let text = format!("vCPU {id} was not present in this interval.");
        return vec![Span::styled(text, theme.worth()).into()];
    };
    if let Some(text) = row.instead() {
        let text = Span::styled(format!(": {text}"), theme.worth());
        return vec![Line::from(vec![row.name.bold(), text])];
    }
    let mut lines = said(&row, width);
    let room = height.saturating_sub(lines.len());
    let under = parts::height(model);
    let under = if room > under + 4 { under } else { 0 };
    lines.extend(charts::four(model, row.key, theme, width, room - under));
    if under > 0 {
        lines.resize(height - under, Line::default());
        lines.extend(parts::lines(model, row.key, theme, width, under));
    }
    lines
}

fn said(row: &TopRow, width: usize) -> Vec<Line<'static>> {
    let said = &row.figures.said;
    let mut pieces = vec![
        format!("{} halts/s", per_second(said.halts_per_s)),
        format!("failed {}", cpu(said.wasted_cpu_percent)),
        format!("successful {}", cpu(said.useful_cpu_percent)),
    ];
    if let Some(exits) = &said.exits {
        pieces.push(format!("{} exits/s", scaled(exits.per_s)));
    }
    let room = width.saturating_sub(row.name.width() + 2);
    let pieces = format!(": {}", fitting(&pieces, room));
    let latency = |of: &dyn Fn(Spread) -> u64| maybe_nanos(said.wake_latency_ns.map(of));
    let sleeps = format!(
        "sleeps: wake-up p50 {}, p95 {}, p99 {}, max {}",
        latency(&|l| l.p50),
        latency(&|l| l.p95),
        latency(&|l| l.p99),
        latency(&|l| l.max),
    );
    vec![
        Line::from(vec![row.name.clone().bold(), pieces.into()]),
        sleeps.into(),
        head::limits(&row.figures).into(),
    ]
}
