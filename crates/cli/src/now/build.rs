//! From a capture to the answer: what `report` and `tune` say of it, in one pass over its halts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use haltwise_core::account::ledger::Ledger;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::replay::GoalName;
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::{Comparison, Verdict};
use haltwise_core::tune::search::Aim;
use haltwise_host::discovery::{self, OutsideTime, OutsideVmm};
use haltwise_host::knob::is_writable;
use haltwise_host::root::Root;
use haltwise_host::{clock, host_sample, params};

use crate::exit::Failure;
use crate::explain::view::Explanation;
use crate::figures::Source;
use crate::now::page::{is_spinning, using};
use crate::now::view::{
    Answer, ComparedSetting, CostlyFinding, ParameterValue, SCHEMA, UnrecordedHost, UnrecordedVm,
};
use crate::number::whole;
use crate::prices::{self, words};
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::candidates::{Candidates, Extent, SettingRow, TuneRequest};
use crate::recommend::view::{GoalAdvice, HaltFigures};
use crate::recommend::{Looking, Recommended, Tuned, reach, say};
use crate::report::view::Report;
use crate::{explain, report};

const FOUND: usize = 2;

/// Reads a capture, made `here` or elsewhere; also whether something is missing from it.
pub(crate) fn build(
    dir: &Path,
    vm: Option<&str>,
    goal: GoalName,
    here: Option<&Root>,
) -> Result<(Answer, bool), Failure> {
    let opened = Opened::open(dir)?;
    opened.must_be_of_host("--capture")?;
    let vms = select::vms(&opened.info().roster, vm)?;
    let picked: BTreeSet<_> = vms.iter().copied().collect();
    let request = TuneRequest {
        extent: Extent::WithOff,
        ..TuneRequest::of_goal(goal, vm.map(|_| vms.clone()))
    };
    let mut looking = Looking::new(&opened, &request);
    let (loaded, ends) = explain::load::load(&opened, &mut looking.sinks())?;
    looking.go_on(&opened, &ends);
    let tuned = looking.recommend(&opened, &request);
    let recording = &loaded.recording;
    let told = explain::tune_advice::TuneAdvice::of(&tuned, &opened, recording);
    let mut report = report::build::report(
        recording,
        |it| picked.contains(&it.index),
        told.recommendation.clone(),
    );
    report::text::order(&mut report.vms);
    let lambda = goal.weight_milli() as f64 / 1e3;
    let explained = explain::view::view(&loaded, &vms, lambda, told);
    let is_partial = report.recording.lost > 0 || recording.is_partial();
    let made = tuned.as_ref().ok().and_then(Tuned::on_host);
    let view = answer(&opened, made, &report, &explained, goal, here);
    Ok((view, is_partial))
}

/// The answer, from the results of other verbs for the same capture.
pub(crate) fn answer(
    opened: &Opened,
    made: Option<&Recommended>,
    report: &Report,
    explained: &Explanation,
    goal: GoalName,
    here: Option<&Root>,
) -> Answer {
    let account = &report.host.account;
    let is_seen = report.vms.iter().all(|vm| vm.not_observable.is_none());
    let one = match &report.vms[..] {
        [only] => (opened.info().roster.vms.iter()).find(|vm| vm.index.0 == only.index),
        _ => None,
    };
    let can_set = here.is_none_or(|root| is_writable(root, Parameter::HaltPollNs).is_ok());
    let apply = made.and_then(|made| apply(made, can_set).or_else(|| apply_ceiling(made, one?)));
    Answer {
        schema: SCHEMA,
        recording: Some(Source {
            vms: report.host.vms,
            ..explained.recording.source.clone()
        }),
        outside: None,
        capture: Some(opened.named().display().to_string()),
        cpus: report.host.cpus,
        halts: Some(account.halts).filter(|halts| *halts > 0 || is_seen),
        poll_cpu_percent: account.poll.cpu_percent,
        poll_bound: account.poll.cpu_percent.map(|_| account.poll.bound),
        failed_cpu_percent: account.poll.wasted_cpu_percent,
        vms: using(report),
        own_ceilings: own_ceilings(opened, report),
        settings: made.map_or_else(Vec::new, settings),
        goals: made.map_or_else(Vec::new, goals),
        price: made.map(|made| price(opened, made)),
        goal: goal.as_str(),
        verdict: made.map(|made| made.view.recommendation.verdict),
        advice: report.recommendation.text_beside_figures(),
        findings: findings(explained),
        undo: (apply.as_ref())
            .filter(|apply| apply.starts_with("haltwise "))
            .map(|_| "haltwise undo".to_owned()),
        prove: made.filter(|_| can_set).and_then(prove),
        apply,
    }
}

fn own_ceilings(opened: &Opened, report: &Report) -> usize {
    let own: BTreeSet<VmIndex> = reach::own(opened.info())
        .into_iter()
        .map(|(vm, _)| vm)
        .collect();
    let picked = report.vms.iter();
    picked.filter(|vm| own.contains(&VmIndex(vm.index))).count()
}

/// The current setting, no polling, and the recommended setting; each once.
fn settings(made: &Recommended) -> Vec<ComparedSetting> {
    let (Some(played), Some(candidates)) = (&made.view.played, &made.candidates) else {
        return Vec::new();
    };
    let Some(current) = played.figures(SettingRow::InForce) else {
        return Vec::new();
    };
    let (in_force, aim) = (
        made.view.recommendation.in_force,
        &candidates.advice.goal.aim,
    );
    let mut settings = vec![row("current", &in_force, (current, None), current, aim)];
    let off = in_force.with(Parameter::HaltPollNs, 0);
    let recommended = made.view.recommendation.recommended;
    let is_off = |setting: Values| setting.get(Parameter::HaltPollNs) == Some(0);
    let without = played.figures(SettingRow::Off);
    if let Some(of) = without.filter(|_| !is_off(in_force)) {
        let is_recommended = recommended.is_some_and(is_off);
        let which = if is_recommended { "recommended" } else { "off" };
        let against = candidates.off.as_ref();
        settings.push(row(which, &off, (of, against), current, aim));
    }
    let against = candidates.advice.against_in_force.as_ref();
    let other = recommended.filter(|&setting| !is_off(setting));
    if let (Some(setting), Some(of)) = (other, played.figures(SettingRow::Choice)) {
        settings.push(row("recommended", &setting, (of, against), current, aim));
    }
    settings
}

fn goals(made: &Recommended) -> Vec<GoalAdvice> {
    let reaches =
        |it: &Candidates| !made.view.recommendation.reaches_no_vm() || it.inputs.terms.ceiling_only;
    let is_told = made.candidates.as_ref().is_some_and(reaches);
    let played = made.view.played.as_ref().filter(|_| is_told);
    played.map_or_else(Vec::new, |played| played.goals.clone())
}

fn price(opened: &Opened, made: &Recommended) -> String {
    let model = &made.view.basis.search.model;
    let mut text = words::sleep(model.switch_cpu_ns, model.switch_cpu_source);
    if let Some(measured) = &opened.info().price
        && model.switch_cpu_source == prices::Source::Calibrated
    {
        for note in &measured.notes {
            text.push_str("; ");
            text.push_str(note);
        }
    }
    text
}

/// A setting's figures, with the ends of what it may come to: the current setting's, and the ends of the difference.
fn row(
    which: &'static str,
    setting: &Values,
    (of, against): (&HaltFigures, Option<&Comparison>),
    current: &HaltFigures,
    aim: &Aim,
) -> ComparedSetting {
    let end = |base: f64, end: f64| end.is_finite().then_some((base + end).max(0.0));
    let poll =
        |of: fn(&Interval) -> f64| end(current.poll_cpu_percent, of(&against?.poll_cpu_percent));
    let latency = |nth: usize| {
        let end = say::latency_ends(current.latency_mean_ns, against?, aim)[nth];
        end.is_finite().then(|| whole(end))
    };
    ComparedSetting {
        which,
        setting: say::played(setting, of.poll_cpu_percent),
        poll_cpu_percent: of.poll_cpu_percent,
        poll_cpu_percent_low: poll(|of| of.low),
        poll_cpu_percent_high: poll(|of| of.high),
        latency_mean_ns: whole(of.latency_mean_ns),
        latency_mean_low_ns: latency(0),
        latency_mean_high_ns: latency(1),
        latency_p99_ns: of.latency_p99_ns,
    }
}

fn findings(of: &explain::view::Explanation) -> Vec<CostlyFinding> {
    let mut told: Vec<CostlyFinding> = Vec::new();
    for finding in &of.findings {
        let found = CostlyFinding {
            rule: finding.rule,
            title: finding.title,
            vm: finding.whose.vm_name.clone(),
            signature: finding.signature.clone(),
            cpu_percent: finding.cost.map(|of| of.cost.cpu_ns_per_s / 1e7),
            remedy: finding.remedy.clone(),
        };
        let of_rule = told.iter().filter(|known| known.rule == finding.rule);
        let most = if is_spinning(&found) { FOUND } else { 1 };
        let others = told.iter().filter(|known| !is_spinning(known));
        if of_rule.count() < most && (most > 1 || others.count() < FOUND) {
            told.push(found);
        }
    }
    told
}

fn apply(made: &Recommended, can_set: bool) -> Option<String> {
    let changes = made.view.changes_on_host()?;
    Some((if can_set { say::apply } else { say::boot })(&changes))
}

/// The same of a VM with a ceiling of its own, if that can be asked for.
fn apply_ceiling(made: &Recommended, vm: &Vm) -> Option<String> {
    let ceiling_ns = made.view.recommendation.own_ceiling_ns()?;
    let (pid, is_settable) = (vm.key.pid.0, vm.ceiling_settable == Some(true));
    is_settable.then(|| format!("haltwise apply --vm {pid} --ceiling {ceiling_ns} --yes"))
}

/// The command that measures it, or what is to be proved first, against what is in force.
fn prove(made: &Recommended) -> Option<String> {
    let view = &made.view;
    let of = &view.recommendation;
    let is_unproven = !of.reaches_no_vm() && of.verdict == Verdict::Unproven;
    let unproven = || view.played.as_ref().filter(|_| is_unproven)?.choice;
    let setting = view.for_host().or_else(unproven)?;
    let spec = if setting.get(Parameter::HaltPollNs) == Some(0) {
        "off".to_owned()
    } else {
        say::spec(&setting)
    };
    Some(format!("haltwise prove --a current --b {spec} --yes"))
}

/// So long the CPU time of VMMs is watched.
const WATCHED: Duration = Duration::from_secs(1);

/// The answer without a recording, as far as any user may know it: no VM runs, or recording is not permitted.
pub(crate) fn unrecorded(root: &Root, advice: String) -> anyhow::Result<Answer> {
    let knobs = params::read(root, clock::monotonic_ns())?.into_iter();
    let parameters = knobs.filter(|knob| knob.name.starts_with("halt_poll"));
    let mut outside = UnrecordedHost {
        parameters: parameters
            .map(|knob| ParameterValue {
                name: knob.name,
                value: knob.value,
            })
            .collect(),
        ..UnrecordedHost::default()
    };
    vms(root, &mut outside)?;
    Ok(Answer {
        schema: SCHEMA,
        outside: Some(outside),
        goal: GoalName::Balanced.as_str(),
        advice,
        ..Answer::default()
    })
}

fn vms(root: &Root, outside: &mut UnrecordedHost) -> anyhow::Result<()> {
    let scan = discovery::scan(root)?;
    outside.hidden_processes = scan.denied;
    let before = discovery::outside(root);
    if before.is_empty() && scan.vms.is_empty() {
        return Ok(());
    }
    let mut ledger = Ledger::default();
    let mut sample = || {
        if let Ok(sample) = host_sample::read(root, None) {
            ledger.host(&sample);
        }
        clock::monotonic_ns()
    };
    let from_ns = sample();
    std::thread::sleep(WATCHED);
    let span_ns = sample().saturating_sub(from_ns).max(1);
    outside.busy_cpus = ledger.host.busy_cpus();
    outside.cpu_pressure = ledger.host.cpu_pressure();
    let now = discovery::outside(root);
    let percent = |ns: u64| ns as f64 / span_ns as f64 * 100.0;
    let of_found = before.into_iter().map(|vmm| {
        let spent = spent(&vmm, &now);
        UnrecordedVm {
            pid: vmm.pid.0,
            cpu_percent: spent.map(|it| percent(it.guest_ns + it.kernel_ns + it.user_ns)),
            guest_cpu_percent: spent.map(|it| percent(it.guest_ns)),
            kernel_cpu_percent: spent.map(|it| percent(it.kernel_ns)),
            name: vmm.name,
        }
    });
    outside.vms = of_found.collect();
    let others = scan.vms.into_iter().map(|vm| UnrecordedVm {
        pid: vm.pid().0,
        name: vm.label.name,
        ..UnrecordedVm::default()
    });
    for other in others {
        if outside.vms.iter().all(|vm| vm.pid != other.pid) {
            outside.vms.push(other);
        }
    }
    let cpu = |vm: &UnrecordedVm| vm.cpu_percent.unwrap_or(0.0);
    outside.vms.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)));
    Ok(())
}

/// Time that a process took since `before`; `None` if the process is gone.
fn spent(before: &OutsideVmm, now: &[OutsideVmm]) -> Option<OutsideTime> {
    let now = now.iter().find(|vmm| vmm.pid == before.pid)?;
    let since = |of: fn(&OutsideTime) -> u64| of(&now.time).saturating_sub(of(&before.time));
    Some(OutsideTime {
        guest_ns: since(|time| time.guest_ns),
        kernel_ns: since(|time| time.kernel_ns),
        user_ns: since(|time| time.user_ns),
    })
}
