//! Inputs for the replay of the other setting, by the way in which that setting is put in force.

use haltwise_core::kvm::{Arch, Version};
use haltwise_core::parameter::Values;
use haltwise_core::recording::Side;

use super::*;
use crate::prove::scopes::Scopes;

const IN_FORCE: Knobs = Knobs::of([200_000, 2, 10_000, 2]);

const WANTED: Knobs = Knobs::of([50_000, 2, 10_000, 0]);

fn halt(ceiling_ns: u32, ceiling_source: CeilingSource) -> Halt {
    Halt {
        ceiling_ns: Some(ceiling_ns),
        ceiling_source,
        ..Halt::default()
    }
}

#[test]
fn a_replay_plays_what_would_have_been_in_force() {
    let sides = Sides {
        side: Side::Host,
        values: [IN_FORCE, IN_FORCE, WANTED].map(Values::from),
        assumed: Vec::new(),
        version: Version::new(6, 12),
        arch: Arch::X86,
        scopes: Scopes::default(),
    };
    let host = Means::default();
    let command = Means {
        starts_vms: true,
        ..Means::default()
    };
    let by_param = halt(200_000, CeilingSource::Param);
    let by_cap = halt(30_000, CeilingSource::Cap);
    let fixed = halt(30_000, CeilingSource::Snapshot);
    // The command gives every VM its ceiling, and growth follows the host's parameters.
    for halt in [&by_param, &by_cap, &fixed] {
        assert_eq!(
            command.replayed(&sides, true, halt, None),
            Some((IN_FORCE, 50_000))
        );
    }
    // A parameter of the host does not reach a VM with a ceiling of its own.
    for (halt, is_b, played) in [
        (&by_param, true, (WANTED, 50_000)),
        (&by_cap, true, (WANTED, 30_000)),
        (&fixed, true, (WANTED, 30_000)),
        (&by_cap, false, (IN_FORCE, 30_000)),
    ] {
        assert_eq!(host.replayed(&sides, is_b, halt, None), Some(played));
    }
}
