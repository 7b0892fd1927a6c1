//! What to do about a refusal, and the exit code that belongs to it.

use haltwise_host::ceiling::CeilingError;
use haltwise_host::guest_agent::AgentError;
use haltwise_host::knob::KnobError;

use crate::exit::{Exit, Failure};

/// An error of the knobs as a failure.
pub(crate) fn explain(error: KnobError) -> Failure {
    let (exit, hint) = match &error {
        KnobError::NoKvm => (
            Exit::Unsupported,
            Some("load KVM: modprobe kvm_intel or kvm_amd"),
        ),
        KnobError::Absent(_) => (
            Exit::Unsupported,
            Some("leave it out; what the kernel does instead is in its release notes"),
        ),
        KnobError::ReadOnly { .. } => (
            Exit::Unsupported,
            Some("set it where KVM is loaded: on the kernel's command line, as kvm.NAME=VALUE"),
        ),
        KnobError::Value(_) => (Exit::Usage, None),
        KnobError::Denied { .. } => (Exit::Denied, Some("run it as root")),
        KnobError::Read(error) if error.is_denied() => (Exit::Denied, Some("run it as root")),
        KnobError::Busy { .. } => (Exit::Failed, Some("try again when it has ended")),
        KnobError::Untrusted { .. } => (
            Exit::Failed,
            Some(
                "whoever can write or lock that file decides what haltwise does as root: it must belong \
                 to root, and nobody else may write it; look at what it holds before you change that",
            ),
        ),
        KnobError::Forged { .. } => (
            Exit::Failed,
            Some("look at the file, and at baseline.json, by hand (docs/journal.md)"),
        ),
        KnobError::Damaged { .. } => (
            Exit::Failed,
            Some(
                "nothing is written while it cannot be trusted; repair it, or move it away and restore \
                 by hand what it lists (docs/journal.md)",
            ),
        ),
        KnobError::Theirs(_) => (
            Exit::Failed,
            Some("use --take-over to overwrite it; undo restores the external value"),
        ),
        KnobError::Occupied { .. } => (
            Exit::Failed,
            Some("move it away; or --take-over, which keeps its text for the undo"),
        ),
        KnobError::NoPlace => (
            Exit::Unsupported,
            Some("set it on the kernel's command line, as kvm.NAME=VALUE"),
        ),
        KnobError::NotTaken { .. } | KnobError::Failed { .. } | KnobError::Meanwhile { .. } => (
            Exit::Failed,
            Some(
                "whatever was set before that is recorded, if anything was: haltwise status, haltwise undo",
            ),
        ),
        KnobError::Unrecorded(_) => (
            Exit::Failed,
            Some(
                "make room and undo again, which records it; until then `haltwise status` shows the restored values as \
                 modified externally",
            ),
        ),
        KnobError::Ceiling(error) => ceiling(error),
        KnobError::Agent(error) => agent(error),
        KnobError::Nothing => (
            Exit::Failed,
            Some("`haltwise status` shows the settings in force"),
        ),
        _ => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    hint.into_iter().fold(failure, Failure::hint)
}

fn agent(error: &AgentError) -> (Exit, Option<&'static str>) {
    match error {
        AgentError::Disabled { .. } => (
            Exit::Unsupported,
            Some(
                "permit guest-file-open, -read, -write and -close in the guest, and restart its agent; or, \
                 without the agent, hand the settings to the guest by fw_cfg (docs/guest.md, \"From the \
                 host without an agent\"), or run haltwise in the guest",
            ),
        ),
        AgentError::NotQemu(_) | AgentError::NoPort(_) | AgentError::NoPath(_) => (
            Exit::Unsupported,
            Some("docs/guest.md says how to give a VM an agent, and how to do without one"),
        ),
        AgentError::Absent { .. } => (
            Exit::Unsupported,
            Some("load cpuidle_haltpoll in the guest; its kernel needs the governor haltpoll"),
        ),
        AgentError::Read(error) if error.is_denied() => (Exit::Denied, Some("run it as root")),
        AgentError::Failed { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            (Exit::Denied, Some("run it as root"))
        }
        _ => (Exit::Failed, None),
    }
}

fn ceiling(error: &CeilingError) -> (Exit, Option<&'static str>) {
    match error {
        CeilingError::Absent(_) => (
            Exit::Unsupported,
            Some(
                "docs/ceilings.md says how to start a VMM so that the ceiling of its VM can be set",
            ),
        ),
        CeilingError::Version { .. } => (
            Exit::Unsupported,
            Some("install the same version of haltwise and its library, and restart the VM"),
        ),
        CeilingError::TooMany { .. } => {
            (Exit::Unsupported, Some("run its VMs in several processes"))
        }
        CeilingError::Denied(_) => (Exit::Denied, Some("run it as root")),
        _ => (Exit::Failed, None),
    }
}
