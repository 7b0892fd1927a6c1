//! The data that the pilot holds in memory does not grow: three days of 25 VMs, hour by hour.

use std::fmt::Debug;

use haltwise_core::pilot::input::Ceiling;
use haltwise_core::workload::SplitMix64;

use super::law::HOUR;
use super::model::{Load, Modelled};
use super::world::{STEP, World};

const VMS: usize = 25;
const DAY: usize = 24;
const HOURS: usize = 3 * DAY;
const STEPS: u64 = HOUR / STEP;

/// The values in what is printed for debugging, which is all that a value holds.
fn values(of: &impl Debug) -> usize {
    format!("{of:?}").matches(',').count()
}

/// Loads stay for ten minutes or so; each hour a VM goes and another comes.
fn hour(world: &mut World, draw: &mut SplitMix64) {
    let place = usize::try_from(draw.below(VMS as u64)).unwrap();
    world.goes(world.vms[place].key);
    world.comes(Load::draw(draw), Ceiling::Follows);
    for _ in 0..STEPS {
        for vm in &mut world.vms {
            if draw.below(60) == 0 {
                vm.load = Load::draw(draw);
            }
        }
        world.pass(1);
    }
}

#[test]
fn what_it_holds_of_vms_that_come_and_go_does_not_grow() {
    let mut draw = SplitMix64(1);
    let mut world = World::with(Modelled::wrong_by(0.1, 1));
    world.is_full = true;
    for _ in 0..VMS {
        world.comes(Load::draw(&mut draw), Ceiling::Follows);
    }
    let mut held = Vec::new();
    for _ in 0..HOURS {
        hour(&mut world, &mut draw);
        let standing = world.pilot.standing();
        let kept = serde_json::to_string(&world.pilot.memory()).unwrap().len();
        let of = [values(&world.pilot), kept, standing.halts_held];
        println!("{of:?} values, bytes kept on disk, and halts");
        assert!(standing.halts_held <= 131_072, "{of:?}");
        assert_eq!(standing.vms.len(), VMS);
        held.push(of);
    }
    for what in [0, 1] {
        // Medians: a trial more or less may be under way. What was proven and when there were changes fills up to its
        // bound over the first day; a value in each step were 8,640 a day.
        let median = |day: &[[usize; 3]]| {
            let mut hours: Vec<usize> = day.iter().map(|hour| hour[what]).collect();
            hours.sort_unstable();
            hours[DAY / 2]
        };
        let (before, then) = (median(&held[..DAY]), median(&held[HOURS - DAY..]));
        assert!(then <= before + before / 4, "{then} after {before}");
    }
    assert!(world.pilot.standing().decided.len() > 3, "it was at work");
}
