//! Rules about ticks and timers of guests.

use super::cost::switches_ns;
use super::prelude::*;
use super::terms::HYPERV;

/// An idle guest that is woken by its timer at one of a handful of rates has a tick that never stops. The signature: nine
/// of ten wakes are the timer's, the vCPU is halted for at least half of the time, gaps hardly vary, and the rate is near
/// a known one: of 1000 and 1024 the nearer is taken, which is right only where no tick was lost.
pub(super) const TICK_STORM: Rule = Rule {
    id: "tick-storm",
    title: "a tick that never stops on an idle vCPU",
    source: "kernel/Kconfig.hz; i8254 and MC146818 rates; commit 14ebda33 (2048 Hz of Windows 10)",
    look: look_for_ticks,
};

/// A known rate: in a second, whose it is, and remedies for those who keep such a tick.
struct Tick {
    hz: f64,
    whose: &'static str,
    kept_by: &'static [Remedy],
}

const fn known(hz: f64, whose: &'static str, kept_by: &'static [Remedy]) -> Tick {
    Tick { hz, whose, kept_by }
}

const LINUX: &[Remedy] = &[TICKLESS];
const WINDOWS: &[Remedy] = &[HYPERV_TIMERS];
const EITHER: &[Remedy] = &[TICKLESS, HYPERV_TIMERS];

const TICKLESS: Remedy = Remedy::new(
    Does::ForLinux,
    "Linux guest: boot it with `nohz=on`, without `nohz=off` or `highres=off`, and a kernel with \
     CONFIG_NO_HZ_IDLE.",
    "A restart of the guest; each time that it goes idle it then sets its timer again, which may exit.",
    "A guest that goes idle more often than it ticked, or whose timing was tuned to a tick that never stops.",
);

const HYPERV_TIMERS: Remedy = Remedy::under(
    Does::ForWindows,
    "Windows guest: QEMU `-cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-avic`, libvirt `<timer \
     name='hypervclock' present='yes'/>` with `<synic/>`, `<stimer/>` and `<avic/>`; `powercfg /energy` in the guest \
     lists who requests a 1 ms timer.",
    HYPERV,
);

/// Linux: the choices of `kernel/Kconfig.hz`. Windows: 15.625 ms at rest is 64 Hz, 1 ms if a program
/// asks for it; without Hyper-V's timers it takes its clock from the RTC, whose rates are powers of
/// two (MC146818, register A), up to 2048 Hz in Windows 10 (14ebda33).
static TICKS: [Tick; 9] = [
    known(
        64.0,
        "Windows' clock at rest (15.6 ms), from the RTC or the PIT",
        WINDOWS,
    ),
    known(
        100.0,
        "a Linux tick at HZ=100, or a PIT at that rate",
        LINUX,
    ),
    known(128.0, "an RTC at 128 Hz", WINDOWS),
    known(250.0, "a Linux tick at HZ=250", LINUX),
    known(300.0, "a Linux tick at HZ=300", LINUX),
    known(512.0, "an RTC at 512 Hz", WINDOWS),
    known(
        1000.0,
        "a PIT or HPET at 1 ms, or a Linux tick at HZ=1000",
        EITHER,
    ),
    known(
        1024.0,
        "an RTC at 1024 Hz, as used by Windows for multimedia, or a tick of 1 ms",
        WINDOWS,
    ),
    known(2048.0, "an RTC at 2048 Hz, as used by Windows 10", WINDOWS),
];

/// How far the rate may be above a known one: clocks of guest and host differ by far less, and few
/// wakes of others come in between.
const ABOVE: f64 = 0.03;

/// How far below: a busy host merges ticks that it could not deliver in time.
const BELOW: f64 = 0.1;

const MOSTLY: f64 = 0.9;

/// Halted for at least this share of the time: "otherwise idle".
const IDLE: f64 = 0.5;

/// The median gap, of the time from one tick to the next: the rest is wake-up latency and work.
const PERIOD: f64 = 0.6;

/// The ninth tenth of the gaps over the first: two buckets of a histogram that knows values to an
/// eighth of an octave are a factor of 1.27 apart at the most, and work in between takes its share.
const STEADY: f64 = 1.5;

fn look_for_ticks(evidence: &Evidence<'_>) -> Judgement {
    let wakes = |account: &Account| account.unknown.wake;
    if let Some(unfit) = evidence.unfit(wakes, "wake sources were not recorded") {
        return unfit;
    }
    let guests = evidence.guests.iter();
    // Ticks that the guest's exits explain more exactly are not reported twice.
    let guests = guests.filter(|guest| !is_without_stimer(evidence, guest));
    let each = guests.flat_map(|guest| {
        let of_tick = |tick| tick_storm(evidence, guest, tick);
        TICKS.iter().filter_map(of_tick).collect::<Vec<_>>()
    });
    each.collect::<Vec<_>>().into()
}

/// Whether a vCPU rests, and it is its timer that wakes it.
pub(super) fn rests_by_timer(account: &Account) -> bool {
    let span_ns = account.span.last_ns.saturating_sub(account.span.first_ns);
    let timer = wake_share(account, WakeSource::Timer);
    account.halts >= ENOUGH_EVENTS
        && span_ns > 0
        && account.halted_ns() as f64 >= IDLE * span_ns as f64
        && timer.is_some_and(|share| share.is_from(MOSTLY))
}

/// CPU time that these wake-ups took, polling included.
pub(super) fn awake_ns(account: &Account) -> u64 {
    account
        .poll_ns()
        .unwrap_or(0)
        .saturating_add(switches_ns(account))
}

fn tick(account: &Account) -> Option<(&'static Tick, f64)> {
    let span_ns = account.span.last_ns.checked_sub(account.span.first_ns)?;
    let gaps = &account.gap_ns;
    let (low, high) = (gaps.percentile(0.1)?, gaps.percentile(0.9)?);
    let enough = gaps.count() * 2 >= account.halts;
    let steady = high as f64 <= STEADY * low as f64;
    if !rests_by_timer(account) || !enough || !steady {
        return None;
    }
    let per_s = account.halts as f64 / (span_ns as f64 / 1e9);
    // Between ticks there is the gap and little else; the mean rate of other gaps is no tick rate.
    let period_ns = 1e9 / per_s;
    if (gaps.percentile(0.5)? as f64) < PERIOD * period_ns {
        return None;
    }
    let off = |tick: &Tick| per_s / tick.hz - 1.0;
    let by_distance = |a: &&Tick, b: &&Tick| off(a).abs().total_cmp(&off(b).abs());
    let nearest = TICKS.iter().min_by(by_distance)?;
    (-BELOW..=ABOVE)
        .contains(&off(nearest))
        .then_some((nearest, per_s))
}

/// Whether a vCPU ticks in idleness: rules that know more of the same guest ask.
pub(super) fn ticks(account: &Account) -> bool {
    tick(account).is_some()
}

fn tick_storm(evidence: &Evidence<'_>, guest: &Guest<'_>, wanted: &Tick) -> Option<Found> {
    // A guest that recorded itself runs Linux.
    let may = |it: &&Remedy| evidence.in_guest.is_none() || it.does == Does::ForLinux;
    let at_rate = |account: &Account| tick(account).filter(|(tick, _)| std::ptr::eq(*tick, wanted));
    let (who, account) = guest.gather(|_, account| at_rate(account).is_some())?;
    let rates = guest.seats.iter().filter_map(|seat| at_rate(seat.account?));
    let (tick, per_s) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let halted =
        account.halted_ns() as f64 / (guest.interval.length_ns() as f64 * who.vcpus.len() as f64);
    Some(Found {
        signature: format!(
            "Timer wakes at {} on each vCPU, {} of all wakes; halted for {} of the time; median gap {}.",
            rate(per_s),
            percent(wake_share(&account, WakeSource::Timer).map_or(0.0, |timer| timer.share)),
            percent(halted.min(1.0)),
            nanos(account.gap_ns.percentile(0.5).unwrap_or(0)),
        ),
        cause: format!(
            "{}: the guest keeps ticking while it is idle.",
            capital(tick.whose)
        ),
        remedies: tick.kept_by.iter().filter(may).cloned().collect(),
        cost: Some(Cost::cpu(guest.per_s(awake_ns(&account)))),
        // Halts alone tell the rate and not the device; a rate with ticks lost not even that.
        sure: Sure::likely_if(per_s >= tick.hz * (1.0 - ABOVE)),
        who,
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Without `hv-stimer` and `hv-synic` Windows takes its clock from the RTC or the PIT and reads the ACPI PM timer: each
/// tick is a timer wake, an exit for the interrupt, and port accesses that go to the VMM. Users report 30 % of a CPU for
/// an idle guest, and 1 to 3 % with them.
///
/// The signature: a tick as [`TICK_STORM`] finds it, at least one access to those ports for each tick (an RTC interrupt
/// must be acknowledged by a read of its register C), and no write to a Hyper-V timer. Where ports were not told, I/O exits
/// stand for them. A busy host loses ticks and their rhythm: a vCPU that rests, is woken by its timer, and acknowledges an
/// RTC with each wake will do.
pub(super) const WITHOUT_STIMER: Rule = Rule {
    id: "windows-without-stimer",
    title: "an idle Windows guest without Hyper-V timers",
    source: "QEMU docs/system/i386/hyperv.rst; arch/x86/kvm/hyperv.c; reports of users",
    look: |evidence| evidence.each_exits(without_stimer),
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
pub(super) fn is_without_stimer(evidence: &Evidence<'_>, guest: &Guest<'_>) -> bool {
    let found = guest
        .exits
        .and_then(|exits| without_stimer(evidence, guest, exits));
    found.is_some()
}

fn without_stimer(
    evidence: &Evidence<'_>,
    guest: &Guest<'_>,
    exits: &ExitAccount,
) -> Option<Found> {
    let by_port = |is_it: fn(u64) -> bool| about(exits, &[Kind::PioRead, Kind::PioWrite], is_it);
    let rtc = by_port(is_rtc).count;
    let ticking = guest.gather(|_, account| ticks(account));
    let (who, halts) = ticking.or_else(|| {
        let rests = guest.gather(|_, account| rests_by_timer(account));
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
    let awake = awake_ns(&halts).saturating_add(ports.time_ns());
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

/// Setting the TSC deadline is an MSR write that exits (0x6e0), and the expiry of VMX's preemption timer another exit.
/// Where vCPUs have CPUs of their own, the host's timer can run on a housekeeping CPU and post the interrupt:
/// `pi_inject_timer` (set by itself under `nohz_full`), `APICv` or AVIC active, and halts or MWAIT that stay inside the
/// guest.
///
/// `lapic_timer_advance` spares no exit: KVM's own timer expires early, by what an exit and an entry take, and KVM waits
/// for the rest before it enters the guest. It is on by default: by a number of nanoseconds until Linux 6.10
/// (`lapic_timer_advance_ns`, -1: found by KVM itself), a read-only switch from then on. So it is a remedy only where it
/// was switched off.
pub(super) const TIMER_EXITS: Rule = Rule {
    id: "timer-exits",
    title: "a guest's timer that exits",
    source: "kvm_can_post_timer_interrupt in arch/x86/kvm/lapic.c",
    look: |evidence| evidence.each_exits(timer_exits),
};

/// `PREEMPTION_TIMER`.
const EXPIRED: [(Isa, u32); 1] = [(Isa::Vmx, 52)];

/// `MSR_IA32_TSC_DEADLINE`, and the x2APIC's initial count.
const SETS: [u64; 2] = [0x6e0, 0x838];

const IN_GUEST: Remedy = Remedy::new(
    Does::HaltsInGuest,
    "For vCPUs that are pinned to CPUs of their own: `nohz_full=` for these CPUs on the host's command \
     line (kvm then sets pi_inject_timer by itself), APICv or AVIC, and QEMU `-overcommit \
     cpu-pm=on`: expiry no longer exits.",
    "A boot of the host and a start of the VM; these CPUs look busy to the host all the time, and no other task gets \
     them.",
    "Where vCPUs share CPUs: one that halts inside the guest keeps its CPU from the others.",
);

/// `MSR_IA32_TSC_DEADLINE`: timers of other modes are not advanced.
const DEADLINE: u64 = 0x6e0;

/// Price and harm of timers that expire early (`LAPIC_TIMER_ADVANCE_NS_MAX`, `LAPIC_TIMER_ADVANCE_NS_INIT`).
const ADVANCED: Terms = Terms::new(
    "KVM waits busily, for up to 5 us, before it enters a guest whose timer expired early; it holds for VMs that start \
     afterwards, and from Linux 6.11 on all VMs have to stop while kvm is loaded again.",
    "Where tasks wait for these CPUs, or where this host is a VM itself: what an exit takes then varies too much to \
     be found, and KVM falls back to 1 us.",
);

/// Where it is off: a guest's deadlines are met later than they need be.
fn advance(evidence: &Evidence<'_>, exits: &ExitAccount) -> Option<Remedy> {
    let deadlines = about(exits, &[Kind::MsrWrite], |msr| msr == DEADLINE);
    let how = match evidence.setting("kvm.lapic_timer_advance")? {
        "0" => "`echo -1 > /sys/module/kvm/parameters/lapic_timer_advance_ns`",
        "N" => "load kvm with `lapic_timer_advance=1` (the parameter is read-only)",
        _ => return None,
    };
    let text = format!(
        "For timers that are met more closely, without an exit less: {how}, which is KVM's default."
    );
    (deadlines.count > 0).then(|| Remedy::with_text(Does::WaitsForTimers, text, ADVANCED))
}

fn timer_exits(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let mut timer = exits_of(exits, &EXPIRED);
    timer.fold(&about(exits, &[Kind::MsrWrite], |msr| SETS.contains(&msr)));
    let per_s = guest.storm(timer.count)?;
    let in_guest = guest.vm.machine.is_some_and(|machine| machine.cpu_pm);
    if in_guest || guest.vm.observable != Observable::Yes {
        return None;
    }
    let told = |name: &str| evidence.setting(name).unwrap_or("not known").to_owned();
    let isolated = match evidence.setting("nohz_full") {
        None => "not known".to_owned(),
        Some("" | "(null)") => "none".to_owned(),
        Some(cpus) => cpus.to_owned(),
    };
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} exits to set a timer or for its expiry, {}; they {}. Host: nohz_full CPUs {isolated}, \
             pi_inject_timer {}, lapic_timer_advance {}.",
            timer.count,
            rate(per_s),
            took(timer.time_ns()),
            told("kvm.pi_inject_timer"),
            told("kvm.lapic_timer_advance"),
        ),
        cause: "The guest arms a timer each time that it goes idle or sleeps for short, and KVM is entered \
                for that and for its expiry."
            .to_owned(),
        remedies: [IN_GUEST]
            .into_iter()
            .chain(advance(evidence, exits))
            .collect(),
        cost: (timer.time_ns() > 0).then(|| Cost::cpu(guest.per_s(timer.time_ns()))),
        sure: Sure::Possible,
    })
}
