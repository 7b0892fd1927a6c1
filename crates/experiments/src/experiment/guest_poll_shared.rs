//! `guest-poll-shared-cpu`: two vCPUs that hand work to each other on one CPU of the host, and poll.
//!
//! Why `haltwise tune` recommends no polling in a guest whose host gives its time to others. The same guest as in
//! [`super::guest_halt_poll`], where each vCPU has a CPU; here the vCPU that polls keeps the other one from the work
//! that it waits for. KVM ends its own polls when another task wants the CPU (`kvm_vcpu_can_poll`); of a guest's
//! poll it knows nothing.

use super::guest_halt_poll::{FIGURES, WHO, load, variant, work};
use super::rows::cells;
use super::{Block, Conclusion, Effect, Experiment, Results, Source, Trial};
use haltwise_lab::guest::Peer;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    title: "polling in a guest whose vCPUs share a CPU, against polling in the host, and none",
    source: Source {
        document: "kvm_arch_no_poll in arch/s390/kvm/kvm-s390.c, Linux 5.2, 2019; kvm_vcpu_can_poll in \
                   include/linux/kvm_host.h",
        reports: &[
            "s390: KVM does not poll for a vCPU of whose time 10 % or more is stolen (halt_poll_max_steal)",
            "KVM ends a poll when another task wants the CPU",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants: || cells(&[SHARED], &WHO, variant),
    effects,
    integrity: Vec::new,
    limits: &["both vCPUs are of one VM; a CPU that two VMs share is not measured"],
    on_your_host: "the finding `guest-polls-stolen-time` in the guest; `haltwise tune --host` recommends no polling \
                   in a guest whose CPUs other tasks want",
    differs: "the source has a threshold and no figure",
    run: run_one,
    conclude,
};

const NAME: &str = "guest-poll-shared-cpu";
const SHARED: &str = "two vCPUs, one CPU";

fn effects() -> Vec<Effect> {
    effects! {
        Claim "time of a hop, guest against no polling", "latency", SHARED, ["no polling", "the guest"], More,
            "s390: no polling from 10 % steal on";
        Claim "CPU, guest against no polling", "cpu", SHARED, ["no polling", "the guest"], More,
            "s390: no polling from 10 % steal on";
    }
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let mut load = load(trial, NAME, Peer::Ring, &WHO[trial.variant])?;
    load.vcpu_cpus = vec![trial.vcpu_cpu(); 2];
    work(trial, &load)
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let of = |who: &str, figure: &str| results.median(SHARED, who, figure);
    let times = || {
        Some(format!(
            "a hop takes {:.2} times as long with the guest polling, {:.2} times with the host polling",
            of("the guest", "latency")? / of("no polling", "latency")?,
            of("the host", "latency")? / of("no polling", "latency")?,
        ))
    };
    times().into_iter().collect()
}
