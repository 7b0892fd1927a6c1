//! A replay as shown: a row for each VM, two tables for the host and for each VM asked for, what is
//! bistable, and the basis of all figures.

use haltwise_core::policy::Side;
use haltwise_core::replay::Doubts;
use haltwise_document::{Document, Prose, Rows, Unit, Untrusted, prose};

use super::view::{HaltCosts, HaltGroup, PlayedPolicy, Replay, ReplayLine};
use crate::number::{count, nanos, percent};
use crate::prices::words::{self, Doubt, of_halts};
use crate::words::plural;

fn expensive_first(vms: &mut [&HaltGroup]) {
    let cost = |group: &&HaltGroup| group.recorded.cost_ns.unwrap_or(-1.0);
    vms.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
}

/// Lays a replay out: so many rows in the table of VMs, in their order where `sorted`, else those that cost most
/// first; `detail` shows each VM.
pub(crate) fn document(view: &Replay, top: usize, sorted: bool, detail: bool) -> Document {
    let mut document = Document::new();
    let mut vms: Vec<&HaltGroup> = view.vms.iter().collect();
    let several = vms.len() > 1;
    if detail || !several {
        for group in &view.vms {
            show(&mut document, group, title(group));
        }
    }
    if several {
        if !sorted {
            expensive_first(&mut vms);
        }
        let order = if sorted { "" } else { ", most expensive first" };
        document.heading(format!("VMs{order}"));
        table_of_vms(&mut document, &vms, top);
        let title = format!("All of the host, {} vCPUs", view.host.vcpus);
        show(&mut document, &view.host, title.into());
    }
    closing(&mut document, view);
    document
}

fn table_of_vms(document: &mut Document, vms: &[&HaltGroup], top: usize) {
    let table = Rows::new("VMs", vms, top)
        .with("VM", Unit::Name, |it| {
            it.name.as_deref().unwrap_or("(unknown VM)")
        })
        .show(&["halts", "gap_p50_ns", "recorded.poll_cpu_percent"])
        .show(&["recorded.latency_mean_ns", "recorded.ratio"])
        .titled("recorded.latency_mean_ns", "latency")
        .with("best", Unit::Real, |it| best(it)?.from_zero.ratio)
        .with("policy", Unit::Name, |it| Some(&*best(it)?.policy))
        .spare(&["halts", "gap_p50_ns"])
        .finish();
    document.table(table);
    document.prose(
        "Polling, latency (mean) and x oracle are as recorded; best is the cheapest policy of those \
         replayed. --detail prints each VM.",
    );
}

fn best(group: &HaltGroup) -> Option<&PlayedPolicy> {
    let real = group.played.iter().filter(|played| !played.sees_the_future);
    let cost = |played: &&PlayedPolicy| played.from_zero.cost_ns.unwrap_or(f64::INFINITY);
    real.min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

fn title(group: &HaltGroup) -> Prose {
    let name = match (&group.name, group.pid) {
        (Some(name), Some(pid)) => prose![Untrusted::from(name), format!(" (pid {pid})")],
        _ => "Halts of unknown VMs".into(),
    };
    let mut title = name;
    title.extend(format!(", {}", plural(group.vcpus, "vCPU")).into());
    title
}

fn show(document: &mut Document, group: &HaltGroup, title: Prose) {
    document.heading(title);
    let gap = group.gap_p50_ns.map_or_else(|| "-".to_owned(), nanos);
    document.prose(format!("{}, median gap {gap}", plural(group.halts, "halt")));
    let lines = group.lines();
    let name = |line: &ReplayLine| match line.start {
        "ceiling" => "  from ceiling".to_owned(),
        _ => line.policy.clone(),
    };
    let of_halts = |part: Option<u64>, line: &ReplayLine| {
        part.map(|part| part as f64 / line.halts.max(1) as f64)
    };
    let costs = Rows::new("CPU cost", &lines, usize::MAX)
        .with("CPU cost", Unit::Name, name)
        .with("polled", Unit::Share, |it| of_halts(it.costs.polls, it))
        .with("success", Unit::Share, |it| {
            of_halts(it.costs.successful_polls, it)
        })
        .show(&["blocks_per_s", "poll_cpu_percent", "cpu_percent"])
        .show(&["awake_percent", "ratio"])
        .finish();
    let latency = Rows::new("Wake-up latency", &lines, usize::MAX)
        .with("wake-up latency", Unit::Name, name)
        .show(&["latency_mean_ns", "latency_p50_ns", "latency_p95_ns"])
        .show(&["latency_p99_ns", "latency_ns", "hlt_exits"])
        .finish();
    document.table(costs);
    document.table(latency);
    two_states(document, group);
}

fn two_states(document: &mut Document, group: &HaltGroup) {
    let met = |costs: &HaltCosts| {
        percent(
            costs.successful_polls.unwrap_or(0) as f64,
            group.halts as f64,
        )
    };
    let mut locked_out = false;
    for played in group.played.iter().filter(|played| played.bistable) {
        let (zero, ceiling) = (&played.from_zero, &played.from_ceiling);
        document.note(format!(
            "{} has two steady states here: starting with a window of 0, polling catches {} of the halts; \
             starting at the ceiling, {}.",
            played.policy,
            met(zero),
            met(ceiling),
        ));
        locked_out |= played.side == Side::Host && zero.successful_polls < ceiling.successful_polls;
    }
    if locked_out {
        document.note(
            "This is a lock-out: KVM compares the whole halt with the ceiling, and a halt that slept \
             includes its wake-up latency. The gaps are below the ceiling, but gap plus latency is above \
             it, so the window never grows. A ceiling above both has one state.",
        );
    }
}

fn closing(document: &mut Document, view: &Replay) {
    document.heading("Basis of these figures");
    let basis = &view.basis;
    let cost = words::cost(
        basis.model.switch_cpu_ns,
        basis.model.switch_cpu_source,
        basis.latency_weight,
    );
    let best = "`x oracle` is the cost relative to the oracle, the lower bound for these gaps";
    document.fact("cost", format!("{cost}; {best}"));
    let is_guests = |played: &PlayedPolicy| played.side == Side::Guest;
    if basis.price.exit_cpu_ns.is_some() || view.host.played.iter().any(is_guests) {
        document.fact("exits", basis.price.words());
    }
    document.fact("arrivals", words::ARRIVALS);
    if let Some(overrun) = basis.model.overrun() {
        document.fact("overrun", overrun);
    }
    document.fact("algorithm", format!("`kvm` is {}", basis.model.algorithm()));
    for (what, text) in doubts(view) {
        document.fact(what, text);
    }
    let recorded = &view.host.recorded;
    if recorded.poll_unknown > 0 && recorded.polls.is_some() {
        let part = percent(recorded.poll_unknown as f64, view.host.halts as f64);
        let halts = plural(recorded.poll_unknown, "halt");
        let text = format!("unknown for {halts}, {part}: `recorded` counts them as not polling");
        document.fact("polled time", text);
    }
    if basis.vetoed_vcpus > 0 {
        let text = format!(
            "{}: the guest disabled host polling (MSR_KVM_POLL_CONTROL), so no setting of this host \
             applies",
            plural(basis.vetoed_vcpus, "vCPU")
        );
        document.fact("disabled", text);
    }
    if basis.lost > 0 {
        let text = format!(
            "{} events while recording: their halts are missing",
            count(basis.lost)
        );
        document.fact("lost", text);
    }
    if basis.partial {
        document.fact("partial", words::PARTIAL);
    }
}

fn doubts(view: &Replay) -> Vec<Doubt> {
    let most = |of: fn(&HaltCosts) -> u64| {
        let rows = view.host.played.iter().map(|played| {
            let halts = of(&played.from_zero).max(of(&played.from_ceiling));
            (halts, played.policy.as_str())
        });
        rows.max_by_key(|(n, _)| *n).unwrap_or_default()
    };
    let (latency_guessed, never) = most(|costs| costs.latency_guessed);
    let (latency_thin, seldom) = most(|costs| costs.latency_thin);
    let (latency_calibrated, elsewhere) = most(|costs| costs.latency_calibrated);
    let doubts = Doubts {
        latency_guessed,
        latency_thin,
        latency_calibrated,
        ..view.basis.doubts
    };
    let halts = view.host.halts;
    let mut said = of_halts(&doubts, halts, "the halts", [never, seldom, elsewhere]);
    let out_of_order = view.basis.out_of_order;
    if out_of_order > 0 {
        let share = percent(out_of_order as f64, halts as f64);
        let text = format!("{share} of the halts: left out because their timestamps go backwards");
        said.push(("out of order", text));
    }
    let (contended, policy) = most(|costs| costs.contended_polls);
    if contended > 0 {
        let share = percent(contended as f64, halts as f64);
        let text = format!(
            "with {policy} the guest goes on polling in {share} of the halts when another task wants the CPU. KVM cannot \
             end a guest's poll, so that task has to wait, and wake-ups may be later than shown here"
        );
        said.push(("contended", text));
    }
    let polls = view.host.recorded.polls;
    if polls.is_some_and(|polls| polls.saturating_mul(10) < halts) {
        let text = "less than one halt in ten polled. With polling, wake-ups may be a fifth shorter, also those of the \
                    waker, since CPUs stay in C0, and windows would grow more often";
        said.push(("hardly polled", text.to_owned()));
    }
    if said.is_empty() {
        let text = "none: every gap, wake source and length of sleep was recorded";
        said.push(("doubts", text.to_owned()));
    }
    said
}
