//! A replay on a screen: a row for each VM, two tables for the host and for each VM asked for, what is
//! bistable, and what it all rests on.

use haltwise_core::replay::Doubts;

use super::guest;
use super::price::Price;
use super::quicker;
use super::view::{Group, PlayedView, Row, View};
use crate::costs::doubts::{Doubt, of_halts};
use crate::costs::words;
use crate::number::{count, nanos, nanos_f64, percent, scaled, share, three_digits};
use crate::page::{Page, Stands, harmless};
use crate::words::plural;

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Columns of the screen.
    pub(crate) width: usize,
    /// VMs in the table of VMs.
    pub(crate) top: usize,
    /// The tables of each VM, where there are several.
    pub(crate) detail: bool,
}

/// Lays a replay out.
pub(crate) fn render(view: &View, options: Options) -> String {
    let mut page = Page::new(options.width);
    let vms: Vec<&Group> = view.vms.iter().filter(|it| it.vcpu.is_none()).collect();
    let several = vms.len() > 1;
    if options.detail || !several {
        for group in &view.vms {
            show(&mut page, group, &title(group), &view.basis.price);
        }
    }
    if several {
        vm_table(&mut page, vms, options.top);
        let title = format!("All of the host, {} vCPUs", view.host.vcpus);
        show(&mut page, &view.host, &title, &view.basis.price);
    }
    closing(&mut page, view);
    page.finish()
}

/// A row for each VM, the most expensive first.
fn vm_table(page: &mut Page, mut vms: Vec<&Group>, top: usize) {
    let cost = |group: &Group| group.recorded.cost_ns.unwrap_or(-1.0);
    vms.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let shown = vms.len().min(top);
    page.heading("VMs, most expensive first");
    let head = [
        "VM", "halts", "gap p50", "polling", "latency", "x oracle", "best", "policy",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for group in &vms[..shown] {
        let row = &group.recorded;
        let best = best(group);
        rows.push(vec![
            group
                .name
                .as_deref()
                .map_or_else(|| "(unknown VM)".to_owned(), harmless),
            count(group.halts),
            group.gap_p50_ns.map_or_else(dash, nanos),
            of_a_hundred(row.poll_cpu_percent),
            nanos_f64(row.latency_mean_ns),
            row.ratio.map_or_else(dash, three_digits),
            best.and_then(|(_, ratio)| ratio)
                .map_or_else(dash, three_digits),
            best.map_or_else(dash, |(policy, _)| harmless(policy)),
        ]);
    }
    page.table(2, &VM_STANDS, &rows);
    match vms.len() - shown {
        0 => {}
        more => page.wrapped(
            "  ",
            &format!("and {} (--top 0 lists all)", plural(more as u64, "more VM")),
            2,
        ),
    }
    page.gap();
    page.wrapped(
        "  ",
        "Polling, latency (mean) and x oracle are as recorded; best is the cheapest policy of those \
         replayed. --detail prints each VM.",
        2,
    );
}

/// The cheapest policy that exists, and its cost relative to the oracle.
fn best(group: &Group) -> Option<(&str, Option<f64>)> {
    let real = group.played.iter().filter(|played| !played.sees_the_future);
    let cost = |played: &&PlayedView| played.from_zero.cost_ns.unwrap_or(f64::INFINITY);
    let best = real.min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    Some((&best.policy, best.from_zero.ratio))
}

fn title(group: &Group) -> String {
    let name = match (&group.name, group.pid) {
        (Some(name), Some(pid)) => format!("{} (pid {pid})", harmless(name)),
        _ => "Halts of unknown VMs".to_owned(),
    };
    match group.vcpu {
        Some(vcpu) => format!("{name}, vCPU {vcpu}"),
        None if group.vcpus == 1 => format!("{name}, 1 vCPU"),
        None => format!("{name}, {} vCPUs", group.vcpus),
    }
}

fn show(page: &mut Page, group: &Group, title: &str, price: &Price) {
    page.heading(title);
    page.line(&format!(
        "  {} halts, median gap {}",
        count(group.halts),
        group.gap_p50_ns.map_or_else(|| "-".to_owned(), nanos),
    ));
    page.gap();
    page.table(2, &CPU_STANDS, &table(group, &CPU_HEAD, cpu_row));
    page.gap();
    page.table(
        2,
        &LATENCY_STANDS,
        &table(group, &LATENCY_HEAD, latency_row),
    );
    for played in group.played.iter().filter(|played| played.bistable) {
        page.gap();
        page.wrapped("  !", &two_states(group, played), 4);
    }
    if let Some(doubts) = quicker::doubts(group) {
        page.gap();
        page.wrapped("  !", &doubts, 4);
    }
    for played in &group.played {
        if let Some(worth) = guest::worth(group, played, price) {
            page.gap();
            page.wrapped("  ", &worth, 2);
        }
    }
}

const CPU_HEAD: [&str; 8] = [
    "CPU cost", "polled", "caught", "blocks/s", "polling", "CPU", "C0", "x oracle",
];
const CPU_STANDS: [Stands; 8] = Stands::of_numbers();
const VM_STANDS: [Stands; 8] = {
    let mut stands = Stands::of_numbers();
    stands[7] = Stands::Left;
    stands
};
const LATENCY_HEAD: [&str; 7] = [
    "wake-up latency",
    "mean",
    "p50",
    "p95",
    "p99",
    "total",
    "HLT exits",
];
const LATENCY_STANDS: [Stands; 7] = Stands::of_numbers();

/// A row of the table for what was recorded and for each policy, two where they differ.
fn table<const N: usize>(
    group: &Group,
    head: &[&str; N],
    figures: fn(&Group, &Row) -> Vec<String>,
) -> Vec<Vec<String>> {
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut add = |name: String, row: &Row| {
        let mut cells = vec![name];
        cells.extend(figures(group, row));
        rows.push(cells);
    };
    add("recorded".to_owned(), &group.recorded);
    for played in &group.played {
        let name = harmless(&played.policy);
        add(name.clone(), &played.from_zero);
        if played.bistable {
            add("  from ceiling".to_owned(), &played.from_ceiling);
        }
    }
    rows
}

fn cpu_row(group: &Group, row: &Row) -> Vec<String> {
    let of_halts = |n: Option<u64>| n.map_or_else(dash, |n| percent(n as f64, group.halts as f64));
    vec![
        of_halts(row.polls),
        of_halts(row.successful_polls),
        scaled(row.blocks_per_s),
        of_a_hundred(row.poll_cpu_percent),
        of_a_hundred(row.cpu_percent),
        of_a_hundred(row.awake_percent),
        row.ratio.map_or_else(dash, three_digits),
    ]
}

fn of_a_hundred(part: Option<f64>) -> String {
    part.map_or_else(dash, |part| share(part / 100.0))
}

fn dash() -> String {
    "-".to_owned()
}

fn latency_row(_: &Group, row: &Row) -> Vec<String> {
    vec![
        nanos_f64(row.latency_mean_ns),
        nanos(row.latency_p50_ns),
        nanos(row.latency_p95_ns),
        nanos(row.latency_p99_ns),
        nanos(row.latency_ns),
        count(row.hlt_exits),
    ]
}

/// Why a policy has two steady states, in a sentence.
fn two_states(group: &Group, played: &PlayedView) -> String {
    let halts = group.halts as f64;
    let met = |row: &Row| percent(row.successful_polls.unwrap_or(0) as f64, halts);
    let (zero, ceiling) = (&played.from_zero, &played.from_ceiling);
    let mut text = format!(
        "{} has two steady states here: starting with a window of 0, polling catches {} of the halts; \
         starting at the ceiling, {}.",
        harmless(&played.policy),
        met(zero),
        met(ceiling),
    );
    if played.in_guest.is_none() && zero.successful_polls < ceiling.successful_polls {
        text.push_str(
            " This is a lock-out: KVM compares the whole halt with the ceiling, and a halt that slept \
             includes its wake-up latency. The gaps are below the ceiling, but gap plus latency is \
             above it, so the window never grows. A ceiling above both has one state.",
        );
    }
    text
}

fn closing(page: &mut Page, view: &View) {
    page.heading("Basis of these figures");
    let basis = &view.basis;
    let mut say = |what: &str, text: &str| {
        page.wrapped(&format!("  {what:<12} "), text, 15);
    };
    let cost = words::cost(
        basis.model.switch_cpu_ns,
        basis.model.switch_cpu_source,
        basis.latency_weight,
    );
    let best = "`x oracle` is the cost relative to the oracle, the lower bound for these gaps";
    say("cost", &format!("{cost}; {best}"));
    let is_guests = |played: &PlayedView| played.in_guest.is_some();
    if basis.price.exit_cpu_ns.is_some() || view.host.played.iter().any(is_guests) {
        say("exits", &basis.price.words());
    }
    say("arrivals", &words::arrivals(basis.model.arrivals));
    say(
        "algorithm",
        &format!("`kvm` is {}", basis.model.algorithm()),
    );
    for (what, text) in doubts(view) {
        say(what, &text);
    }
    let recorded = &view.host.recorded;
    if recorded.poll_unknown > 0 && recorded.polls.is_some() {
        let part = percent(recorded.poll_unknown as f64, view.host.halts as f64);
        let text = format!(
            "unknown for {}, {part}: `recorded` counts them as not polling",
            plural(recorded.poll_unknown, "halt")
        );
        say("polled time", &text);
    }
    if basis.vetoed_vcpus > 0 {
        let vetoed = basis.vetoed_vcpus;
        say(
            "veto",
            &format!(
                "{vetoed} vCPUs: the guest disabled host polling (MSR_KVM_POLL_CONTROL), so no setting \
                 of this host applies to them"
            ),
        );
    }
    if basis.lost > 0 {
        say(
            "lost",
            &format!(
                "{} events while recording: their halts are missing",
                count(basis.lost)
            ),
        );
    }
    if basis.partial {
        say(
            "partial",
            "rows are missing or damaged; see `haltwise report`",
        );
    }
}

fn doubts(view: &View) -> Vec<Doubt> {
    let most = |of: fn(&Row) -> u64| {
        let rows = view.host.played.iter().map(|played| {
            let row = of(&played.from_zero).max(of(&played.from_ceiling));
            (row, harmless(&played.policy))
        });
        rows.max_by_key(|(n, _)| *n).unwrap_or_default()
    };
    let (latency_guessed, never) = most(|row| row.latency_guessed);
    let (latency_thin, seldom) = most(|row| row.latency_thin);
    let (latency_calibrated, elsewhere) = most(|row| row.latency_calibrated);
    let doubts = Doubts {
        latency_guessed,
        latency_thin,
        latency_calibrated,
        ..view.basis.doubts
    };
    let halts = view.host.halts;
    let under = [&never, &seldom, &elsewhere].map(String::as_str);
    let mut said = of_halts(&doubts, halts, "the halts", under);
    let out_of_order = view.basis.out_of_order;
    if out_of_order > 0 {
        let share = percent(out_of_order as f64, halts as f64);
        let text = format!("{share} of the halts: left out because their timestamps go backwards");
        said.push(("out of order", text));
    }
    if said.is_empty() {
        said.push((
            "doubts",
            "none: every gap, wake source and length of sleep was recorded".to_owned(),
        ));
    }
    said
}
