//! Lines as they are found on hosts, and what comes of them.

use super::*;
use crate::knob::{at_boot, without_effect};
use crate::root::made_up;

fn host(files: &[(&str, &str)]) -> Vec<Line> {
    let (_dir, root) = made_up(files);
    lines(&root)
}

fn holds(lines: &[Line], parameter: Parameter, value: u32) -> Option<&str> {
    holder(lines, parameter, value).map(|line| line.place.as_str())
}

const CEILING: Parameter = Parameter::HaltPollNs;

#[test]
fn a_value_in_force_has_the_last_line_that_sets_it() {
    let found = host(&[
        (
            "etc/modprobe.d/kvm.conf",
            "options kvm halt_poll_ns=0\n#options kvm halt_poll_ns=9000\n",
        ),
        (
            "etc/modprobe.d/zz-perf.conf",
            "options kvm async_pf=1 halt-poll-ns=500000\n",
        ),
        (
            "etc/tmpfiles.d/k.conf",
            "w /sys/module/kvm/parameters/halt_poll_ns_shrink - - - - 0x4\n",
        ),
        ("proc/cmdline", "ro kvm.halt_poll_ns_grow=3 quiet\n"),
    ]);
    assert_eq!(
        holds(&found, CEILING, 500_000),
        Some("/etc/modprobe.d/zz-perf.conf")
    );
    assert_eq!(holds(&found, CEILING, 0), Some("/etc/modprobe.d/kvm.conf"));
    assert_eq!(holds(&found, CEILING, 9_000), None);
    assert_eq!(
        holds(&found, Parameter::Shrink, 4),
        Some("/etc/tmpfiles.d/k.conf")
    );
    assert_eq!(holds(&found, Parameter::Grow, 3), Some(COMMAND_LINE));
}

#[test]
fn units_hooks_and_profiles_are_named() {
    for (file, line) in [
        (
            "etc/systemd/system/tune.service",
            "ExecStart=/bin/sh -c 'echo 50000 > /sys/module/kvm/parameters/halt_poll_ns'",
        ),
        (
            "etc/libvirt/hooks/qemu",
            "  echo 50000 2>/dev/null >/sys/module/kvm/parameters/halt_poll_ns",
        ),
        (
            "etc/udev/rules.d/9.rules",
            "KERNEL==\"kvm\", ATTR{parameters/halt_poll_ns}=\"50000\"",
        ),
        (
            "usr/lib/tuned/profiles/vm/tuned.conf",
            "/sys/module/kvm/parameters/halt_poll_ns=50000",
        ),
    ] {
        let found = host(&[(file, line), ("etc/tuned/active_profile", "vm\n")]);
        assert_eq!(holds(&found, CEILING, 50_000), Some(&*format!("/{file}")));
        assert_eq!(holds(&found, CEILING, 60_000), None);
        assert_eq!(holds(&found, Parameter::Grow, 50_000), None);
        let comment = host(&[(file, &format!("# {line}"))]);
        assert_eq!(comment, []);
    }
}

#[test]
fn lines_that_have_no_effect_are_told_with_the_reason() {
    for (file, text, why) in [
        (
            "etc/sysctl.d/99-kvm.conf",
            "vm.swappiness = 10\nkvm.halt_poll_ns = 0\n",
            "a module's parameter is no sysctl",
        ),
        (
            "etc/modprobe.d/k.conf",
            "options kvm-intel halt_poll_ns=0\n",
            "of module kvm, not of kvm_intel",
        ),
        (
            "etc/modprobe.d/k.conf",
            "options kvm halt_poll_ns=-1\n",
            "does not load module kvm with it",
        ),
        (
            "proc/cmdline",
            "halt_poll_ns=0\n",
            "there it is called kvm.halt_poll_ns",
        ),
        (
            "proc/cmdline",
            "cpuidle_haltpoll.guest_halt_poll_ns=1\n",
            "of module haltpoll",
        ),
    ] {
        let found = host(&[(file, text)]);
        let told = without_effect(&found);
        let [remark] = &told[..] else {
            panic!("{file}: {told:?}")
        };
        assert!(remark.finding.to_string().contains(why), "{remark:?}");
        assert_eq!(holds(&found, CEILING, 0), None);
    }
}

/// The command line keeps windows from growing at each boot, whatever is written now.
#[test]
fn a_boot_that_makes_a_setting_do_nothing_is_told() {
    let told = |cmdline: &str, ours: &[(Parameter, u32)]| {
        let ours = ours.iter().copied().collect();
        let all = at_boot(&host(&[("proc/cmdline", cmdline)]), &ours);
        let texts: Vec<String> = all.iter().map(|it| it.finding.to_string()).collect();
        texts.join("\n")
    };
    let grow = "kvm.halt_poll_ns_grow=0";
    let text = told(grow, &[(CEILING, 80_000)]);
    assert!(
        text.starts_with("at the next boot, by the kernel's command line: halt_poll_ns_grow is 0"),
        "{text}"
    );
    let overruled = format!("kvm.halt_poll_ns=0 {grow}");
    assert_eq!(told(&overruled, &[(CEILING, 80_000)]), text);
    assert_eq!(told(grow, &[(Parameter::Shrink, 2)]), "");
    assert_eq!(told("kvm.halt_poll_ns=5000000", &[(CEILING, 80_000)]), "");
    assert_eq!(told("kvm.halt_poll_ns_grow=2", &[(CEILING, 80_000)]), "");
    assert!(told("kvm.halt_poll_ns_grow=20000", &[]).contains("a factor"));
}
