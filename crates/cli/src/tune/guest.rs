//! `haltwise tune` on a capture of a guest: the same page for the parameters of its governor.

use haltwise_document::text::{self, Style};
use haltwise_document::{Rows, Table, Unit};

use crate::number::{count, nanos, share};
use crate::page::{Page, harmless};
use crate::recommend::basis::Line;
use crate::recommend::guest::Place;
use crate::recommend::guest::joined::JoinFigures;
use crate::recommend::guest::say::CPU_PM;
use crate::recommend::guest::view::{GuestFigures, GuestTuneResult};
use crate::tune::text::{goals_table, head, rejected};

pub(crate) fn render(
    view: &GuestTuneResult,
    plan: Option<&str>,
    top: usize,
    style: Style,
) -> String {
    let mut page = Page::styled(style);
    let of = &view.recommendation;
    head(&mut page, of, (", in the guest", &of.what()), None);
    page.gap();
    text::table(&mut page, &rows(view, top));
    page.heading("For each goal, in the guest");
    text::table(
        &mut page,
        &goals_table(&view.goals, &view.recommendation.goal),
    );
    rejected(&mut page, &view.rejected);
    commands(&mut page, view, plan);
    page.heading("Basis of these figures");
    for (what, text) in rests(view) {
        page.wrapped(&format!("  {what:<12} "), &text, 15);
    }
    page.finish()
}

pub(crate) fn rows(view: &GuestTuneResult, top: usize) -> Table {
    let is_set = view.recommendation.place == Some(Place::Guest);
    let name = |row: &GuestFigures| row.row.name(is_set);
    Rows::new("Settings", &view.rows, top)
        .with("second half", Unit::Word, |row| name(row).to_owned())
        .show(&["poll_cpu_percent", "host_cpu_percent", "exits_per_s"])
        .show(&["ipis_per_s", "latency_mean_ns", "latency_p99_ns"])
        .show(&["cost_ns_per_halt", "ratio"])
        .spare(&["latency_p99_ns", "poll_cpu_percent", "ipis_per_s"])
        .finish()
}

fn command(page: &mut Page, text: &str) {
    let mut lines = text.split(" --set ").peekable();
    let mut before = "  ";
    while let Some(line) = lines.next() {
        let more = if lines.peek().is_some() { " \\" } else { "" };
        page.line(&format!("{before}{line}{more}"));
        before = "      --set ";
    }
}

fn commands(page: &mut Page, view: &GuestTuneResult, plan: Option<&str>) {
    if view.recommendation.place == Some(Place::CpuPm) {
        page.heading("To apply it, in the VM's definition");
        for line in CPU_PM {
            page.line(&format!("  {line}"));
        }
        return;
    }
    if let Some((on_host, in_guest)) = view.host_commands.split_last() {
        page.heading("To apply it");
        for text in in_guest {
            page.line(&format!("  {text}  # in the guest"));
        }
        command(page, &format!("{on_host}  # on the host"));
        return;
    }
    if view.recommendation.commands.is_empty() {
        return;
    }
    page.heading("To apply it, in the guest");
    match plan {
        Some(plan) => page.line(&format!("  haltwise apply {} --yes", harmless(plan))),
        None => command(page, view.apply.as_deref().unwrap_or_default()),
    }
    page.line("  or, without undo:");
    for command in &view.recommendation.commands {
        page.line(&format!("  {command}"));
    }
    if !view.command_line.is_empty() {
        page.wrapped("  ", "or for every boot, on its kernel's command line:", 2);
        for argument in &view.command_line {
            page.line(&format!("  {argument}"));
        }
    }
}

fn rests(view: &GuestTuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let cost = basis.search.cost(view.recommendation.goal.lambda);
    let mut said = vec![("cost", cost), ("HLT exits", basis.price.words())];
    said.extend(basis.search.evaluated(basis.looked_at, "enter HLT"));
    let algorithm = format!(
        "governor haltpoll of Linux {}; the host as KVM of the same version",
        basis.search.model.kernel
    );
    said.push(("algorithm", algorithm));
    said.extend(view.join.iter().flat_map(of_join));
    said.extend(basis.stolen_of_wanted.map(|stolen| {
        let text = "of the time in which the guest wanted its CPUs, polling included";
        ("steal", format!("{} {text}", share(stolen)))
    }));
    said.extend(basis.search.missing());
    said
}

fn of_join(join: &JoinFigures) -> [Line; 2] {
    let host = &join.host;
    let cpus = join.cpus.iter();
    let cpus: Vec<String> = cpus
        .map(|it| format!("{} is vCPU {}", it.cpu, it.vcpu))
        .collect();
    let matched = format!(
        "{} of {} entries into HLT hold a halt of VM {} on the host, {} were woken before it, {} agree; CPU {}; half of \
         the halts begin within {} of the expected moment, 99 % within {}; the clocks drift by {:.1} ppm",
        count(join.matched),
        count(join.hlts),
        harmless(&join.vm),
        count(join.without_halt),
        share(join.consistent_share),
        cpus.join(", "),
        nanos(join.residual_p50_ns),
        nanos(join.residual_p99_ns),
        join.clock_drift_ppm,
    );
    let known = |of: Option<f64>| of.map_or_else(|| "not known".to_owned(), share);
    let polling = match host.halt_poll_ns {
        _ if host.guest_disabled => "the guest disabled host polling".to_owned(),
        Some(ns) => format!("polls up to {}", nanos(u64::from(ns))),
        None => "polling not known".to_owned(),
    };
    let load = format!(
        "{} vCPUs on {} CPUs, CPU pressure {}, polls preempted {}; {polling}",
        count(host.vcpus),
        host.cpus,
        known(host.cpu_pressure),
        known(host.polls_preempted),
    );
    [("join", matched), ("host", load)]
}
