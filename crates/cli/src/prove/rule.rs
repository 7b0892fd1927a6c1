//! Which rule the running kernel has: that of its number, until halts show that it carries changes of later
//! kernels. Recordings keep what they found ([`crate::reading::rule`]); a proof finds it in its own blocks.

use std::collections::BTreeSet;

use haltwise_core::event::Halt;
use haltwise_core::kvm::{Arch, Backports, Knobs, Rule, Version};
use haltwise_core::recording::Rung;
use haltwise_core::verify::carried::Trial;
use haltwise_core::verify::loss::Losses;
use haltwise_core::verify::settings::Settings;
use haltwise_core::verify::{Setup, Sight};

/// Backports of this kernel, as shown by the halts of a block that was recorded under these parameters; `None`
/// where nothing indicates any change, or where the backports are known already.
pub(super) fn carried(
    (version, arch): (Version, Arch),
    knobs: Knobs,
    rung: Rung,
    halts: &[Halt],
) -> Option<Backports> {
    let setup = Setup {
        rule: Rule::of(version, arch),
        arch,
        sight: match rung {
            Rung::Bpf => Sight::Vcpu,
            Rung::Tracepoints | Rung::Cpuidle | Rung::Import => Sight::Calls,
        },
        settings: Settings::fixed(knobs),
        cap: None,
        losses: Losses::default(),
        vetoed: BTreeSet::new(),
    };
    let mut trial = Trial::new(&setup).filter(|_| version.backports.is_empty())?;
    for halt in halts {
        trial.halt(halt, None);
    }
    Some(trial.finish().backports).filter(|found| !found.is_empty())
}

#[cfg(test)]
mod test {
    use haltwise_core::event::CeilingSource;
    use haltwise_core::ids::{Tid, VcpuId, VmIndex};
    use haltwise_core::kvm::{Backport, Observed};

    use super::*;

    const KNOBS: Knobs = Knobs {
        halt_poll_ns: 200_000,
        grow: 2,
        grow_start: 10_000,
        shrink: 2,
    };
    const X86: Arch = Arch::X86;

    fn halts(version: Version, lengths: &[u64]) -> Vec<Halt> {
        let rule = Rule::of(version, X86);
        let (mut now, mut window) = (1_000, 0);
        let halt = |&halt_ns: &u64| {
            let entry = rule.entry(window, KNOBS.halt_poll_ns);
            let observed = Observed {
                halt_ns,
                valid: true,
                allowed: true,
            };
            let step = rule.after(&KNOBS, KNOBS.halt_poll_ns, entry, observed);
            let start_ns = now;
            now += halt_ns + 500;
            window = step.window;
            Halt {
                start_ns,
                halt_ns,
                vm: Some(VmIndex(0)),
                vcpu: Some(VcpuId(0)),
                tid: Tid(7),
                valid: true,
                window_ns: Some(entry),
                window_next_ns: Some(step.window),
                ceiling_ns: Some(KNOBS.halt_poll_ns),
                ceiling_source: CeilingSource::Param,
                change: step.call.into(),
                poll_ns: Some(halt_ns.min(entry.into())),
                ..Halt::default()
            }
        };
        lengths.iter().map(halt).collect()
    }

    #[test]
    fn a_block_shows_what_its_kernel_carries() {
        let plain = Version::new(5, 10);
        let floor = Backports::NONE.with(Backport::ShrinkFloor);
        let lengths = [50_000, 50_000, 300_000, 300_000, 50_000];
        let found = |recorded, number| {
            let halts = halts(recorded, &lengths);
            carried((number, X86), KNOBS, Rung::Bpf, &halts)
        };
        assert_eq!(found(plain.with(floor), plain), Some(floor));
        assert_eq!(found(plain, plain), None);
        // Known already, or nothing left to carry.
        assert_eq!(found(plain.with(floor), plain.with(floor)), None);
        let latest = Version::new(6, 12);
        assert_eq!(found(latest, latest), None);
    }
}
