//! Inputs for the replay of the other setting, by the way in which that setting is put in force.

use super::*;

const IN_FORCE: Knobs = Knobs::of([200_000, 2, 10_000, 2]);

const WANTED: Knobs = Knobs::of([50_000, 2, 10_000, 0]);

impl Sides {
    pub(in crate::prove) fn made_up(side: Side, in_force: Values, values: [Values; 2]) -> Self {
        Self {
            side,
            in_force,
            values,
            assumed: Vec::new(),
            version: Version::new(6, 12),
            arch: Arch::X86,
            scopes: Scopes::default(),
            starts_vms: false,
        }
    }
}

fn halt(ceiling_ns: u32, ceiling_source: CeilingSource) -> Halt {
    Halt {
        ceiling_ns: Some(ceiling_ns),
        ceiling_source,
        ..Halt::default()
    }
}

#[test]
fn a_replay_plays_what_would_have_been_in_force() {
    let host = Sides::made_up(
        Side::Host,
        IN_FORCE.into(),
        [IN_FORCE, WANTED].map(Into::into),
    );
    let command = Sides {
        starts_vms: true,
        ..host.clone()
    };
    let by_param = halt(200_000, CeilingSource::Param);
    let by_cap = halt(30_000, CeilingSource::Cap);
    let fixed = halt(30_000, CeilingSource::Snapshot);
    // The command gives every VM its ceiling, and growth follows the host's parameters.
    for halt in [&by_param, &by_cap, &fixed] {
        assert_eq!(command.replayed(true, halt, None), (IN_FORCE, 50_000));
    }
    // A parameter of the host does not reach a VM with a ceiling of its own.
    for (halt, is_b, played) in [
        (&by_param, true, (WANTED, 50_000)),
        (&by_cap, true, (WANTED, 30_000)),
        (&fixed, true, (WANTED, 30_000)),
        (&by_cap, false, (IN_FORCE, 30_000)),
    ] {
        assert_eq!(host.replayed(is_b, halt, None), played);
    }
}
