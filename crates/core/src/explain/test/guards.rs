//! Every remedy of every rule: a recording on which it is given, and one on which it must not be.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::super::remedy::Lever;
use super::about_vmm::{
    ADVANCE, DEADLINE, DEEP, FAULT, KICK, RESTING, THROUGH, kicked, polling, pulsed, resting,
    returning, threaded, with,
};
use super::*;
use crate::kvm::Knobs;
use crate::topology::Cpu;
use crate::vmm::{Machine, Threads};

/// A rule, a remedy of the rule, a recording on which the remedy is given, and one on which it is withheld.
type Case = (&'static str, Does, Bench, Bench);

/// Slept through although polling would have been cheaper.
pub(super) const SHORT: Load = LOAD.gap_ns(20_000).ceiling_ns(0);

pub(super) const LOCKED: Load = LOAD.gap_ns(20_000).latency_ns(38_000).ceiling_ns(50_000);

/// Polls of 3 ms that fail.
pub(super) const LONG: Load = LOAD
    .count(1_000)
    .period_ns(10_000_000)
    .gap_ns(5_000_000)
    .window_ns(3_000_000)
    .ceiling_ns(4_000_000);

/// Polls that last a little over 1 ms and spare a sleep of 3 ms, and one in ten that fails.
const WORTHWHILE: Load = LONG.gap_ns(1_300_000).latency_ns(3_000_000).cut_each(10);

const PREEMPTED: Load = LOAD.window_ns(50_000).cut_each(1);

/// Half of the polls are preempted, and the others spare three times what all take.
const PREEMPTED_AND_WORTHWHILE: Load = LOAD.window_ns(60_000).latency_ns(500_000).cut_each(2);

const RING: Load = SHORT.wake(WakeSource::Ipi);

const HYPERV: Row = (Kind::MsrWrite, 32, Some(0x4000_0000), 1, 900);
const PAUSE: Row = (Kind::Exit, 40, None, 20_000, 4_000);
const EOI: Row = (Kind::MsrWrite, 32, Some(0x80b), 30_000, 1_500);
const MSR: Row = (Kind::Exit, 32, None, 30_000, 1_500);
const RTC: Row = (Kind::PioRead, 30, Some(0x71), 20_480, 9_000);
const SERIAL: Row = (Kind::PioRead, 30, Some(0x3f8), 20_000, 9_000);
const FEW: Row = (Kind::PioRead, 30, Some(0x3f8), 9_000, 9_000);

pub(super) fn own(load: Load) -> Load {
    load.source(CeilingSource::Cap)
}

/// No CPU is idle, though no task waits for one.
fn full(load: Load) -> Bench {
    Bench::new(1).host(0.0, 1.0).load(load)
}

fn vetoed(bench: Bench) -> Bench {
    bench.vcpu(|vcpu| vcpu.guest_veto = Some(true))
}

pub(super) fn capped(vcpu: &mut Vcpu) {
    (vcpu.ceiling_ns, vcpu.ceiling_source) = (Some(4_000_000), CeilingSource::Cap);
}

fn unobservable(bench: Bench, why: &str) -> Bench {
    bench.vm(|vm| vm.observable = Observable::No(why.into()))
}

fn bursts(bench: Bench) -> Bench {
    let bench = bench.param("halt_poll_ns_shrink", "0");
    bench.window(false, 200).window(true, 1_000)
}

fn ticking(hz: u64) -> Bench {
    calm(tick(hz))
}

/// A vCPU that polls on CPU 1, on this core, beside CPU 0 of core 0, which is busy for so long.
pub(super) fn beside(core: u32, busy_ns: Option<u64>) -> Bench {
    let mut bench = calm(LOAD);
    for nth in 0..1_000 {
        let cpu = Some(1);
        let halt = LOAD.window_ns(200_000).halt(nth);
        bench.ledger.halt(&Halt { cpu, ..halt });
    }
    let cpu = |id, core, busy_ns| Cpu {
        id,
        core,
        cache: None,
        busy_ns,
    };
    bench.roster.cpus = vec![cpu(0, 0, busy_ns), cpu(1, core, Some(SECOND))];
    bench
}

fn told(bench: Bench, rows: &[Row]) -> Bench {
    bench.exits(&SubKey::ALL, rows)
}

const PARAM: Lever = Lever::Parameters;
const OWN: Lever = Lever::OwnCeiling;
const BESIDE: &str = "polling-beside-busy-sibling";
const OVER: &str = "over-committed-polling";
const HLT: &str = "exits on HLT are disabled";

fn about_ceilings() -> Vec<Case> {
    let more = Does::HostPollsMore;
    let less = Does::HostPollsLess;
    let short = "hlt-below-break-even";
    let locked = "lock-out";
    let above = "ceiling-above-1ms";
    let high = |load| calm(load).param("halt_poll_ns", "4000000");
    let high_own = |load| calm(own(load)).vcpu(capped);
    vec![
        (short, more(PARAM), calm(SHORT), full(SHORT)),
        (short, more(OWN), calm(own(SHORT)), full(own(SHORT))),
        (locked, more(PARAM), calm(LOCKED), pressed(LOCKED)),
        (locked, more(OWN), calm(own(LOCKED)), pressed(own(LOCKED))),
        (above, less(PARAM), high(LONG), high(WORTHWHILE)),
        (above, less(OWN), high_own(LONG), high_own(WORTHWHILE)),
    ]
}

fn about_cpus() -> Vec<Case> {
    let less = Does::HostPollsLess;
    let (cut, pays) = (PREEMPTED, PREEMPTED_AND_WORTHWHILE);
    let shrink = "shrink-0-on-bursts";
    let more = Does::HostPollsMore(PARAM);
    vec![
        (shrink, more, bursts(calm(LOAD)), bursts(pressed(LOAD))),
        (OVER, Does::SparesCpus, pressed(cut), calm(LOAD)),
        (OVER, less(PARAM), pressed(cut), pressed(pays)),
        (OVER, less(OWN), pressed(own(cut)), pressed(own(pays))),
        (BESIDE, less(PARAM), beside(0, Some(5 * SECOND)), calm(LOAD)),
        ("ipi-storm", Does::GuestPolls, calm(RING), pressed(RING)),
    ]
}

fn about_vetoes() -> Vec<Case> {
    let id = "guest-veto";
    let (calm_one, pressed_one) = (|| vetoed(calm(LOAD)), || vetoed(pressed(LOAD)));
    let more = Does::HostPollsMore(Lever::Guest);
    vec![
        (id, Does::Nothing, calm_one(), pressed_one()),
        (id, Does::GuestPollsLess, pressed_one(), calm_one()),
        (id, more, vetoed(calm(SHORT)), vetoed(full(SHORT))),
    ]
}

fn about_sight() -> Vec<Case> {
    let id = "halts-not-observable";
    let pressed = unobservable(Bench::new(1).pressure(0.5), HLT);
    let calm = || unobservable(Bench::calm(1), HLT);
    let lapic = unobservable(Bench::calm(1), "no LAPIC in the kernel");
    vec![
        (id, Does::TrapsHalts, pressed, calm()),
        (id, Does::SparesExits, lapic, calm()),
    ]
}

fn about_clocks() -> Vec<Case> {
    let (linux, windows) = (Does::ForLinux, Does::ForWindows);
    let clock = |bench, more: &[Row]| {
        let reads = (Kind::PioRead, 30, Some(0x608), 20_480, 9_000);
        told(bench, &[&[reads], more].concat())
    };
    let (storm, port) = ("tick-storm", "port-polling");
    let ms = || ticking(1000);
    let rtc = || told(ticking(1024), &[RTC]);
    let (plain, hyperv) = (clock(calm(LOAD), &[]), clock(calm(LOAD), &[HYPERV]));
    let of_linux = clock(vetoed(calm(LOAD)), &[]);
    let any = clock(calm(LOAD), &[]);
    vec![
        (storm, linux, ms(), told(ms(), &[HYPERV])),
        (storm, windows, ticking(1024), vetoed(ticking(1024))),
        ("windows-without-stimer", windows, rtc(), vetoed(rtc())),
        (port, linux, plain, hyperv),
        (port, windows, any, of_linux),
    ]
}

fn about_exits() -> Vec<Case> {
    let (apic, pause) = ("apic-writes", "pause-loop");
    let (port, video) = ("port-polling", "emulated-framebuffer");
    let loads = Does::LoadsModule(&["kvm_intel.enable_apicv", "kvm_amd.avic"]);
    let spares = Does::SparesExits;
    let eois = || told(calm(LOAD), &[MSR, EOI]);
    let hyperv_eoi = (Kind::MsrWrite, 32, Some(0x4000_0070), 15_000, 1_500);
    let by_hyperv = || told(calm(LOAD), &[MSR, hyperv_eoi]);
    let on = eois().param("kvm_intel.enable_apicv", "Y");
    let free = || told(calm(LOAD), &[PAUSE]);
    let wanted = || told(pressed(LOAD), &[PAUSE]);
    let of = |row| told(calm(LOAD), &[row]);
    let drawn = |pages: u64| {
        let page = |n| (Kind::MmioWrite, 49, Some(0xa_0000 + n * 4096), 1_000, 6_000);
        let rows: Vec<Row> = (0..pages).map(page).collect();
        told(calm(LOAD), &rows)
    };
    vec![
        (apic, loads, eois(), on),
        (apic, spares, eois(), of(MSR)),
        (apic, Does::ForWindows, by_hyperv(), vetoed(by_hyperv())),
        (pause, Does::SparesCpus, wanted(), free()),
        (pause, Does::NoPauseExits, free(), wanted()),
        (pause, spares, free(), wanted()),
        (port, spares, of(SERIAL), of(FEW)),
        (video, spares, drawn(16), drawn(9)),
    ]
}

fn about_the_vmm() -> Vec<Case> {
    let (polled, hpet) = ("unseen-polling", "qemu-hpet");
    let less = Does::HostPollsLess;
    // A sleep that takes 3 ms to end: polling pays.
    let slow = LOAD.latency_ns(3_000_000);
    let pays = |load: Load| calm(load).load(Load { vcpu: 1, ..slow });
    let through = || calm(THROUGH).load(Load { vcpu: 1, ..LOAD });
    let own_through = || calm(own(THROUGH)).load(Load { vcpu: 1, ..LOAD });
    let spinning = |pressure| {
        let threads = Threads {
            over_ns: 10 * SECOND,
            vcpu_cpu_ns: Some(10 * SECOND),
            ..Threads::default()
        };
        let bench = Bench::new(1).pressure(pressure);
        with(bench, threads, Machine::default())
    };
    let pages = |value: &str| told(calm(LOAD), &[FAULT]).param("transparent_hugepage", value);
    let scx = |state: &str| calm(LOAD).param("sched_ext.state", state);
    let amd = |value: &str| calm(LOAD).param("cpu.idle_hlt", value);
    let (never, faults, hlt) = ("guest-never-halts", "guest-page-faults", "amd-idle-hlt");
    let (devices, vmm) = ("vmm-devices", Does::SparesVmm);
    let (alone, beside) = (kicked(Machine::default(), KICK), kicked(threaded(), KICK));
    let (small, huge) = (pages("always madvise [never]"), pages("[always] never"));
    vec![
        (polled, less(PARAM), through(), pays(THROUGH)),
        (polled, less(OWN), own_through(), pays(own(THROUGH))),
        (never, Does::GuestPollsLess, spinning(0.5), spinning(0.0)),
        (never, Does::Nothing, spinning(0.0), Bench::calm(1)),
        (hpet, vmm, pulsed(RESTING), pulsed(LOAD)),
        (devices, Does::SparesExits, alone, beside),
        (faults, vmm, small, huge),
        ("sched-ext", Does::Nothing, scx("enabled"), scx("disabled")),
        (hlt, Does::Nothing, amd("Y"), amd("N")),
        (hlt, vmm, amd("Y"), amd("N")),
    ]
}

fn about_timers_and_threads() -> Vec<Case> {
    let timers = |bench| told(bench, &[DEADLINE]);
    let late = |bench| timers(bench).param(ADVANCE, "N");
    let (deep, unknown, timer) = ("deep-idle-states", "unknown-exits", "timer-exits");
    let vmm = Does::SparesVmm;
    let threads = |share| polling("IO io1", share, RESTING);
    let (inside, waits) = (Does::HaltsInGuest, Does::WaitsForTimers);
    vec![
        (deep, vmm, resting(DEEP, 3), resting(DEEP, 1)),
        (unknown, vmm, returning(20_000), returning(9_000)),
        (timer, inside, timers(calm(LOAD)), timers(pressed(LOAD))),
        (timer, waits, late(calm(LOAD)), late(pressed(LOAD))),
        ("vmm-threads", vmm, threads(0.9), threads(0.1)),
    ]
}

fn all() -> Vec<Case> {
    let parts = [
        about_ceilings(),
        about_cpus(),
        about_vetoes(),
        about_sight(),
        about_clocks(),
        about_exits(),
        about_the_vmm(),
        about_timers_and_threads(),
    ];
    parts.into_iter().flatten().collect()
}

/// Kinds of the rules for a guest that recorded itself: `about_guests` has their cases.
const IN_GUEST: [(&str, Does); 4] = [
    ("guest-hlt-below-break-even", Does::GuestPolls),
    ("guest-failed-polls", Does::GuestPollsLess),
    ("guest-polls-stolen-time", Does::GuestPollsLess),
    ("guest-limit-stays", Does::GuestPollsLess),
];

/// Kinds that a rule may give.
pub(super) static KINDS: LazyLock<BTreeSet<(&str, Does)>> = LazyLock::new(|| {
    let cases = all().into_iter().map(|case| (case.0, case.1));
    cases.chain(IN_GUEST).collect()
});

#[test]
fn every_remedy_is_given_somewhere_and_elsewhere_must_not_be() {
    let cases = all();
    for (rule, does, given, not) in &cases {
        for (bench, is_given) in [(given, true), (not, false)] {
            let gives = bench.gives(rule).contains(does);
            assert_eq!(gives, is_given, "{rule}, {does:?}: {:?}", bench.explain());
        }
        let silent = not.withholds(rule).is_none();
        // These take no CPU time from other tasks.
        let guarded = !matches!(
            does,
            Does::SparesExits | Does::SparesVmm | Does::SparesCpus | Does::Nothing
        );
        let elsewhere = not.finding(rule).is_some() || not.lacks(rule).is_some();
        assert!(!guarded || !silent || elsewhere, "{rule}, {does:?}: silent");
    }
    let tried: BTreeSet<_> = cases.iter().map(|case| case.0).collect();
    let rules: BTreeSet<_> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(tried, rules, "each rule has its cases");
}

/// Not one for all: a price that fits every remedy says nothing.
#[test]
fn every_remedy_has_its_price_and_when_it_does_harm() {
    let mut prices: BTreeSet<&str> = BTreeSet::new();
    for (rule, does, given, _) in all() {
        let found = given.finding(rule).unwrap().found;
        for remedy in found.remedies.iter().filter(|it| it.does == does) {
            let (price, harm) = (remedy.terms.price, remedy.terms.harm);
            let is_sentence = |text: &str| text.len() > 5 && text.ends_with('.');
            assert!(is_sentence(price) && is_sentence(harm), "{rule}, {does:?}");
            assert_ne!(price, harm, "{rule}, {does:?}");
            assert!(!remedy.text.contains(price), "{rule}, {does:?}: said twice");
            prices.insert(price);
        }
    }
    assert!(prices.len() > 15, "{prices:#?}");
}

/// Three spinning VMs on two CPUs, and a guest whose vCPUs wake each other: 98 of 100 polls were preempted
/// there, and polling in the guest made it 2.0 to 2.3 times as slow.
#[test]
fn a_guest_is_not_told_to_poll_where_its_polls_are_preempted() {
    let ring = RING.window_ns(10_000).cut_each(1);
    let bench = alone(ring);
    assert!(bench.gives("ipi-storm").is_empty());
    let why = bench.withholds("ipi-storm").unwrap();
    let share = "100 % of the polls of these vCPUs were preempted";
    assert!(why.contains(share), "{why}");
    // Nor where only the host's pressure tells, or the CPUs have not enough to spare.
    assert!(pressed(RING).gives("ipi-storm").is_empty());
    let why = full(RING).withholds("ipi-storm").unwrap();
    assert!(why.contains("0 % was idle"), "{why}");
}

#[test]
fn evidence_that_is_missing_is_said_with_the_remedy() {
    let bench = alone(RING);
    let found = bench.finding("ipi-storm").unwrap().found;
    assert_eq!(found.sure, Sure::Possible);
    let text = &found.remedies[0].text;
    let missing = "Not if other tasks use these CPUs, which was not recorded.";
    assert!(text.ends_with(missing), "{text}");
}

#[test]
fn what_the_goal_does_not_want_is_not_advised() {
    let id = "hlt-below-break-even";
    let long = SHORT.gap_ns(29_000).latency_ns(30_000);
    let weighed = |load, weight| Bench {
        weight,
        ..calm(load)
    };
    assert!(!weighed(long, 1.0).gives(id).is_empty());
    assert!(weighed(long, 10.0).cost(id) > 9.0 * weighed(long, 1.0).cost(id));
    // For `density` latency is worth nothing: the finding costs nothing.
    assert!(weighed(long, 0.0).is_small(id));
    let ring = RING.gap_ns(60_000);
    let why = weighed(ring, 1.0).withholds("ipi-storm").unwrap();
    assert!(why.starts_with("by the goal it costs"), "{why}");
    assert!(!weighed(ring, 10.0).gives("ipi-storm").is_empty());
}

#[test]
fn no_finding_contradicts_tune() {
    let knobs = |halt_poll_ns| Knobs::of([halt_poll_ns, 2, 10_000, 2]);
    let advised = |load, from, to| Bench {
        advised: Advised::change(&knobs(from), &knobs(to)),
        ..calm(load)
    };
    let id = "hlt-below-break-even";
    let found = advised(SHORT, 0, 50_000).finding(id).unwrap().found;
    let text = "`haltwise apply --set halt_poll_ns=50000`, as tune recommends.";
    assert_eq!(found.remedies[0].text, text);
    let why = advised(SHORT, 20_000, 0).withholds(id).unwrap();
    let instead = "tune recommends halt_poll_ns=0 instead of 20000";
    assert!(why.contains(instead), "{why}");
    let mut leave = calm(SHORT);
    leave.advised = Advised::Leave;
    assert!(leave.gives(id).is_empty() && leave.withholds(id).is_some());
    // A ceiling of the VM's own is not what tune recommends for the host.
    assert!(!advised(own(SHORT), 20_000, 0).gives(id).is_empty());
}
