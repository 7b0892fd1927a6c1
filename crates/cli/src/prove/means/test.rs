//! What a replay is told of the other setting, by the way in which it is put in force.

use super::*;

const IN_FORCE: Knobs = Knobs {
    halt_poll_ns: 200_000,
    grow: 2,
    grow_start: 10_000,
    shrink: 2,
};

const WANTED: Knobs = Knobs {
    halt_poll_ns: 50_000,
    grow: 2,
    grow_start: 10_000,
    shrink: 0,
};

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
        in_force: IN_FORCE,
        assumed: Vec::new(),
        a: IN_FORCE,
        b: WANTED,
        version: Version::new(6, 12),
        arch: Arch::X86,
        scopes: Scopes::default(),
    };
    let (command, host) = (Means::Command(Vec::new()), Means::InForce(Vec::new()));
    let by_param = halt(200_000, CeilingSource::Param);
    let by_cap = halt(30_000, CeilingSource::Cap);
    let fixed = halt(30_000, CeilingSource::Snapshot);
    // The command gives every VM its ceiling, and growth follows the host's parameters.
    for halt in [&by_param, &by_cap, &fixed] {
        assert_eq!(
            command.replayed(&sides, true, halt, None),
            (IN_FORCE, 50_000)
        );
    }
    // A parameter of the host does not reach a VM with a ceiling of its own.
    assert_eq!(
        host.replayed(&sides, true, &by_param, None),
        (WANTED, 50_000)
    );
    assert_eq!(host.replayed(&sides, true, &by_cap, None), (WANTED, 30_000));
    assert_eq!(host.replayed(&sides, true, &fixed, None), (WANTED, 30_000));
    assert_eq!(
        host.replayed(&sides, false, &by_cap, None),
        (IN_FORCE, 30_000)
    );
}
