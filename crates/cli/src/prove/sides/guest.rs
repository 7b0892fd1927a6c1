//! The governor of the guest that this machine is, and what can be measured of it.

use anyhow::anyhow;
use haltwise_core::kvm::Version;
use haltwise_core::kvm::guest::{Params, Rule};
use haltwise_core::parameter::Values;
use haltwise_core::prove::setting::GivenSetting;
use haltwise_host::root::Root;
use haltwise_host::{clock, params};

use crate::exit::{Exit, Failure};
use crate::prove::ProofRequest;
use crate::prove::command;

/// Reads what is in force, and what A and B come to. Settings that cannot be put in force are refused. Where another
/// governor is in force, or none, nothing polls.
pub(super) fn read(
    [a, b]: &[GivenSetting; 2],
    version: Version,
    root: &Root,
) -> Result<[Params; 3], Failure> {
    if Rule::of(version).is_none() {
        let error = anyhow!("measure haltpoll: Linux {version} has no such governor");
        return Err(Failure::new(Exit::Unsupported, error).hint("it exists since 5.4"));
    }
    let told = params::read(root, clock::monotonic_ns())?;
    let mut in_force: Params = Values::recorded(&told).over(Params::default()).into();
    let governor = params::cpuidle_governor(root);
    let is_haltpoll = governor.as_deref() == Some("haltpoll");
    if !is_haltpoll {
        in_force.guest_halt_poll_ns = 0;
    }
    let resolve = |it: &GivenSetting| it.resolve(in_force, Params::default());
    let params = [in_force, resolve(a), resolve(b)];
    if !is_haltpoll && params != [in_force; 3] {
        return Err(not_haltpoll(governor.as_deref()));
    }
    keeps_no_limit(&params)?;
    Ok(params)
}

fn not_haltpoll(governor: Option<&str>) -> Failure {
    let why = match governor {
        Some(other) => format!("its cpuidle governor is {}", crate::page::harmless(other)),
        None => "it has no cpuidle driver".to_owned(),
    };
    let error =
        anyhow!("set parameters of haltpoll in this guest: {why}, so that they have no effect");
    Failure::new(Exit::Unsupported, error).hint(
        "boot with cpuidle_haltpoll.force=Y cpuidle.governor=haltpoll, or measure what is in force: --guest --a \
         current --b current",
    )
}

/// With `guest_halt_poll_allow_shrink=N` a limit that grew under a higher ceiling stays for good: what comes after would
/// not be measured, or not be restored.
fn keeps_no_limit([in_force, a, b]: &[Params; 3]) -> Result<(), Failure> {
    let all = [("A", a), ("B", b), ("the current setting", in_force)];
    for (name, kept) in all.iter().filter(|(_, it)| !it.allow_shrink) {
        let above = all
            .iter()
            .find(|(_, other)| other.guest_halt_poll_ns > kept.guest_halt_poll_ns);
        if let Some((other, _)) = above {
            let error = anyhow!(
                "limits that grow under {other} would stay under {name}: it has \
                 guest_halt_poll_allow_shrink=N and a lower ceiling"
            );
            return Err(Failure::new(Exit::Usage, error).hint(
                "give guest_halt_poll_allow_shrink=Y, or measure settings with the same ceiling",
            ));
        }
    }
    Ok(())
}

pub(super) fn check(wanted: &ProofRequest) -> Result<(), Failure> {
    let what = if !wanted.given.vms.is_empty() {
        "--vm is"
    } else if command::takes_ceiling(&wanted.given.command) {
        "{halt_poll_ns} in the command is"
    } else {
        return Ok(());
    };
    let error = anyhow!("{what} for a host's VMs, and this guest is measured itself");
    Err(Failure::new(Exit::Usage, error).hint("leave it out"))
}
