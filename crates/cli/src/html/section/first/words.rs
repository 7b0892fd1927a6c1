//! The sentences of the first screen, and the numbers in them.

use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_core::tune::advice::Verdict;

use super::in_guest;
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, prose};
use crate::number::{nanos, nanos_f64, share, three_digits};
use crate::recommend::candidates::SettingRow;
use crate::recommend::say;
use crate::recommend::view::{HaltFigures, TuneResult};
use crate::report::view::{AccountFigures, Report, ReportedVm};

pub(super) struct Words {
    pub(super) title: Markup,
    pub(super) sentences: Vec<Markup>,
    pub(super) told: Vec<LinkedNumber>,
}

pub(super) struct LinkedNumber {
    pub(super) id: &'static str,
    pub(super) value: String,
    pub(super) what: String,
    /// Where it is from.
    pub(super) whence: String,
    pub(super) place: String,
}

/// A number as a link to where it is explained; `source` is where it is from, and the place on the page.
fn linked(
    told: &mut Vec<LinkedNumber>,
    id: &'static str,
    value: String,
    what: impl Into<String>,
    source: (&str, &str),
) -> Markup {
    let link = el("a").class("figure").attr("href", format!("#n-{id}"));
    let link = link.with(value.as_str());
    told.push(LinkedNumber {
        id,
        value,
        what: what.into(),
        whence: source.0.to_owned(),
        place: source.1.to_owned(),
    });
    link.into()
}

/// CPU time, in percent of one, of which it is worth saying who polls most: half of the least that is
/// told as a number.
const WORTH_A_NAME: f64 = 0.5;

/// `0.81 of a CPU`, `3.20 CPUs`.
pub(super) fn cpus(percent: f64) -> String {
    let cpus = percent / 100.0;
    match cpus {
        none if none <= 0.0 => "no CPU".to_owned(),
        little if little < 0.005 => "< 0.01 of a CPU".to_owned(),
        part if part < 0.995 => format!("{part:.2} of a CPU"),
        more => format!("{} CPUs", three_digits(more)),
    }
}

pub(super) fn words(content: &Content) -> Words {
    let mut told = Vec::new();
    let mut sentences = vec![found(&content.report, &mut told)];
    let title = match &content.advice {
        _ if content.report.host.account.halts == 0 => Markup::text("No halt was seen"),
        _ if content.in_guest.is_some() => {
            let tuned = content.in_guest.as_ref();
            sentences.extend(tuned.map(in_guest::reason));
            tuned.map_or_else(Markup::none, |tuned| Markup::text(&in_guest::title(tuned)))
        }
        Err(why) => {
            sentences.push(prose(&format!("No setting can be recommended: {why}.")));
            "No setting can be recommended from this capture".into()
        }
        Ok(advice) => {
            sentences.extend(effect(advice, &mut told));
            title(advice)
        }
    };
    Words {
        title,
        sentences,
        told,
    }
}

/// Cost and benefit of polling, on the whole host and where most of the polling is.
fn found(report: &Report, told: &mut Vec<LinkedNumber>) -> Markup {
    let host = &report.host.account;
    if report.vms.is_empty() && host.halts == 0 {
        return "No VM was seen on this host while it was recorded.".into();
    }
    if host.halts == 0 {
        return "While it was recorded no vCPU halted: each was busy all the time, asleep, or its halts \
                cannot be seen from the host."
            .into();
    }
    let busiest = busiest(report);
    let (account, whose, place) = match (busiest, report.vms.len()) {
        (Some(vm), 1) => (&vm.account, name(&vm.name), format!("vm-{}", vm.index)),
        _ => (host, Markup::text("this host"), "account".to_owned()),
    };
    let Some(percent) = account.poll.cpu_percent else {
        return Markup::text("Polling time was not recorded on this host.");
    };
    let counted = match report.recording.side {
        Side::Host => "counted by KVM for each halt",
        Side::Guest => "counted by the guest's cpuidle for each idle period",
    };
    let mut out = Markup::none();
    if percent <= 0.0 {
        out.push("Nothing is polled on ");
        out.push(whose);
    } else {
        let what = format!(
            "CPU time polled, over the time recorded: {} in {}",
            account.poll.ns.map_or_else(String::new, nanos),
            nanos(account.span_ns)
        );
        out.push("Polling burns ");
        out.push(linked(told, "poll", cpus(percent), what, (counted, &place)));
        out.push(" on ");
        out.push(whose);
    }
    if let Some(vm) = busiest.filter(|_| report.vms.len() > 1 && percent >= WORTH_A_NAME) {
        let of_vm = vm.account.poll.cpu_percent.unwrap_or(0.0);
        out.push(if of_vm / percent > 0.5 {
            ", most of it for "
        } else {
            ", the largest part for "
        });
        let place = format!("vm-{}", vm.index);
        let link = el("a").attr("href", format!("#{place}"));
        out.push(link.with(name(&vm.name)));
        out.push(" (");
        let what = "CPU time polled by the VM that polls most";
        out.push(linked(told, "most", cpus(of_vm), what, (counted, &place)));
        out.push(")");
    }
    if percent > 0.0 {
        out.push(" and shortens ");
        out.push(caught(account, told, (counted, &place)));
        out.push(" of the wake-ups");
    }
    out.push(".");
    out
}

/// The share of the wake-ups that polling shortens.
fn caught(account: &AccountFigures, told: &mut Vec<LinkedNumber>, source: (&str, &str)) -> Markup {
    let part = account.poll.successful as f64 / account.halts.max(1) as f64;
    let what = format!(
        "halts that a poll ended, {} of {}: the vCPU went on at once and did not sleep",
        account.poll.successful, account.halts
    );
    linked(told, "caught", share(part), what, source)
}

fn busiest(report: &Report) -> Option<&ReportedVm> {
    let polls = |vm: &&ReportedVm| vm.account.poll.ns.unwrap_or(0);
    report
        .vms
        .iter()
        .max_by_key(|vm| (polls(vm), vm.account.halts))
}

fn title(tuned: &TuneResult) -> Markup {
    let Some(recommended) = &tuned.recommended else {
        return match tuned.verdict {
            Verdict::TooShort => "Record for longer: this capture is too short".into(),
            Verdict::Unproven => {
                prose("Leave the setting as it is until `haltwise prove` shows a better one")
            }
            Verdict::NoPolling => "This kernel does not poll: there is nothing to set".into(),
            Verdict::NothingFollows => "Keep the setting: it applies to no VM".into(),
            _ => "Leave the setting as it is".into(),
        };
    };
    let ceiling = recommended.get(Parameter::HaltPollNs).unwrap_or(0);
    let in_force = tuned.in_force.get(Parameter::HaltPollNs).unwrap_or(0);
    if ceiling == 0 {
        return "Switch halt polling off".into();
    }
    let time = say::time(ceiling);
    Markup::text(&match ceiling {
        _ if tuned.has_no_plan() => format!("Have the VMMs set a polling ceiling of {time}"),
        same if same == in_force => format!("Keep the ceiling of {time}, change how windows grow"),
        _ if in_force == 0 => format!("Let halts poll for up to {time}"),
        _ => format!("Set the polling ceiling to {time}"),
    })
}

/// Changes by the recommendation, or why nothing is recommended.
fn effect(tuned: &TuneResult, told: &mut Vec<LinkedNumber>) -> Vec<Markup> {
    let reason = || vec![prose(&tuned.reason)];
    let (Some(recommended), Some(played)) = (&tuned.recommended, &tuned.played) else {
        return reason();
    };
    let (Some(before), Some(after)) = (
        played.figures(SettingRow::InForce),
        played.figures(SettingRow::Choice),
    ) else {
        return reason();
    };
    let setting = say::played(recommended, after.poll_cpu_percent);
    let judged = format!(
        "replay of {} halts that did not choose it",
        tuned.basis.judged_halts
    );
    let source = (judged.as_str(), "whatif");
    let mut out = if recommended.get(Parameter::HaltPollNs) == Some(0) {
        Markup::text("Switched off, it would burn ")
    } else {
        Markup::text("With ")
            .and(prose(&setting))
            .and(" it would burn ")
    };
    let what = "CPU time that polling would take under the recommendation";
    let burns = cpus(after.poll_cpu_percent);
    out.push(linked(told, "after", burns, what, source));
    let off = played.figures(SettingRow::Off);
    out.push(kept((off, before, after), told, source));
    out.push(".");
    let mut sentences = vec![out];
    if let Some(against) = &played.against_in_force {
        let by = &against.cost_share;
        let interval = if by.is_known() {
            format!(
                "95 % interval {} to {}",
                share_of(by.low),
                share_of(by.high)
            )
        } else {
            "too few halts for a confidence interval".to_owned()
        };
        let what = format!(
            "cost of a halt, {} instead of {}: polling, switching tasks, and wake-up latency with \
             the weight of the goal; {interval}",
            nanos_f64(after.cost_ns_per_halt),
            nanos_f64(before.cost_ns_per_halt),
        );
        let text = Markup::text("In all a halt would cost ");
        let text = text.and(linked(told, "cost", say::change(by.value), what, source));
        sentences.push(text.and(", CPU and wake-up latency counted together."));
    }
    sentences
}

fn share_of(part: f64) -> String {
    let sign = if part < 0.0 { "-" } else { "+" };
    format!("{sign}{}", share(part.abs()))
}

/// How much of what polling gains in latency is kept, or what wake-ups come to.
fn kept(
    (off, before, after): (Option<&HaltFigures>, &HaltFigures, &HaltFigures),
    told: &mut Vec<LinkedNumber>,
    source: (&str, &str),
) -> Markup {
    let (was, becomes) = (before.latency_mean_ns, after.latency_mean_ns);
    let off = off.map(|off| off.latency_mean_ns);
    let gain = off.map(|off| (off - was, off - becomes));
    if let (Some((gained, keeps)), Some(off)) = (gain, off)
        && gained > 0.05 * off
        && keeps > 0.0
        && keeps <= gained
    {
        let what = format!(
            "of what polling takes off the mean wake-up latency: {} without polling, {} as it is, {} \
             under the recommendation",
            nanos_f64(off),
            nanos_f64(was),
            nanos_f64(becomes)
        );
        return Markup::text(" and keep ")
            .and(linked(told, "kept", share(keeps / gained), what, source))
            .and(" of what polling gains in latency");
    }
    let after = "mean wake-up latency of all halts, under the recommendation";
    let before = "mean wake-up latency of all halts, as it is";
    Markup::text("; wake-up latency would be ")
        .and(linked(told, "late", nanos_f64(becomes), after, source))
        .and(" on average instead of ")
        .and(linked(told, "late-now", nanos_f64(was), before, source))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_of_a_cpu_are_said_as_people_say_them() {
        for (percent, text) in [
            (0.0, "no CPU"),
            (0.1, "< 0.01 of a CPU"),
            (81.2, "0.81 of a CPU"),
            (99.8, "1.00 CPUs"),
            (320.0, "3.20 CPUs"),
        ] {
            assert_eq!(cpus(percent), text);
        }
    }
}
