//! `haltwise apply`: the command line; the work is in [`crate::apply`].

use std::path::PathBuf;

use clap::ArgGroup;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_host::discovery::VmSelector;
use haltwise_host::knob::Target;

use crate::apply::{self, ApplyOptions, Wanted};
use crate::exit::{Exit, Failure, Outcome};
use crate::knob::ceilings;
use crate::plan::Plan;

#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("wanted").args(["plan", "set", "ceiling"]).required(true).multiple(true),
    about = "Set KVM's halt polling parameters",
    long_about = "Set KVM's halt polling parameters, or the ceiling of a VM

Without --yes, only prints what would change. The parameters apply to all VMs of \
the host that have no ceiling of their own. What was set before is \
recorded first, and `haltwise undo` restores it. A parameter that was modified \
externally since haltwise set it is left alone unless --take-over is given.

With --vm and --ceiling, sets the halt polling ceiling of one VM \
(KVM_CAP_HALT_POLL), which then no longer follows halt_poll_ns. That takes a VMM \
that was started with libhaltwise_preload.so, or has haltwise-governor built in.

With --vm and --set, on a host, sets the parameters of the governor haltpoll in \
the Linux guest of a QEMU VM, through its QEMU guest agent (docs/guest.md).",
    after_long_help = "EXAMPLES
  haltwise apply plan.json                        print what it would change
  haltwise apply plan.json --yes                  apply it
  haltwise apply --set halt_poll_ns=80us          print what would change
  haltwise apply --set halt_poll_ns=0 --yes       disable polling
  haltwise apply --set halt_poll_ns=80us --persist --yes
  haltwise apply --vm web1 --ceiling 0 --yes      no polling for one VM
  haltwise apply --vm web1 --set guest_halt_poll_ns=750us --yes
                                                  in the guest, by its agent
  haltwise apply plan.json --yes --follow         also for VMs that come later

A plan that has ceilings sets them together with the parameters, for the VMs of
those names that run. Applied again, it sets what is missing: VMs that came
later. --follow does so as they come, until it is interrupted.

Exits with 5 if a parameter was set but does not apply to a running VM, or if a
ceiling of the plan was not set (its VM does not run, or its VMM cannot be
asked), with 3 if this kernel does not have the parameter or it is read-only.

In a guest, the parameters of its governor haltpoll are set, kept and restored
in the same way: guest_halt_poll_ns, guest_halt_poll_grow and the others."
)]
pub(crate) struct Arguments {
    /// Plan written by `haltwise tune --plan`
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Parameter and value, for example `halt_poll_ns=80us`; may be repeated
    #[arg(
        long,
        value_name = "NAME=VALUE",
        conflicts_with = "plan",
        group = "of_vm"
    )]
    set: Vec<String>,
    /// VM whose ceiling or guest is set, by name, process or another of its names; may be repeated
    #[arg(
        long = "vm",
        value_name = "VM",
        requires = "of_vm",
        conflicts_with = "plan"
    )]
    vms: Vec<VmSelector>,
    /// Ceiling of these VMs: a time, or nanoseconds; 0 disables polling
    #[arg(
        long,
        value_name = "TIME",
        group = "of_vm",
        requires = "vms",
        conflicts_with_all = ["plan", "set", "persist"]
    )]
    ceiling: Option<String>,
    #[command(flatten)]
    options: ApplyOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let options = &arguments.options;
    let wanted = match &arguments.plan {
        Some(path) => Wanted::of_plan(&options.root, Plan::read(path)?)?,
        None => Wanted {
            targets: targets(arguments)?,
            ..Wanted::default()
        },
    };
    apply::run(options, wanted)
}

fn targets(arguments: &Arguments) -> Result<Vec<(Target, u32)>, Failure> {
    let (root, vms) = (&arguments.options.root, &arguments.vms);
    if let Some(text) = &arguments.ceiling {
        let usage = |error| Failure::new(Exit::Usage, anyhow::Error::new(error));
        let ns = Parameter::HaltPollNs.value(text).map_err(usage)?;
        return ceilings::of_vms(root, vms, ns);
    }
    let settings = settings(&arguments.set)?;
    if !vms.is_empty() {
        may_be_set_in_a_guest(&settings, arguments.options.persist)?;
        return ceilings::in_guests(root, vms, &settings);
    }
    Ok(settings
        .iter()
        .map(|(it, value)| (Target::Parameter(it), value))
        .collect())
}

fn may_be_set_in_a_guest(settings: &Values, persist: bool) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
    let mut others = settings.iter().map(|(parameter, _)| parameter);
    if let Some(other) = others.find(|parameter| !parameter.is_of_guest()) {
        let error = anyhow::anyhow!("--set {other}: with --vm only guest_halt_poll_* can be set");
        return Err(usage(error).hint("--ceiling sets the ceiling of one VM in its host"));
    }
    if persist {
        let error = anyhow::anyhow!("--persist: not in a guest from its host");
        return Err(usage(error).hint(
            "hand the settings to the guest at each start by fw_cfg and its unit: docs/guest.md, \
             \"From the host without an agent\"; or run haltwise in the guest",
        ));
    }
    Ok(())
}

/// Reads `NAME=VALUE` texts; a parameter that comes twice is an error.
fn settings(texts: &[String]) -> Result<Values, Failure> {
    let mut settings = Values::default();
    for text in texts {
        let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
        let Some((name, value)) = text.split_once('=') else {
            return Err(usage(anyhow::anyhow!("--set {text}: expected NAME=VALUE"))
                .hint("for example --set halt_poll_ns=80us"));
        };
        let parameter: Parameter = name
            .parse()
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        let value = parameter
            .value(value)
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        if settings.get(parameter).is_some() {
            return Err(usage(anyhow::anyhow!("--set {parameter} is given twice")));
        }
        settings.set(parameter, Some(value));
    }
    Ok(settings)
}
