//! Facts about a host without recording there: because no VM runs, or because recording is not permitted.

use std::time::Duration;

use haltwise_core::account::ledger::Ledger;
use haltwise_core::replay::GoalName;
use haltwise_host::discovery::{OutsideTime, OutsideVmm};
use haltwise_host::root::Root;
use haltwise_host::{clock, discovery, host_sample, params};

use super::view::{Answer, ParameterValue, SCHEMA, UnrecordedHost, UnrecordedVm};

/// So long the CPU time of VMMs is watched.
const WATCHED: Duration = Duration::from_secs(1);

/// The answer, as far as any user may know it.
pub(crate) fn view(root: &Root, advice: String) -> anyhow::Result<Answer> {
    let knobs = params::read(root, clock::monotonic_ns())?.into_iter();
    let parameters = knobs.filter(|knob| knob.name.starts_with("halt_poll"));
    let mut outside = UnrecordedHost {
        parameters: parameters
            .map(|knob| ParameterValue {
                name: knob.name,
                value: knob.value,
            })
            .collect(),
        ..UnrecordedHost::default()
    };
    vms(root, &mut outside)?;
    Ok(Answer {
        schema: SCHEMA,
        outside: Some(outside),
        goal: GoalName::Balanced.as_str(),
        advice,
        ..Answer::default()
    })
}

fn vms(root: &Root, outside: &mut UnrecordedHost) -> anyhow::Result<()> {
    let scan = discovery::scan(root)?;
    outside.hidden_processes = scan.denied;
    let before = discovery::outside(root);
    if before.is_empty() && scan.vms.is_empty() {
        return Ok(());
    }
    let mut ledger = Ledger::default();
    let mut sample = || {
        if let Ok(sample) = host_sample::read(root, None) {
            ledger.host(&sample);
        }
        clock::monotonic_ns()
    };
    let from_ns = sample();
    std::thread::sleep(WATCHED);
    let span_ns = sample().saturating_sub(from_ns).max(1);
    outside.busy_cpus = ledger.host.busy_cpus();
    outside.cpu_pressure = ledger.host.cpu_pressure();
    let now = discovery::outside(root);
    let percent = |ns: u64| ns as f64 / span_ns as f64 * 100.0;
    let of_found = before.into_iter().map(|vmm| {
        let spent = spent(&vmm, &now);
        UnrecordedVm {
            pid: vmm.pid.0,
            cpu_percent: spent.map(|it| percent(it.guest_ns + it.kernel_ns + it.user_ns)),
            guest_cpu_percent: spent.map(|it| percent(it.guest_ns)),
            kernel_cpu_percent: spent.map(|it| percent(it.kernel_ns)),
            name: vmm.name,
        }
    });
    outside.vms = of_found.collect();
    let others = scan.vms.into_iter().map(|vm| UnrecordedVm {
        pid: vm.pid().0,
        name: vm.label.name,
        cpu_percent: None,
        guest_cpu_percent: None,
        kernel_cpu_percent: None,
    });
    for other in others {
        if outside.vms.iter().all(|vm| vm.pid != other.pid) {
            outside.vms.push(other);
        }
    }
    let cpu = |vm: &UnrecordedVm| vm.cpu_percent.unwrap_or(0.0);
    outside.vms.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)));
    Ok(())
}

/// Time that a process took since `before`; `None` if the process is gone.
fn spent(before: &OutsideVmm, now: &[OutsideVmm]) -> Option<OutsideTime> {
    let now = now.iter().find(|vmm| vmm.pid == before.pid)?;
    let since = |of: fn(&OutsideTime) -> u64| of(&now.time).saturating_sub(of(&before.time));
    Some(OutsideTime {
        guest_ns: since(|time| time.guest_ns),
        kernel_ns: since(|time| time.kernel_ns),
        user_ns: since(|time| time.user_ns),
    })
}
