//! What is known of a host without recording there: because no VM runs, or because it is not permitted.

use haltwise_host::root::Root;
use haltwise_host::{clock, discovery, params};

use super::view::{Answer, ParameterValue, SCHEMA, UnrecordedHost};

/// The answer, as far as anybody may know it.
pub(crate) fn view(root: &Root, advice: String) -> anyhow::Result<Answer> {
    let knobs = params::read(root, clock::monotonic_ns())?.into_iter();
    let parameters = knobs.filter(|knob| knob.name.starts_with("halt_poll"));
    let scan = discovery::scan(root)?;
    Ok(Answer {
        schema: SCHEMA,
        recording: None,
        outside: Some(UnrecordedHost {
            parameters: parameters
                .map(|knob| ParameterValue {
                    name: knob.name,
                    value: knob.value,
                })
                .collect(),
            names: scan.vms.iter().map(|vm| vm.label().name).collect(),
            hidden_processes: scan.denied,
        }),
        capture: None,
        cpus: None,
        poll_cpu_percent: None,
        failed_cpu_percent: None,
        vms: Vec::new(),
        settings: Vec::new(),
        verdict: None,
        advice,
        findings: Vec::new(),
        apply: None,
        undo: None,
        prove: None,
    })
}
