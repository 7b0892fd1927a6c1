//! Advice on a refusal, and the exit code that belongs to the refusal.

use haltwise_host::ceiling::CeilingError;
use haltwise_host::guest_agent::AgentError;
use haltwise_host::knob::KnobError;

use crate::exit::{Exit, Failure};

type Advice = (Exit, Option<&'static str>);

const AS_ROOT: Advice = (Exit::Denied, Some("run it as root"));

fn unsupported(hint: &'static str) -> Advice {
    (Exit::Unsupported, Some(hint))
}

fn failed(hint: &'static str) -> Advice {
    (Exit::Failed, Some(hint))
}

pub(crate) fn explain(error: KnobError) -> Failure {
    let (exit, hint) = match &error {
        KnobError::NoKvm => unsupported("load KVM: modprobe kvm_intel or kvm_amd"),
        KnobError::Absent(_) => {
            unsupported("leave it out; what the kernel does instead is in its release notes")
        }
        KnobError::ReadOnly { .. } => unsupported(
            "set it where KVM is loaded: on the kernel's command line, as kvm.NAME=VALUE",
        ),
        KnobError::Value(_) => (Exit::Usage, None),
        KnobError::Denied { .. } => AS_ROOT,
        KnobError::Read(error) if error.is_denied() => AS_ROOT,
        KnobError::Busy { .. } => failed("try again when it has ended"),
        KnobError::Untrusted { .. } => failed(
            "a user who can write or lock that file controls what haltwise does as root: it must belong \
             to root and be writable by root alone; look at its contents before you change that",
        ),
        KnobError::Forged { .. } => {
            failed("look at the file, and at baseline.json, by hand (docs/journal.md)")
        }
        KnobError::Damaged { .. } => failed(
            "nothing is written while it cannot be trusted; repair it, or move it away and restore \
             by hand what it lists (docs/journal.md)",
        ),
        KnobError::Theirs(_) => {
            failed("use --take-over to overwrite it; undo restores the external value")
        }
        KnobError::Occupied { .. } => failed("move it away"),
        KnobError::NoPlace => unsupported("set it on the kernel's command line, as kvm.NAME=VALUE"),
        KnobError::NotTaken(_) | KnobError::Failed { .. } | KnobError::Meanwhile { .. } => failed(
            "whatever was set before that is recorded, if anything was: `status` shows it, `undo` restores it",
        ),
        KnobError::Unrecorded(_) => failed(
            "make room and undo again, which records it; until then `status` shows the restored values as \
             modified externally",
        ),
        KnobError::Ceiling(error) => ceiling(error),
        KnobError::Agent(error) => agent(error),
        _ => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    hint.into_iter().fold(failure, Failure::hint)
}

fn agent(error: &AgentError) -> Advice {
    match error {
        AgentError::Disabled { .. } => unsupported(
            "permit guest-file-open, -read, -write and -close in the guest, and restart its agent; or, \
             without the agent, hand the settings to the guest by fw_cfg (docs/guest.md, \"From the \
             host without an agent\"), or run haltwise in the guest",
        ),
        AgentError::NoChannel { .. } => {
            unsupported("docs/guest.md says how to give a VM an agent, and how to do without one")
        }
        AgentError::Absent { .. } => unsupported(
            "load cpuidle_haltpoll in the guest; its kernel needs the governor haltpoll",
        ),
        AgentError::Read(error) if error.is_denied() => AS_ROOT,
        AgentError::Failed { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            AS_ROOT
        }
        _ => (Exit::Failed, None),
    }
}

fn ceiling(error: &CeilingError) -> Advice {
    match error {
        CeilingError::Absent(_) => unsupported(
            "docs/ceilings.md says how to start a VMM so that the ceiling of its VM can be set",
        ),
        CeilingError::Version { .. } => {
            unsupported("install the same version of haltwise and its library, and restart the VM")
        }
        CeilingError::TooMany { .. } => unsupported("run its VMs in several processes"),
        CeilingError::Denied(_) => AS_ROOT,
        _ => (Exit::Failed, None),
    }
}
