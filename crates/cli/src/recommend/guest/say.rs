//! Result of a search for a guest, in words, and how to set it.

use haltwise_core::explain::contention::Contention;
use haltwise_core::explain::in_guest::MOST_STEAL;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::replay::Sums;
use haltwise_core::tune::advice::Verdict;

use super::{GuestCandidates, Place};
use crate::number::{nanos_f64, percent, share};
use crate::page::harmless;
use crate::recommend::say::{apply as apply_on_host, change, interval, parameters, setting, than};
use crate::recommend::view::OfSide;

/// How a VM gets HLT and MWAIT without exits: QEMU's option, and how libvirt passes it on (`qemu:commandline`).
pub(crate) const CPU_PM: [&str; 2] = [
    "-overcommit cpu-pm=on  # QEMU",
    "<qemu:arg value='-overcommit'/><qemu:arg value='cpu-pm=on'/>  # libvirt",
];

/// From which share of the halts on, polled in the recording and asleep in the replay or the other way round, a
/// recommendation says so. In an emulated machine eight of ten loads of a stock guest were off by less than 0.06, the
/// other two by 0.3 (`docs/guest.md`).
const MOST_OFF: f64 = 0.1;

/// How to have the host poll instead: the driver haltpoll keeps it from that as long as it is loaded.
pub(crate) fn host_commands(of: &GuestCandidates, host: &Values) -> Vec<String> {
    if of.place() != Place::Host {
        return Vec::new();
    }
    let is_loaded = of.governor_name.as_deref() == Some("haltpoll");
    let unload = is_loaded.then(|| "modprobe -r cpuidle_haltpoll".to_owned());
    unload.into_iter().chain([apply_on_host(host)]).collect()
}

pub(crate) fn command_line(of: &GuestCandidates, to: &Values) -> Vec<String> {
    let mut all = Vec::new();
    if of.governor_name.as_deref() != Some("haltpoll") {
        all.push("cpuidle_haltpoll.force=Y".to_owned());
        all.push("cpuidle.governor=haltpoll".to_owned());
    }
    let given = to.beyond(&Params::default().into());
    let word =
        |(it, value): (Parameter, u32)| format!("{}.{it}={}", it.module(), it.written(value));
    all.extend(given.iter().map(word));
    all
}

pub(crate) fn reason(of: &GuestCandidates) -> String {
    let cost = &of.advice.goal.aim.cost;
    let in_force = of.of.in_force.judged().cost_per_halt_ns(cost);
    match (of.place(), &of.advice.choice, &of.advice.against_in_force) {
        (Place::Host, _, _) => {
            let host = &of.host;
            let blocks = host.parts.get(1..).unwrap_or_default();
            let own = Sums::total(blocks).cost_per_halt_ns(cost);
            let share = &host.against_in_force.cost_share;
            format!(
                "With no polling in the guest and {} in its host a halt costs {} instead of {}, {} ({} with 95 % \
                 confidence). The driver haltpoll keeps the host from polling: it must not be loaded.",
                parameters(&host.choice.knobs.values(&of.inputs.terms)),
                nanos_f64(own),
                nanos_f64(in_force),
                change(share.value),
                interval(share),
            )
        }
        (Place::CpuPm, _, _) => {
            let share = &of.cpu_pm.cost_share;
            format!(
                "Without exits on HLT and MWAIT a halt costs {} ({} with 95 % confidence) than with the best setting of \
                 guest and host. All of the guest's idle time is lost to the host then, and no tool on the host \
                 can see the guest idle.",
                change(share.value),
                interval(share),
            )
        }
        (_, Some(choice), Some(against)) => {
            let own = choice.judged();
            let effect = format!(
                "With {} a halt costs {} instead of {}, {} ({} with 95 % confidence); exits change by {}, and \
                 polling takes {} of a CPU instead of {}.",
                setting(&choice.knobs.into()),
                nanos_f64(own.cost_per_halt_ns(cost)),
                nanos_f64(in_force),
                change(against.cost_share.value),
                interval(&against.cost_share),
                exits(own.exits, of.of.in_force.judged().exits),
                polls(of, &own),
                polls(of, &of.of.in_force.judged()),
            );
            format!("{effect}{}", verdict(of))
        }
        _ => "No evaluated setting beats the current one on the validation half.".to_owned(),
    }
}

fn polls(of: &GuestCandidates, sums: &Sums) -> String {
    share(of.inputs.judged_wall.poll_cpu_percent(sums) / 100.0)
}

fn exits(own: u64, other: u64) -> String {
    let sign = if own < other { "-" } else { "+" };
    format!(
        "{sign}{}",
        percent(own.abs_diff(other) as f64, other as f64)
    )
}

/// Why it is not recommended, if it is not; what else made it so.
fn verdict(of: &GuestCandidates) -> &'static str {
    match of.advice.verdict {
        Verdict::Change => "",
        Verdict::ObeyLimit if of.shared.want_its_cpus() => {
            " Its host gives the guest's CPU time to others: a guest should not poll there."
        }
        Verdict::ObeyLimit => " What is in force polls for more than it may.",
        Verdict::NotSignificant => " The difference may be chance.",
        Verdict::TooSmall => " That is less than the 2 % for which a change is worth it.",
        Verdict::TooShort => " The recording is too short to tell: record for longer.",
        Verdict::Unproven => " That depends on the calibration: prove it first.",
        _ => " That is no better than the current setting.",
    }
}

pub(crate) fn notes(of: &GuestCandidates) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(Contention::Wanted(how)) = of.shared.joined.as_ref().map(|it| &it.contention) {
        notes.push(format!(
            "The host gives this VM's CPUs to others: {how}. No polling in the guest is recommended: KVM cannot end a \
             guest's poll when another task wants the CPU."
        ));
    }
    let stolen = of.shared.stolen_of_wanted;
    if let Some(steal) = stolen.filter(|_| of.shared.is_stolen_from()) {
        notes.push(format!(
            "The host gave {} of the time in which this guest wanted its CPUs to others (steal). From {} on no \
             polling in the guest is recommended: KVM cannot end a guest's poll when another task wants the CPU.",
            share(steal),
            share(MOST_STEAL),
        ));
    } else if stolen.is_none() && of.shared.joined.is_none() {
        notes.push(
            "Steal time was not recorded: do not poll in a guest whose CPUs are overcommitted."
                .to_owned(),
        );
    }
    if of.cpu_pm_costs_less() && !of.shared.leave_its_cpus() {
        let why = if of.shared.want_its_cpus() {
            "others want its CPUs"
        } else {
            "it is not known whether others want its CPUs"
        };
        notes.push(format!(
            "HLT and MWAIT without exits (cpu-pm=on) would cost {} {} the best of the above; not recommended: {why}.",
            change(of.cpu_pm.cost_share.value),
            than(of.cpu_pm.cost_share.value),
        ));
    }
    match of.governor_name.as_deref() {
        Some("haltpoll") => {}
        Some(other) => notes.push(format!(
            "The guest's governor is {}. What is in force was replayed as HLT at once, without a poll.",
            harmless(other),
        )),
        None => notes.push(
            "The guest has no cpuidle driver: it executes HLT at once. Its parameters take effect with the driver \
             and the governor haltpoll."
                .to_owned(),
        ),
    }
    let halts = of.inputs.halts().max(1) as f64;
    let recorded = of.inputs.seats.iter().map(|seated| seated.recorded.blocks);
    let off = of.hlts_replayed.abs_diff(recorded.sum()) as f64 / halts;
    if of.governor_name.as_deref() == Some("haltpoll") && off > MOST_OFF {
        notes.push(format!(
            "The replay of the current setting is off by {} of the halts: its parameters changed while recording, \
             polls lasted beyond their limit, or the recording is too short. Leave them alone and record for longer.",
            share(off),
        ));
    }
    if of.price.exit_cpu_ns.is_none() {
        notes.push(
            "What an exit costs is not known and counts as 0 beside the block: polling in the guest may be worth \
             more. Measure it with `haltwise calibrate` in the guest or on the host, or give --exit-cpu TIME."
                .to_owned(),
        );
    }
    notes
}
