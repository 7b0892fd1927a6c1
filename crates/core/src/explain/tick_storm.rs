//! Ticks at a fixed period on a vCPU that is otherwise idle.
//!
//! An idle guest that is woken by its timer at one of a handful of rates has a tick that never stops.
//! Which rate tells whose: see [`TICKS`]. The signature: nine of ten wakes are the timer's, the vCPU
//! is halted for at least half of the time, gaps hardly vary, and the rate is near a known one: 1000
//! is told from 1024 as the nearer of the two, which is right only where no tick was lost.

use super::cost::switches_ns;
use super::hyperv_timers;
use super::prelude::*;
use super::terms::HYPERV;

pub(super) const RULE: Rule = Rule {
    id: "tick-storm",
    title: "a tick that never stops on an idle vCPU",
    source: "kernel/Kconfig.hz; i8254 and MC146818 rates; commit 14ebda33 (2048 Hz of Windows 10)",
    look,
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

/// Share of the wakes that are the timer's.
const MOSTLY: f64 = 0.9;

/// Halted for at least this share of the time: "otherwise idle".
const IDLE: f64 = 0.5;

/// The median gap, of the time from one tick to the next: the rest is wake-up latency and work.
const PERIOD: f64 = 0.6;

/// The ninth tenth of the gaps over the first: two buckets of a histogram that knows values to an
/// eighth of an octave are a factor of 1.27 apart at the most, and work in between takes its share.
const STEADY: f64 = 1.5;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let wakes = |account: &Account| account.unknown.wake;
    if let Some(unfit) = evidence.unfit(wakes, "wake sources were not recorded") {
        return unfit;
    }
    let guests = evidence.guests.iter();
    // Ticks that the guest's exits explain more exactly are not reported twice.
    let guests = guests.filter(|guest| !hyperv_timers::explains(evidence, guest));
    let each = guests.flat_map(|guest| {
        let of_tick = |tick| of_guest(evidence, guest, tick);
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
    // Between ticks there is the gap and little else; a rate of other gaps is a mean by chance.
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

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, wanted: &Tick) -> Option<Found> {
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
