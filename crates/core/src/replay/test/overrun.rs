//! Polls that are met after their window.

use super::*;
use crate::kvm::{Observed, Rule};
use crate::replay::overrun::{Overrun, Overruns};

/// An interrupt that the polling CPU handles takes so long.
const HANDLER_NS: u64 = 11 * US;

/// Halts under KVM's rule and a ceiling, with timers that are due `gaps` after each halt begins. Whether a poll meets a
/// timer is decided when the timer's interrupt begins, and the gap ends with the handler.
fn recorded(ceiling_ns: u32, gaps: impl IntoIterator<Item = u64>) -> Vec<Halt> {
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let rule = Rule::of(setting.version, setting.arch);
    let (mut now_ns, mut window_ns) = (1_000_000, 0);
    let halt = |gap_ns: u64| {
        let waited = gap_ns > u64::from(window_ns);
        let latency_ns = if waited { 30 * US } else { 0 };
        let poll_ns = if waited {
            window_ns.into()
        } else {
            gap_ns + HANDLER_NS
        };
        let halt = Halt {
            halt_ns: gap_ns + HANDLER_NS + latency_ns,
            waited,
            poll_ns: Some(poll_ns),
            wake_latency_ns: Some(latency_ns),
            wake: WakeSource::Timer,
            ..Halt::under(window_ns, now_ns, 0, 0)
        };
        let observed = Observed::valid(halt.halt_ns);
        let next = rule.after(&setting.knobs, ceiling_ns, window_ns, observed);
        window_ns = rule.entry(next.window, ceiling_ns);
        now_ns = halt.end_ns() + 5 * US;
        halt
    };
    gaps.into_iter().map(halt).collect()
}

fn drawn(seed: u64) -> impl Iterator<Item = u64> {
    let mut draw = SplitMix64(seed);
    (0..4_000).map(move |_| draw.below(60 * US) + 1)
}

/// A survey to which another VM has shown the overrun.
pub(super) fn shown() -> Survey {
    let mut halts = recorded(50_000, drawn(3));
    for halt in &mut halts {
        halt.vm = Some(VmIndex(1));
    }
    let survey = survey_of(&halts);
    let table = survey.table_of(VcpuKey::of(&halts[0]), None).unwrap();
    let overrun_ns = u64::from(table.overrun(WakeSource::Timer).polling_ns);
    let is_near = (8 * US..=HANDLER_NS + 500).contains(&overrun_ns);
    assert!(is_near, "{overrun_ns}");
    survey
}

/// The polls of a guest say nothing of KVM's.
#[test]
fn halts_of_a_guest_show_no_overrun() {
    use crate::recording::Side;
    let of = |side| {
        let mut survey = Survey::of(side);
        for halt in recorded(50_000, drawn(3)) {
            survey.halt(&halt);
        }
        survey.overruns().of(WakeSource::Timer)
    };
    assert_eq!(of(Side::Guest), Overrun::default());
    assert!(of(Side::Host).polling_ns > 0);
}

/// Halts of 13 us, 11 of them in the handler, are met by a window of 10 us.
#[test]
fn gaps_within_the_overrun_do_not_lock_polling_out() {
    let halts = recorded(200_000, vec![2 * US; 4_000]);
    let met = |survey| {
        let mut plan = plan(&["kvm:max=50us,grow=1", "off"]);
        plan.arrivals = Arrivals::FixedGap;
        let played = replay_after(survey, plan, &halts).played.into_iter();
        let met = played.map(|of| of.from_zero.successful_polls);
        met.collect::<Vec<_>>()
    };
    assert_eq!(met(shown()), [3_999, 0]);
    assert_eq!(met(Survey::default()), [0, 0], "nothing shows it");
}

proptest! {
    /// With the right overrun, a replay under the setting that was recorded gives what was recorded.
    #[test]
    fn what_was_recorded_under_a_setting_is_what_its_replay_gives(seed: u64, ceiling_us in 10..200_u32) {
        let halts = recorded(ceiling_us * 1_000, drawn(seed));
        let mut measured = Latencies::default();
        measured.add(20 * US, 30 * US);
        let table = latency::Table::of_price(&measured).unwrap();
        let table = table.with_overruns(Overruns::of_each(|_| Overrun { polling_ns: 11_000, unpolled_ns: 0 }));
        let plan = plan(&[&format!("kvm:max={ceiling_us}us")]);
        let frame = run::Frame { table: &table, cost: plan.cost, follow: Survey::default().follow(VcpuKey::of(&halts[0]), Arrivals::FixedGap) };
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
        let mut run = run::Run::new(plan.specs[0].build(&setting).unwrap());
        let mut recorded = Outcome::default();
        for (turn, halt) in (0..).zip(&halts) {
            let sample = Sample::new(halt, &table, turn);
            recorded.add_recorded(halt, &sample, crate::recording::Side::Host);
            run.step(&sample, &frame);
        }
        let figures = |of: &Outcome| (of.polls, of.successful_polls, of.blocks, of.poll_ns, of.poll_fail_ns, of.latency_ns, of.halt_ns);
        prop_assert_eq!(figures(run.outcome()), figures(&recorded));
    }

    /// A policy that sees the future costs the least.
    #[test]
    fn the_clairvoyant_knows_of_overruns(halts in any_halts(), arrivals in any_arrivals(), weight in 0..20_000_u64) {
        let cost = Cost { switch_cpu_ns: 10 * US, latency_weight_milli: weight, ..Cost::FREE };
        let plan = Plan { cost, arrivals, ..plan(&["clairvoyant"]) };
        let halts: Vec<Halt> = halts.into_iter().map(|halt| Halt { poll_cut: None, ..halt }).collect();
        let future = replay_after(shown(), plan, &halts).played.remove(0).from_zero;
        prop_assert_eq!(future.milli(&cost), future.clairvoyant_milli);
    }
}
