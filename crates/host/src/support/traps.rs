//! Peculiarities of this kernel and these settings: the findings of `status --check`.
//!
//! Pure: a release and the settings in, findings out. Each is dated with the kernels that it holds for.

use haltwise_core::event::Knob;

use super::KernelRelease;
use super::{Finding, Level};
use crate::knob;

pub(super) fn by_version(kernel: &KernelRelease) -> Vec<Finding> {
    let traps = [
        (
            kernel.has_backports(),
            Level::Note,
            "the distributor carries newer code under an older kernel number",
            "findings by version may not hold for this kernel",
            Some("trust what a recording shows over what the version says"),
        ),
        (
            !kernel.is_from(4, 3),
            Level::Problem,
            "this kernel has no polling window",
            "before 4.3 every halt polls for the whole of halt_poll_ns, without a trace event",
            None,
        ),
        (
            kernel.is_from(5, 8) && !kernel.is_from(6, 1),
            Level::Warning,
            "a VM keeps the halt_poll_ns that was set when it was started",
            "kernels 5.8 to 6.0 copy the parameter when a VM is made; later writes apply to new VMs only",
            Some("restart or migrate VMs after a change, or set the cap inside the VMM"),
        ),
        (
            kernel.is_from(5, 8) && !kernel.is_from(5, 13),
            Level::Note,
            "growth is capped by the module parameter even where a VM has its own ceiling",
            "kernels 5.8 to 5.12 compare with the wrong ceiling",
            None,
        ),
        (
            !kernel.is_from(5, 17),
            Level::Note,
            "KVM counts a poll as successful only if the wake came while it polled",
            "before 5.17; later kernels count every halt that polled and was never scheduled out",
            None,
        ),
        (
            !kernel.is_from(5, 13),
            Level::Note,
            "polling goes on while another task waits for the CPU under a CPU quota",
            "before 5.13 (and stable kernels without that fix) need_resched() does not stop polling",
            None,
        ),
    ];
    let traps = traps.into_iter().filter(|(holds, ..)| *holds);
    traps
        .map(|(_, level, what, why, remedy)| Finding::new(level, what, why, remedy))
        .collect()
}

pub(super) fn by_settings(kernel: &KernelRelease, knobs: &[Knob]) -> Vec<Finding> {
    let number = |name: &str| -> Option<u64> {
        let knob = knobs.iter().find(|knob| knob.name == name)?;
        knob.value.parse().ok()
    };
    let mut findings = Vec::new();
    let mut add = |level, what: String, why: &str, remedy: Option<&str>| {
        findings.push(Finding::new(level, what, why, remedy));
    };
    if number("halt_poll_ns") == Some(0) {
        add(
            Level::Note,
            "halt_poll_ns is 0".into(),
            "no VM without its own cap polls; each halt ends with a wake-up",
            None,
        );
    }
    if number("halt_poll_ns_shrink") == Some(0) {
        let why = if kernel.is_from(6, 11) {
            "not the default, which is 2 since 6.11"
        } else {
            "the default up to 6.10"
        };
        add(
            Level::Note,
            "halt_poll_ns_shrink is 0: one halt longer than the ceiling resets the window to 0"
                .into(),
            why,
            None,
        );
    }
    let remarks = knob::remarks(&knob::Settings::of(knobs)).into_iter();
    findings.extend(remarks.map(|remark| remark.finding));
    findings.extend(as_guest(knobs));
    findings
}

fn as_guest(knobs: &[Knob]) -> Vec<Finding> {
    let text = |name: &str| Some(knobs.iter().find(|knob| knob.name == name)?.value.as_str());
    let polled_ns: Option<u64> = text("guest_halt_poll_ns").and_then(|ns| ns.parse().ok());
    let governor = text("cpuidle.current_governor");
    let polls = governor == Some("haltpoll");
    let mut findings = Vec::new();
    if text("cpuidle.current_driver") == Some("haltpoll") && (!polls || polled_ns == Some(0)) {
        let what = match governor {
            Some(governor) if !polls => format!("governor {governor}"),
            _ => "and guest_halt_poll_ns is 0".to_owned(),
        };
        findings.push(Finding::new(
            Level::Warning,
            format!(
                "this machine is itself a guest, and neither it nor its host polls: cpuidle driver \
                 haltpoll, {what}"
            ),
            "the driver disables host polling (MSR_KVM_POLL_CONTROL); instead only the governor \
             haltpoll polls, up to guest_halt_poll_ns",
            Some(
                "to have it poll: boot with cpuidle.governor=haltpoll, where available_governors in \
                 /sys/devices/system/cpu/cpuidle has it, and set guest_halt_poll_ns; to have the host poll: \
                 boot without cpuidle_haltpoll.force",
            ),
        ));
    }
    if let (Some(guest @ 1..), true) = (polled_ns, polls) {
        findings.push(Finding::new(
            Level::Note,
            format!("this host is itself a guest that polls up to {guest} ns before it halts"),
            "its idle CPUs look busy to the host above",
            None,
        ));
    }
    findings
}

#[cfg(test)]
mod test {
    use haltwise_core::event::KnobScope;

    use super::*;

    fn texts(findings: &[Finding]) -> String {
        let lines: Vec<_> = findings.iter().map(|f| f.what.as_str()).collect();
        lines.join("\n")
    }

    fn version(text: &str) -> String {
        texts(&by_version(&KernelRelease::parse(text).unwrap()))
    }

    fn settings(kernel: &str, knobs: &[(&str, &str)]) -> String {
        let knobs: Vec<_> = knobs
            .iter()
            .map(|(name, value)| Knob {
                time_ns: 0,
                name: (*name).to_owned(),
                scope: KnobScope::Host,
                value: (*value).to_owned(),
            })
            .collect();
        texts(&by_settings(&KernelRelease::parse(kernel).unwrap(), &knobs))
    }

    #[test]
    fn each_trap_holds_for_its_kernels_only() {
        for (kernel, snapshot, success) in [
            ("5.7.19", false, true),
            ("5.8.0", true, true),
            ("5.16.9", true, true),
            ("5.17.0", true, false),
            ("6.0.19", true, false),
            ("6.1.0", false, false),
            ("7.2.0", false, false),
        ] {
            let found = version(kernel);
            assert_eq!(found.contains("when it was started"), snapshot, "{kernel}");
            assert_eq!(found.contains("as successful only"), success, "{kernel}");
        }
        assert!(version("4.18.0-513.el8.x86_64").contains("distributor"));
        assert_eq!(version("6.18.44"), "");
    }

    #[test]
    fn settings_that_surprise_are_told() {
        assert_eq!(
            settings(
                "6.18.0",
                &[
                    ("halt_poll_ns", "200000"),
                    ("halt_poll_ns_grow", "2"),
                    ("halt_poll_ns_grow_start", "10000"),
                    ("halt_poll_ns_shrink", "2"),
                    ("guest_halt_poll_ns", "0"),
                    ("cpuidle.current_governor", "haltpoll"),
                ]
            ),
            ""
        );
        for (name, value, said) in [
            ("halt_poll_ns", "0", "halt_poll_ns is 0"),
            ("halt_poll_ns_shrink", "0", "resets the window"),
            ("halt_poll_ns_grow", "0", "do not grow"),
        ] {
            assert!(
                settings("6.18.0", &[(name, value)]).contains(said),
                "{name}"
            );
        }
        let driver = ("cpuidle.current_driver", "haltpoll");
        let governor = |name| ("cpuidle.current_governor", name);
        // Debian 6.1 with cpuidle_haltpoll.force=1 has no governor haltpoll, nor its parameters.
        let menu = settings("6.1.0", &[driver, governor("menu")]);
        assert!(
            menu.contains("neither it nor its host polls") && menu.contains("menu"),
            "{menu}"
        );
        let off = [driver, governor("haltpoll"), ("guest_halt_poll_ns", "0")];
        assert!(settings("6.12.0", &off).contains("nor its host polls"));
        let on = [
            driver,
            governor("haltpoll"),
            ("guest_halt_poll_ns", "200000"),
        ];
        assert!(!settings("6.12.0", &on).contains("nor its host polls"));
        let other = [("cpuidle.current_driver", "intel_idle"), governor("menu")];
        assert_eq!(settings("6.12.0", &other), "");
        assert_eq!(settings("6.18.0", &[("halt_poll_ns", "rubbish")]), "");
    }
}
