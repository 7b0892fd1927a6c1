//! The price of a sleep on this host: measured once, kept, renewed when it may be another.

use std::time::Duration;

use haltwise_capture::files::output::{self, Readers};
use haltwise_capture::files::{self, directory};
use haltwise_core::replay::calibration::Calibration;
use haltwise_core::replay::calibration::written::Written;
use haltwise_host::root::Root;
use haltwise_host::wakeup::{self, Plan};

use crate::state;
use crate::terminal;

const FILE: &str = "price.json";

/// An older price is measured again: firmware updates change it, and kernel, CPU and idle states do not show them.
const RENEWED: Duration = Duration::from_hours(7 * 24);

/// Price that is kept for this host, unless the host has changed since.
pub(crate) fn of_host(root: &Root) -> Option<Written> {
    let path = state::place(root, FILE)?;
    let kept: Written = serde_json::from_slice(&files::read(&path).ok()?).ok()?;
    let (of, now) = (kept.host.as_ref()?, wakeup::host(root));
    let is_same = wakeup::Measured {
        unix_ns: now.unix_ns,
        ..of.clone()
    } == now;
    let age = Duration::from_nanos(now.unix_ns.saturating_sub(of.unix_ns));
    (is_same && age < RENEWED).then_some(kept)
}

/// The kept price; without one, the price is measured, and kept if the CPUs were idle enough. `None` where it cannot be
/// measured.
pub(crate) fn or_measured(root: &Root, is_over: impl Fn() -> bool) -> Option<Written> {
    if let Some(kept) = of_host(root) {
        return Some(kept);
    }
    terminal::say("Measuring what a sleep costs on this host: 5 s.");
    let [sleeper, waker] = wakeup::idlest_cpus(root).ok()?;
    let plan = Plan::new(true, sleeper, waker);
    let mut found = wakeup::measure(&plan, is_over).ok()?;
    found.host = Some(wakeup::host(root));
    let usable = Calibration::try_from(&found).ok()?;
    let is_usable = usable.switch_cpu().is_some() && !usable.latencies().is_empty();
    if is_usable && found.is_undisturbed() {
        keep(root, &found);
    } else {
        terminal::say(
            "Other tasks wanted these CPUs: what a sleep costs is measured again next time.",
        );
    }
    is_usable.then_some(found)
}

/// Keeps a price. That it cannot be kept is said, and spoils nothing.
pub(crate) fn keep(root: &Root, price: &Written) {
    let Some(path) = state::place(root, FILE) else {
        return;
    };
    let kept = directory::make_above(&path)
        .and_then(|()| Ok(serde_json::to_vec(price)?))
        .and_then(|bytes| output::write(&path, &bytes, Readers::Owner));
    if let Err(error) = kept {
        let path = path.display();
        terminal::say(&format!(
            "warning: the price of a sleep was not kept in {path}: {error}"
        ));
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_price_is_of_the_kernel_the_cpu_and_the_idle_states_that_it_was_measured_on() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let states = dir
            .path()
            .join("sys/devices/system/cpu/cpu0/cpuidle/state0");
        std::fs::create_dir_all(&states).unwrap();
        std::fs::write(states.join("name"), "C1\n").unwrap();
        std::fs::write(states.join("disable"), "0\n").unwrap();
        assert_eq!(of_host(&root), None, "nothing is kept");
        let plan = Plan::new(true, 0, 0);
        let mut price = wakeup::measure(&plan, || true).unwrap();
        price.host = Some(wakeup::host(&root));
        keep(&root, &price);
        assert_eq!(of_host(&root).as_ref(), Some(&price));
        std::fs::write(states.join("disable"), "1\n").unwrap();
        assert_eq!(of_host(&root), None, "a state was disabled");
        std::fs::write(states.join("disable"), "0\n").unwrap();
        let of = price.host.as_mut().unwrap();
        of.unix_ns -= u64::try_from(RENEWED.as_nanos()).unwrap();
        keep(&root, &price);
        assert_eq!(of_host(&root), None, "it is a week old");
    }
}
