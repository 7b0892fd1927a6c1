//! Rules that the halt account alone allows.

use super::guards::{LOCKED, LONG, SHORT, beside, capped, own};
use super::*;
use crate::vmm::VcpuTime;

#[test]
fn halts_shorter_than_a_wake_up_and_slept_through() {
    let id = "hlt-below-break-even";
    let bench = calm(SHORT);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    // 1000 halts a second that wait 30 us.
    assert!((bench.cost(id) / 30e6 - 1.0).abs() < 0.125);
    let silent = |load| assert_eq!(calm(load).says(id), None);
    let capped = |ceiling_ns| SHORT.ceiling_ns(ceiling_ns);
    let says = |load| calm(load).says(id);
    assert_eq!(says(capped(55_000)), Some(Sure::Likely), "below 2 x 30 us");
    assert_eq!(says(capped(200_000)), Some(Sure::Possible));
    let waits_for_cpu = SHORT.latency_ns(300_000);
    assert_eq!(says(waits_for_cpu), None);
    let pressed = alone(SHORT).pressure(0.5);
    assert_eq!(pressed.says(id), None);
    assert!(pressed.lacks(id).unwrap().contains("50 %"));
    // Gaps longer than the wake-up; the same caught by a poll; too few; locked out.
    silent(SHORT.gap_ns(60_000));
    silent(SHORT.ceiling_ns(200_000).window_ns(50_000));
    let few = calm(Load { count: 99, ..SHORT });
    assert_eq!(few.says(id), None);
    assert!(few.lacks(id).unwrap().contains("too few"));
    silent(SHORT.ceiling_ns(40_000));
}

#[test]
fn gaps_within_the_ceiling_and_halts_beyond_it() {
    let id = "lock-out";
    let locked = own(LOCKED);
    let bench = calm(locked);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    let found = bench.finding(id).unwrap().found;
    let remedy = &found.remedies[0].text;
    assert!(remedy.contains("KVM_CAP_HALT_POLL"), "{remedy}");
    let stays = bench.param("halt_poll_ns_grow", "0");
    assert_eq!(stays.says(id), None, "no ceiling would help");
    let wide = locked.ceiling_ns(60_000);
    assert_eq!(calm(wide).says(id), None);
    let long = locked.gap_ns(55_000);
    assert_eq!(calm(long).says(id), None);
}

#[test]
fn a_ceiling_above_a_millisecond() {
    let id = "ceiling-above-1ms";
    let at = |ns: &str| Bench::calm(1).param("halt_poll_ns", ns);
    assert_eq!(at("1000000").load(LONG).says(id), None);
    let bench = at("4000000").load(LONG);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    // 100 polls a second, 2 ms of each beyond the first.
    let cost = bench.cost(id);
    assert!((cost / 200e6 - 1.0).abs() < 0.2, "{cost}");
    // A ceiling that no vCPU polls under costs nothing, and is counted only.
    assert!(at("4000000").load(LOAD).is_small(id));
    assert!(at("4000000").is_small(id), "no halt was seen");
    assert_eq!(at("4000000").says(id), None);
    // Polls under a ceiling of the VM's own are not those of the parameter.
    let other = at("4000000").load(own(LONG));
    assert_eq!(other.says(id), None);
    let found = other.vcpu(capped).finding(id).unwrap().found;
    assert_eq!(found.who.vm, Some(VmIndex(0)), "not every VM of the host");
}

#[test]
fn a_shrink_of_zero_under_bursts() {
    let id = "shrink-0-on-bursts";
    let bursts = |shrink| {
        let bench = calm(LOAD).param("halt_poll_ns_shrink", shrink);
        bench.window(false, 200).window(true, 1_000)
    };
    assert_eq!(bursts("0").says(id), Some(Sure::Likely));
    assert_eq!(bursts("2").says(id), None);
    let steady = calm(LOAD).param("halt_poll_ns_shrink", "0");
    assert_eq!(steady.window(false, 10).window(true, 60).says(id), None);
    let unknown = calm(LOAD);
    assert!(unknown.lacks(id).is_some());
}

#[test]
fn vcpus_on_cpus_that_others_want() {
    let id = "over-committed-polling";
    let polls = LOAD.window_ns(50_000);
    let cut = polls.cut_each(2);
    let bench = |load, pressure| alone(load).pressure(pressure);
    assert_eq!(bench(cut, 0.5).says(id), Some(Sure::Certain));
    assert_eq!(bench(cut, 0.0).says(id), Some(Sure::Likely));
    // Its own polls show that no other task wants the CPUs that it runs on.
    assert_eq!(bench(polls, 0.5).says(id), None);
    assert_eq!(bench(polls, 0.1).says(id), None);
    // Where it does not poll the host's pressure tells, and what it costs is that wake-ups wait.
    let waits =
        |bench: Bench| bench.load(LOAD.latency_ns(900_000).period_ns(10_000_000).count(1_000));
    assert_eq!(waits(bench(LOAD, 0.5)).says(id), Some(Sure::Likely));
    let at_once = bench(LOAD, 0.5);
    assert!(at_once.is_small(id), "none waited longer than the others");
    let untold = alone(LOAD);
    assert!(untold.lacks(id).is_some(), "{:?}", untold.explain());
    let cause = |latency_ns, real_time| {
        let time = VcpuTime {
            real_time,
            ..VcpuTime::default()
        };
        let bench = bench(cut.latency_ns(latency_ns), 0.5).vcpu(|vcpu| vcpu.time = Some(time));
        bench.finding(id).unwrap().found.cause
    };
    for real_time in [None, Some(false)] {
        assert!(cause(8_000, real_time).contains("95 % of them run within 7.98 us"));
    }
    assert!(cause(900_000, Some(false)).contains("a woken vCPU waits for a CPU"));
    // Whatever else is runnable, they run at once: their latency has another reason.
    assert!(cause(900_000, Some(true)).contains("A woken vCPU waits for none of them"));
}

#[test]
fn polling_beside_a_busy_sibling() {
    let id = "polling-beside-busy-sibling";
    let half = Some(5 * SECOND);
    let found = beside(0, half).finding(id).unwrap().found;
    assert_eq!((found.sure, found.cost), (Sure::Possible, None));
    let says = "0.6 % of a CPU where the sibling was busy, for up to 50 % of the time: on CPU 1.";
    assert!(found.signature.contains(says), "{}", found.signature);
    assert_eq!(beside(0, Some(SECOND)).says(id), None, "an idle sibling");
    assert_eq!(beside(1, half).says(id), None, "no sibling");
    assert!(calm(LOAD).lacks(id).is_some());
}

/// Nothing follows from one preempted poll, or from ninety-nine.
#[test]
fn a_few_preempted_polls_say_nothing() {
    let id = "over-committed-polling";
    let polls = LOAD.window_ns(50_000).cut_each(1).latency_ns(30_000_000);
    let polls = |count| polls.count(count);
    for count in [1, 99] {
        let bench = calm(polls(count));
        assert_eq!(bench.says(id), None, "{count}");
        assert!(!bench.is_small(id), "{count}");
    }
    assert_eq!(calm(polls(200)).says(id), Some(Sure::Likely));
    // 22 of 100 may be 15 by chance, 220 of 1000 are more than a fifth but for one in forty times.
    let shares = |cut, all| {
        let part = |count, cut_each| polls(count).cut_each(cut_each);
        calm(part(cut, 1)).load(part(all - cut, 0))
    };
    assert_eq!(shares(22, 100).says(id), None);
    assert_eq!(shares(250, 1_000).says(id), Some(Sure::Likely));
}

#[test]
fn a_guest_that_disabled_host_polling() {
    let id = "guest-veto";
    let mut bench = Bench::calm(2).load(LOAD);
    assert_eq!(bench.says(id), None);
    bench.roster.vcpus[1].guest_veto = Some(true);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    let vcpus = bench.roster.vcpus.iter_mut();
    vcpus.for_each(|vcpu| vcpu.guest_veto = None);
    assert_eq!(bench.says(id), None);
    assert!(bench.lacks(id).is_some());
}

/// The driver haltpoll under the governor menu: the host must not poll, and the guest does not.
#[test]
fn a_guest_for_which_nobody_polls() {
    let vetoed = |gap_ns| {
        let bench = calm(LOAD.gap_ns(gap_ns)).vcpu(|vcpu| vcpu.guest_veto = Some(true));
        bench.finding("guest-veto").unwrap().found
    };
    let found = vetoed(20_000);
    assert_eq!(found.sure, Sure::Likely);
    assert!(found.cause.contains("Neither host nor guest polls"));
    assert!(found.cost.unwrap().latency_ns_per_s > 25e6);
    let text = &found.remedies[0].text;
    assert!(text.contains("built in"), "{text}");
    let polls = vetoed(400_000);
    assert!(polls.cost.is_none() && polls.remedies[0].text.starts_with("Nothing"));
}

#[test]
fn halts_that_stay_inside_the_guest() {
    let id = "halts-not-observable";
    // As tracepoints record, which do not read a vCPU's structures.
    let unread = || Bench::new(1).vcpu(|vcpu| vcpu.guest_veto = None);
    let pressed = || unread().pressure(0.5);
    let mut bench = pressed();
    assert_eq!(bench.says(id), Some(Sure::Possible));
    let read = Bench::new(1).pressure(0.5);
    assert_eq!(read.says(id), None, "exits on HLT were seen to be enabled");
    bench.roster.vms[0].observable = Observable::No("exits on HLT are disabled".into());
    assert_eq!(bench.says(id), Some(Sure::Certain));
    let one = Load { count: 1, ..LOAD };
    assert_eq!(pressed().load(one).says(id), None);
    let paused = |of: Paused| pressed().vm(|vm| vm.paused = Some(of));
    let ran = paused(Paused::default());
    assert_eq!(ran.says(id), Some(Sure::Possible), "it ran");
    let (over_ns, from_ns) = (0, Some(0));
    let told = paused(Paused { over_ns, from_ns }).explain();
    assert!(told.findings.iter().all(|it| it.rule.id != id));
    assert!(told.blind.iter().all(|it| it.rule.id != id));
    // A second of ten in exits: the guest does not rest.
    let busy = |each_ns| {
        let exits = (Kind::Exit, 30, None, 100_000, each_ns);
        pressed().exits(&[], &[exits]).says(id)
    };
    assert_eq!((busy(8_000), busy(12_000)), (Some(Sure::Possible), None));
    let short = unread().explain_in(SECOND - 1);
    assert!(short.findings.is_empty());
    assert!(short.blind.iter().any(|it| it.rule.id == id));
}

#[test]
fn a_tick_on_an_idle_vcpu() {
    let id = "tick-storm";
    // 64 wake-ups a second that take 15 us of CPU each are a thousandth of it.
    assert!(alone(tick(64)).is_small(id));
    for hz in [250, 1000, 1024, 2048] {
        assert_eq!(alone(tick(hz)).says(id), Some(Sure::Likely), "{hz}");
    }
    let cause = |hz| alone(tick(hz)).explain().findings[0].found.cause.clone();
    assert!(cause(1024).contains("1024 Hz"), "{}", cause(1024));
    assert!(cause(1000).contains("1 ms"), "{}", cause(1000));
    let silent = |load, why| assert_eq!(alone(load).says(id), None, "{why}");
    // A busy host loses one tick of twenty.
    let lost = tick(1000).count(9_500).period_ns(10 * SECOND / 9_500);
    assert_eq!(alone(lost).says(id), Some(Sure::Possible));
    silent(tick(700), "no known rate");
    let device = WakeSource::Device;
    silent(tick(250).wake(device), "no timer");
    let busy = tick(1000).gap_ns(100_000);
    silent(busy, "the vCPU works most of the time");
    for (hz, every, gaps_ns, why) in [
        (250, 2, [1_500_000, 3_900_000], "gaps vary"),
        (2048, 16, [4_000_000, 190_000], "a rate without its period"),
    ] {
        let mut uneven = Bench::new(1);
        for nth in 0..10 * hz {
            let load = tick(hz).gap_ns(gaps_ns[usize::from(nth % every != 0)]);
            uneven.ledger.halt(&load.halt(nth));
        }
        assert_eq!(uneven.says(id), None, "{why}");
    }
}

#[test]
fn vcpus_that_wake_each_other() {
    let id = "ipi-storm";
    let storm = |vcpu| LOAD.vcpu(vcpu).gap_ns(20_000).wake(WakeSource::Ipi);
    let two = |change: fn(Load) -> Load| {
        Bench::calm(2)
            .load(change(storm(0)))
            .load(change(storm(1)))
            .says(id)
    };
    assert_eq!(two(|load| load), Some(Sure::Likely));
    assert_eq!(two(|load| load.count(2_000)), None, "too slow");
    let long = two(|load| load.gap_ns(700_000));
    assert_eq!(long, None, "beyond the reach of guest polling");
    let by_timers = two(|load| load.wake(WakeSource::Timer));
    assert_eq!(by_timers, None, "woken by timers");
    let mut polls = Bench::calm(2).load(storm(0)).load(storm(1));
    let vcpus = polls.roster.vcpus.iter_mut();
    vcpus.for_each(|vcpu| vcpu.guest_veto = Some(true));
    assert_eq!(polls.says(id), None, "the guest polls already");
}

#[test]
fn what_was_not_told_is_not_judged() {
    let mut bench = Bench::new(1);
    for nth in 0..1_000 {
        bench.ledger.halt(&Halt {
            poll_ns: None,
            window_ns: None,
            ceiling_ns: None,
            wake: WakeSource::Unknown,
            ..LOAD.halt(nth)
        });
    }
    let ids = "hlt-below-break-even lock-out over-committed-polling tick-storm ipi-storm";
    for id in ids.split(' ') {
        assert_eq!(bench.says(id), None);
        assert!(bench.lacks(id).is_some(), "{id}");
    }
}
