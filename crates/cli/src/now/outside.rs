//! What is known of a host without the right to record there.

use haltwise_host::root::Root;
use haltwise_host::{clock, discovery, params};

use crate::terminal;
use crate::words::plural;

/// Says it, as far as anybody may know.
pub(crate) fn say() -> anyhow::Result<()> {
    let root = Root::host();
    let knobs = params::read(&root, clock::monotonic_ns())?;
    let knobs = knobs
        .iter()
        .filter(|knob| knob.name.starts_with("halt_poll"));
    let knobs: Vec<String> = knobs
        .map(|knob| format!("{} = {}", knob.name, knob.value))
        .collect();
    let scan = discovery::scan(&root)?;
    let names: Vec<String> = scan.vms.iter().map(|vm| vm.label().name).collect();
    let hidden = match scan.denied {
        0 => String::new(),
        n => format!("; {} may not be looked into", plural(n as u64, "process")),
    };
    let vms = match names.as_slice() {
        [] => "none found".to_owned(),
        _ => names.join(", "),
    };
    terminal::print(&format!("KVM: {}\nVMs: {vms}{hidden}\n", knobs.join(", ")))
        .map_err(|failure| failure.error)
}
