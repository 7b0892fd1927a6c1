//! Values that a kernel takes and that are likely to be a slip, or to cost more than was meant.

use super::parameter::Parameter;

/// At this ceiling a vCPU that ticks a thousand times a second never waits.
const TICK_NS: u32 = 1_000_000;

/// Ceilings from here on are ten times what anybody has been seen to mean: the guest governor of SAP
/// HANA guides polls for 2.4 ms, and was seen mistyped as 24 ms.
const TEN_TIMES_NS: u32 = 10_000_000;

/// Below this a poll is over before it has looked at the clock a second time.
const ONE_LOOK_NS: u32 = 1_000;

/// What to know before these values are written. `in_force` tells the others.
pub fn advice(
    wanted: &[(Parameter, u32)],
    in_force: impl Fn(Parameter) -> Option<u32>,
) -> Vec<String> {
    let value = |parameter| {
        let wanted = wanted.iter().find(|(it, _)| *it == parameter);
        wanted
            .map(|(_, value)| *value)
            .or_else(|| in_force(parameter))
    };
    let is_wanted = |parameter| wanted.iter().any(|(it, _)| *it == parameter);
    let mut said = Vec::new();
    for (parameter, ns) in wanted.iter().filter(|(it, _)| it.is_time()) {
        // A guest's governor polls for milliseconds where a guide says so.
        let is_slip = !parameter.is_of_guest() || *ns < ONE_LOOK_NS;
        said.extend(time(*parameter, *ns).filter(|_| is_slip));
    }
    let (ceiling, start) = (value(Parameter::HaltPollNs), value(Parameter::GrowStart));
    if let (Some(ceiling @ 1..), Some(start)) = (ceiling, start)
        && start >= ceiling
        && (is_wanted(Parameter::HaltPollNs) || is_wanted(Parameter::GrowStart))
    {
        said.push(format!(
            "halt_poll_ns_grow_start ({start}) is not below halt_poll_ns ({ceiling}): windows are \
             either 0 or the ceiling"
        ));
    }
    let grow = value(Parameter::Grow);
    if is_wanted(Parameter::Grow) && grow == Some(0) {
        said.push(
            "halt_poll_ns_grow 0: a window at 0 stays there, whatever the ceiling".to_owned(),
        );
    }
    if let (Some(ceiling), Some(grow)) = (ceiling, grow)
        && ceiling.checked_mul(grow).is_none()
    {
        said.push(format!(
            "halt_poll_ns_grow ({grow}) times halt_poll_ns ({ceiling}) exceeds 32 bits: the kernel \
             multiplies without a check, so that windows wrap around"
        ));
    }
    if is_wanted(Parameter::Shrink) && value(Parameter::Shrink) == Some(1) {
        said.push(
            "halt_poll_ns_shrink 1: a window that is at least halt_poll_ns_grow_start never shrinks"
                .to_owned(),
        );
    }
    said
}

fn time(parameter: Parameter, ns: u32) -> Option<String> {
    match ns {
        0 => None,
        1..ONE_LOOK_NS => Some(format!(
            "{parameter} {ns}: {ns} nanoseconds are less than one look at the clock; is {ns}us meant?"
        )),
        ONE_LOOK_NS..TICK_NS => None,
        TICK_NS..TEN_TIMES_NS => Some(format!(
            "{parameter} {ns}: from 1 ms on, an idle vCPU with a timer tick burns a whole CPU"
        )),
        _ => Some(format!(
            "{parameter} {ns}: is there a zero too many? {} would be a tenth; either lets an idle vCPU \
             burn a whole CPU, and guides that name such values mean the guest's guest_halt_poll_ns",
            ns / 10
        )),
    }
}

#[cfg(test)]
mod test;
