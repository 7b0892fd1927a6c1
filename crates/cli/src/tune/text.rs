//! A recommendation on a screen: what to do, what it buys, what else there is, what it rests on.

use super::plot::{self, Mark};
use crate::number::{nanos, nanos_f64, share, three_digits};
use crate::page::{Page, Stands, harmless};
use crate::recommend::candidates::SettingRow;
use crate::recommend::rests::rests;
use crate::recommend::view::{Figures, GoalAdvice, PlayedView, PointView, View};
use crate::recommend::{beside, counted, say};

/// Lays a recommendation out. `plan` is the file that was written, `dir` the capture's.
pub(crate) fn render(view: &View, plan: Option<&str>, width: usize) -> String {
    let mut page = Page::new(width);
    head(&mut page, view);
    if let Some(played) = &view.played {
        rows(&mut page, view, played);
        against(&mut page, view, played);
        goals(&mut page, view, played);
        front(&mut page, view, played);
        rejected(&mut page, played);
        caps(&mut page, view, played);
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

fn head(page: &mut Page, view: &View) {
    let goal = &view.goal;
    let name = match goal.name.as_str() {
        "lambda" => format!("lambda {}", three_digits(goal.lambda)),
        name => name.to_owned(),
    };
    let limit = goal.max_poll_cpu_percent.map_or_else(String::new, |max| {
        format!(", polling at most {} of a CPU", share(max / 100.0))
    });
    page.heading(&format!("Goal {name}{limit}"));
    let what = match &view.recommended {
        Some(setting) if view.has_no_plan() => format!(
            "Let the VMMs set KVM_CAP_HALT_POLL to {}: halt_poll_ns applies to no VM.",
            setting.halt_poll_ns.unwrap_or(0)
        ),
        Some(setting) => format!("Set {}.", say::parameters(&setting.beyond(&view.in_force))),
        None => "Keep the current setting.".to_owned(),
    };
    page.wrapped("  ", &what, 2);
    page.gap();
    page.wrapped("  ", &view.reason, 2);
    for text in &view.notes {
        page.gap();
        page.wrapped("  ! ", text, 4);
    }
}

const HEAD: [&str; 8] = [
    "second half",
    "polling",
    "CPU",
    "blocks/s",
    "latency",
    "p99",
    "per halt",
    "x oracle",
];

fn rows(page: &mut Page, view: &View, played: &PlayedView) {
    page.gap();
    let mut stands = [Stands::Right; 8];
    stands[0] = Stands::Left;
    let mut table = vec![HEAD.map(str::to_owned).to_vec()];
    for row in &played.rows {
        let name = match row.row {
            SettingRow::InForce => "current".to_owned(),
            SettingRow::Default => "default".to_owned(),
            SettingRow::Choice if view.changes => "recommended".to_owned(),
            SettingRow::Choice => "best found".to_owned(),
            SettingRow::Off => "off".to_owned(),
            SettingRow::Clairvoyant => "oracle".to_owned(),
        };
        table.push(cells(name, &row.figures));
    }
    if let Some(best) = &played.best_policy {
        table.push(cells(best.policy.clone(), &best.figures));
    }
    page.table(2, &stands, &table);
}

fn cells(name: String, figures: &Figures) -> Vec<String> {
    vec![
        name,
        share(figures.poll_cpu_percent / 100.0),
        share(figures.cpu_percent / 100.0),
        crate::number::scaled(figures.blocks_per_s),
        nanos_f64(figures.latency_mean_ns),
        nanos(figures.latency_p99_ns),
        nanos_f64(figures.cost_ns_per_halt),
        figures.ratio.map_or_else(|| "-".to_owned(), three_digits),
    ]
}

fn against(page: &mut Page, view: &View, played: &PlayedView) {
    let in_force = beside::in_force(view, played);
    let default = beside::default(view, played);
    let texts = [Some(in_force), default, beside::distance(played)];
    for text in texts.into_iter().flatten() {
        page.gap();
        page.wrapped("  ", &text, 2);
    }
}

fn goals(page: &mut Page, view: &View, played: &PlayedView) {
    page.heading("For each goal");
    let mut stands = [Stands::Right; 5];
    stands[0] = Stands::Left;
    stands[1] = Stands::Left;
    let head = ["goal", "setting", "polling", "latency", "cost"].map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for advice in &played.goals {
        table.push(goal_row(view, advice));
    }
    page.table(2, &stands, &table);
}

fn goal_row(view: &View, advice: &GoalAdvice) -> Vec<String> {
    let mark = if advice.goal.name == view.goal.name {
        "*"
    } else {
        ""
    };
    let setting = if advice.changes {
        say::setting(&advice.setting)
    } else {
        "no change".to_owned()
    };
    let cost = advice.cost_share.as_ref();
    vec![
        format!("{}{mark}", advice.goal.name),
        setting,
        share(advice.poll_cpu_percent / 100.0),
        nanos_f64(advice.latency_mean_ns),
        cost.map_or_else(|| "-".to_owned(), |cost| say::change(cost.value)),
    ]
}

fn front(page: &mut Page, view: &View, played: &PlayedView) {
    if played.front.is_empty() {
        return;
    }
    page.heading("Polling against latency");
    let mark = |point: &PointView, letter| Mark {
        x: point.poll_cpu_percent,
        y: point.latency_mean_ns,
        letter,
    };
    let mut marks: Vec<Mark> = played.front.iter().map(|point| mark(point, '.')).collect();
    for row in &played.rows {
        let letter = match row.row {
            SettingRow::Clairvoyant => 'c',
            SettingRow::Default => 'd',
            SettingRow::Off => 'o',
            SettingRow::InForce => 'i',
            SettingRow::Choice => 'R',
        };
        marks.push(Mark {
            x: row.figures.poll_cpu_percent,
            y: row.figures.latency_mean_ns,
            letter,
        });
    }
    let left = 10;
    let (lines, most_x, most_y) = plot::draw(&marks, page.width().saturating_sub(left + 4));
    let last = lines.len() - 1;
    for (number, line) in lines.iter().enumerate() {
        let label = match number {
            0 => nanos_f64(most_y),
            n if n == last => "latency 0".to_owned(),
            _ => String::new(),
        };
        page.line(&format!("{label:>left$} |{line}"));
    }
    let right = format!("polling {} of a CPU", share(most_x / 100.0));
    let fill = page.width().saturating_sub(left + 4 + right.len() + 1);
    page.line(&format!("{:>left$} 0{}{right}", "", " ".repeat(fill)));
    let choice = if view.changes {
        "recommended"
    } else {
        "best found"
    };
    page.wrapped(
        "  ",
        &format!(
            ". Pareto-optimal; i current, d default, o off, R {choice}, c oracle (lower bound)"
        ),
        4,
    );
}

fn rejected(page: &mut Page, played: &PlayedView) {
    if played.rejected.is_empty() {
        return;
    }
    page.heading("Rejected candidates");
    for why in [
        "bistable",
        "over-fitted",
        "over-limit",
        "calibrated",
        "within-error",
    ] {
        let mut like = played.rejected.iter().filter(|of| of.why == why);
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

fn caps(page: &mut Page, view: &View, played: &PlayedView) {
    if let Some(text) = beside::caps(view, played) {
        page.heading(beside::CAPS);
        page.wrapped("  ", &text, 2);
    }
}

fn commands(page: &mut Page, view: &View, plan: Option<&str>) {
    if view.commands.is_empty() {
        return;
    }
    page.heading("To apply it");
    match plan {
        Some(file) => page.line(&format!("  haltwise apply {} --yes", harmless(file))),
        None => page.line("  haltwise tune ... --plan plan.json && haltwise apply plan.json --yes"),
    }
    page.line("  or, without undo:");
    for command in &view.commands {
        page.line(&format!("  {command}"));
    }
    if let Some(text) = beside::snapshot(view) {
        page.wrapped("  ", text, 2);
    }
}
