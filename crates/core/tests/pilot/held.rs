//! The data that the pilot holds in memory does not grow: three days of 25 VMs, hour by hour.

use std::fmt::{self, Write as _};

use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::pilot::evidence::Evidence as _;
use haltwise_core::pilot::input::Ceiling;
use haltwise_core::pilot::replayed::{Replayed, Stretch};
use haltwise_core::replay::latency::Latencies;
use haltwise_core::workload::SplitMix64;

use super::host::{FOUND_NS, Host, SECOND, STEP};
use super::model::{Load, Modelled};

const VMS: usize = 25;
const DAY: usize = 24;
const HOURS: usize = 3 * DAY;
const STEPS: u64 = 3_600 * SECOND / STEP;

/// Counts the values in what is printed for debugging, which is all that a value holds.
#[derive(Default)]
struct Values(usize);

impl fmt::Write for Values {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.matches(',').count();
        Ok(())
    }
}

fn values(of: &impl fmt::Debug) -> usize {
    let mut values = Values::default();
    write!(values, "{of:?}").unwrap();
    values.0
}

/// Loads stay for ten minutes or so; each hour a VM goes and another comes.
fn hour(host: &mut Host, draw: &mut SplitMix64) {
    let place = usize::try_from(draw.below(VMS as u64)).unwrap();
    host.goes(host.vms[place].key);
    host.comes(Load::draw(draw), Ceiling::Follows);
    for _ in 0..STEPS {
        for vm in &mut host.vms {
            if draw.below(60) == 0 {
                vm.load = Load::draw(draw);
            }
        }
        host.pass(1);
    }
}

#[test]
fn what_it_holds_of_vms_that_come_and_go_does_not_grow() {
    let mut draw = SplitMix64(1);
    let mut host = Host::with(Modelled::wrong_by(0.1, 1));
    host.is_full = true;
    for _ in 0..VMS {
        host.comes(Load::draw(&mut draw), Ceiling::Follows);
    }
    let mut held = Vec::new();
    for at in 0..HOURS {
        hour(&mut host, &mut draw);
        let standing = host.pilot.standing();
        let kept = serde_json::to_string(&host.pilot.memory()).unwrap().len();
        let of = [values(&host.pilot), kept, standing.halts_held];
        println!(
            "{:>2} h: {:>6} values, {:>6} bytes kept on disk, {:>6} halts",
            at + 1,
            of[0],
            of[1],
            of[2]
        );
        assert!(standing.halts_held <= 131_072, "{of:?}");
        assert_eq!(standing.vms.len(), VMS);
        held.push(of);
    }
    for what in [0, 1] {
        let mut first: Vec<usize> = held[..DAY].iter().map(|hour| hour[what]).collect();
        let mut last: Vec<usize> = held[HOURS - DAY..].iter().map(|hour| hour[what]).collect();
        first.sort_unstable();
        last.sort_unstable();
        // Medians: a trial more or less may be under way. What was proven and when there were changes fills up to its
        // bound over the first day; a value in each step were 8,640 a day.
        let (then, before) = (last[DAY / 2], first[DAY / 2]);
        assert!(then <= before + before / 4, "{then} after {before}");
    }
    assert!(host.pilot.standing().decided.len() > 3, "it was at work");
}

/// Wake-up latencies of all VMs that ever were are a sample of them.
#[test]
fn what_replays_have_learnt_does_not_grow() {
    let kernel = (Version::new(6, 12), Arch::X86);
    let mut replayed = Replayed::new(kernel, None, Latencies::default(), 1);
    let mut draw = SplitMix64(1);
    let mut learn = |replayed: &mut Replayed, looks: u32| {
        for _ in 0..looks {
            let halts = (0..64).map(|_| halt(&mut draw)).collect();
            replayed.learn(&Stretch {
                began_ns: 0,
                span_ns: 3 * SECOND,
                halts,
            });
        }
        values(replayed)
    };
    let early = learn(&mut replayed, 2_000);
    let late = learn(&mut replayed, 20_000);
    println!("{early} values after 2,000 looks, {late} after 22,000");
    assert!(late <= early, "{late} after {early}");
}

/// One that slept, for up to seconds.
fn halt(draw: &mut SplitMix64) -> Halt {
    let wake_latency_ns = 1_000 + draw.below(100_000);
    let slept_ns = 1 << draw.below(32);
    Halt {
        halt_ns: slept_ns + wake_latency_ns,
        waited: true,
        valid: true,
        wake_latency_ns: Some(wake_latency_ns),
        poll_ns: Some(0),
        polled: Some(false),
        window_ns: Some(0),
        ceiling_ns: Some(FOUND_NS),
        ceiling_source: CeilingSource::Param,
        ..Halt::default()
    }
}
