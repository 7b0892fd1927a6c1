//! A recommendation on a screen: what to do, what it buys, what else there is, what it rests on.

use haltwise_document::text::{self, Style};
use haltwise_document::{Rows, Table, Unit};

use crate::page::{Page, harmless};
use crate::plan::TuneGoal;
use crate::recommend::basis::rests;
use crate::recommend::candidates::SettingRow;
use crate::recommend::recommendation::Recommendation;
use crate::recommend::view::{
    GoalAdvice, HaltFigures, PlayedSettings, RejectedSetting, SettingLine, TuneResult,
};
use crate::recommend::{compare, counted, say};

/// Lays a recommendation out, with so many lines of the table of settings. `plan` is the file that was written.
pub(crate) fn render(
    view: &TuneResult,
    lines: &[SettingLine],
    plan: Option<&str>,
    top: usize,
    style: Style,
) -> String {
    let mut page = Page::styled(style);
    let of_vms = compare::vm_goals(view);
    head(&mut page, &view.recommendation, ("", &view.what()), of_vms);
    if let Some(played) = &view.played {
        page.gap();
        text::table(&mut page, &settings_table(lines, top));
        against(&mut page, view, played);
        goals(&mut page, view, played);
        rejected(&mut page, &played.rejected);
        ceilings(&mut page, played, top);
    }
    if let Some(counted) = &view.counted {
        counted::show(&mut page, counted);
    }
    commands(&mut page, view, plan);
    page.heading("Basis of these figures");
    for (what, text) in rests(view) {
        page.wrapped(&format!("  {what:<12} "), &text, 15);
    }
    page.finish()
}

/// The recommendation, its reason, and facts that must be known beside it; `whose` is what it is for.
pub(super) fn head(
    page: &mut Page,
    of: &Recommendation,
    (whose, what): (&str, &str),
    goals_of_vms: Option<String>,
) {
    page.heading(&format!("Goal {}{whose}", say::goal(&of.goal)));
    page.advice("  ", &format!("{what}."), 2);
    for text in [Some(of.reason.clone()), goals_of_vms]
        .into_iter()
        .flatten()
    {
        page.gap();
        page.wrapped("  ", &text, 2);
    }
    for text in &of.notes {
        page.gap();
        page.warning("  ! ", text, 4);
    }
}

pub(crate) fn lines(view: &TuneResult) -> Vec<SettingLine> {
    let played = view.played.iter();
    let rows = played.clone().flat_map(|played| &played.rows).map(|row| {
        let setting = match row.row {
            SettingRow::InForce => "current",
            SettingRow::Default => "default",
            SettingRow::Choice if view.recommendation.changes => "recommended",
            SettingRow::Choice => "best found",
            SettingRow::Off if row.figures.poll_cpu_percent > 0.0 => "halt_poll_ns=0",
            SettingRow::Off => "off",
            SettingRow::Clairvoyant => "oracle",
        };
        (setting, &row.figures)
    });
    let best = played.filter_map(|played| played.best_policy.as_ref());
    let best = best.map(|best| (best.policy.as_str(), &best.figures));
    let line = |(setting, figures): (&str, &HaltFigures)| SettingLine {
        setting: setting.to_owned(),
        figures: figures.clone(),
    };
    rows.chain(best).map(line).collect()
}

pub(crate) fn settings_table(lines: &[SettingLine], top: usize) -> Table {
    Rows::new("Settings", lines, top)
        .show(&["setting", "poll_cpu_percent", "cpu_percent", "blocks_per_s"])
        .show(&["latency_mean_ns", "latency_p99_ns", "cost_ns_per_halt"])
        .show(&["ratio"])
        .spare(&["cpu_percent", "blocks_per_s"])
        .finish()
}

fn against(page: &mut Page, view: &TuneResult, played: &PlayedSettings) {
    let in_force = compare::in_force(view, played);
    let default = compare::default(view, played);
    let texts = [Some(in_force), default, compare::distance(played)];
    for text in texts.into_iter().flatten() {
        page.gap();
        page.wrapped("  ", &text, 2);
    }
}

fn goals(page: &mut Page, view: &TuneResult, played: &PlayedSettings) {
    page.heading(if view.vm_goals.is_empty() {
        "For each goal"
    } else {
        "For each goal of the other VMs"
    });
    text::table(page, &goals_table(&played.goals, &view.recommendation.goal));
}

/// The best setting for each goal; the requested goal is starred.
pub(crate) fn goals_table(goals: &[GoalAdvice], asked: &TuneGoal) -> Table {
    Rows::new("The best setting for each goal", goals, usize::MAX)
        .with("goal", Unit::Word, |advice| {
            let name = &advice.goal.name;
            format!("{name}{}", if *name == asked.name { "*" } else { "" })
        })
        .show(&["advice", "poll_cpu_percent", "latency_mean_ns"])
        .with("cost", Unit::Shown, |advice| {
            advice
                .cost_share
                .as_ref()
                .map(|cost| say::change(cost.value))
        })
        .finish()
}

pub(super) fn rejected(page: &mut Page, rejected: &[RejectedSetting]) {
    if rejected.is_empty() {
        return;
    }
    page.heading("Rejected candidates");
    for why in ["bistable", "edge", "over-limit"] {
        let mut like = rejected.iter().filter(|of| of.why == why);
        if let Some(first) = like.next() {
            let more = match like.count() {
                0 => String::new(),
                more => format!(" ({more} more, see --json)"),
            };
            let text = format!("{}: {}{more}", say::setting(&first.setting), first.text);
            page.wrapped("  ", &text, 4);
        }
    }
}

fn ceilings(page: &mut Page, played: &PlayedSettings, top: usize) {
    let (Some(text), Some(own)) = (compare::caps(played), &played.caps) else {
        return;
    };
    page.heading(compare::CAPS);
    page.wrapped("  ", &text, 2);
    if own.cost_share.value < 0.0 {
        page.gap();
        text::table(page, &compare::ceilings(own, top));
        let host = format!(
            "Host parameters with them: {}.",
            say::parameters(&own.setting)
        );
        page.wrapped("  ", &host, 2);
    }
}

fn commands(page: &mut Page, view: &TuneResult, plan: Option<&str>) {
    let is_by_hand = view.ceilings().is_none();
    let by_hand = &view.recommendation.commands;
    if by_hand.is_empty() && is_by_hand {
        return;
    }
    page.heading("To apply it");
    match plan {
        Some(file) => page.line(&format!("  haltwise apply {} --yes", harmless(file))),
        None => page.line("  haltwise tune ... --plan plan.json && haltwise apply plan.json --yes"),
    }
    if is_by_hand {
        page.line("  or, without undo:");
        for command in by_hand {
            page.line(&format!("  {command}"));
        }
    }
    if let Some(text) = compare::snapshot(view) {
        page.wrapped("  ", text, 2);
    }
}
