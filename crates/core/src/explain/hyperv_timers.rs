//! An idle Windows guest that keeps time with emulated hardware, for want of Hyper-V's own timers.
//!
//! Without `hv-stimer` and `hv-synic` Windows takes its clock from the RTC or the PIT and reads the
//! ACPI PM timer: each tick is a timer wake, an exit for the interrupt, and port accesses that go to
//! the VMM. Users report 30 % of a CPU for an idle guest, and 1 to 3 % with them.
//!
//! The signature: a tick as [`super::tick_storm`] finds it, and at least one access to those ports for
//! each tick (an RTC interrupt must be acknowledged by a read of its register C), and no write to a
//! Hyper-V timer. Where ports were not told, I/O exits in their place, and less sure. A busy host loses
//! ticks and their rhythm with them: a vCPU that rests, is woken by its timer, and acknowledges an RTC
//! with each wake will do.

use super::prelude::*;
use super::terms::HYPERV;
use super::tick_storm;

pub(super) const RULE: Rule = Rule {
    id: "windows-without-stimer",
    title: "an idle Windows guest without Hyper-V timers",
    source: "QEMU docs/system/i386/hyperv.rst; arch/x86/kvm/hyperv.c; reports of users",
    look: |evidence| evidence.each_exits(of_guest),
};

const IO: [(Isa, u32); 2] = [(Isa::Vmx, 30), (Isa::Svm, 0x7b)];

/// Ports of clocks: PIT (`drivers/clocksource/i8253.c`), RTC (`asm/mc146818rtc.h`), and the ACPI PM
/// timer, eight above the base that firmware chooses: 0x600 (`SeaBIOS`, OVMF on Q35), 0xb000 (OVMF on
/// i440FX, older `SeaBIOS`).
pub(super) fn is_clock(port: u64) -> bool {
    matches!(port, 0x40..=0x43 | 0x70..=0x71 | 0x608..=0x60b | 0xb008..=0xb00b)
}

fn is_rtc(port: u64) -> bool {
    matches!(port, 0x70..=0x71)
}

/// `HV_X64_MSR_STIMER0_CONFIG` to `HV_X64_MSR_STIMER3_COUNT` (`hyperv-tlfs.h`).
fn is_stimer(msr: u64) -> bool {
    matches!(msr, 0x4000_00b0..=0x4000_00b7)
}

/// Whether this rule says of a guest why it ticks.
pub(super) fn explains(evidence: &Evidence<'_>, guest: &Guest<'_>) -> bool {
    let found = guest
        .exits
        .and_then(|exits| of_guest(evidence, guest, exits));
    found.is_some()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let by_port = |is_it: fn(u64) -> bool| about(exits, &[Kind::PioRead, Kind::PioWrite], is_it);
    let rtc = by_port(is_rtc).count;
    let ticks = guest.gather(|_, account| tick_storm::ticks(account));
    let (who, halts) = ticks.or_else(|| {
        let rests = guest.gather(|_, account| tick_storm::rests_by_timer(account));
        rests.filter(|(_, halts)| rtc >= halts.halts)
    })?;
    let stimer = about(exits, &[Kind::MsrRead, Kind::MsrWrite], is_stimer);
    let told = evidence.tells(SubKey::Pio);
    let io = exits_of(exits, &IO);
    let ports = if told { by_port(is_clock) } else { io.clone() };
    if stimer.count > 0 || ports.count < halts.halts {
        return None;
    }
    let what = if told {
        "accesses to the ports of PIT, RTC and ACPI PM timer"
    } else {
        "port accesses (which ports was not recorded)"
    };
    let awake = tick_storm::awake_ns(&halts).saturating_add(ports.time_ns());
    Some(Found {
        who,
        signature: format!(
            "{} ticks wake an idle guest, {}, with {} {what}, {}; they {}.",
            halts.halts,
            rate(guest.per_s(halts.halts)),
            ports.count,
            rate(guest.per_s(ports.count)),
            took(ports.time_ns()),
        ),
        cause: "Windows keeps time with emulated hardware: each tick is a wake-up, and its \
                acknowledgement goes through the VMM."
            .to_owned(),
        remedies: vec![Remedy::under(
            Does::ForWindows,
            "QEMU `-cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-avic`; libvirt `<vpindex/>`, `<synic/>`, \
             `<stimer/>`, `<avic/>` with state='on', and `<timer name='hypervclock' present='yes'/>`.",
            HYPERV,
        )],
        cost: Some(Cost::cpu(guest.per_s(awake))),
        sure: Sure::likely_if(told),
    })
}
