//! Savings, in words.

use super::*;

/// A VM of which so much was saved, in nanoseconds.
fn vm(saved: Option<[f64; 3]>, is_saved: Option<bool>) -> PilotVm {
    let state = include_str!("../../../tests/knob/pilot.json");
    let mut state: serde_json::Value = serde_json::from_str(state).unwrap();
    let mut vm: PilotVm = serde_json::from_value(state["status"]["vms"][0].take()).unwrap();
    vm.saved_ns = saved.map(|[value, low, high]| Interval { value, low, high });
    vm.is_saved = is_saved;
    vm
}

#[test]
fn a_benefit_has_its_interval_and_says_whether_it_would_have_been() {
    for (saved, is_saved, text, narrow) in [
        (
            [12.34e9, 10.1e9, 14.9e9],
            Some(true),
            "saved 12.3 s of CPU (10.1 to 14.9)",
            "12.3 s",
        ),
        // As an earlier version wrote it.
        (
            [2e6, -3e6, 7e6],
            None,
            "saved 2.00 ms of CPU (-3.00 to 7.00)",
            "2.00 ms",
        ),
        (
            [-2e9, -3e9, 500e6],
            Some(false),
            "would have saved -2.00 s of CPU (-3.00 to 0.50)",
            "(-2.00 s)",
        ),
        ([0.0; 3], Some(true), "saved nothing so far", "0 ns"),
    ] {
        let mut vm = vm(Some(saved), is_saved);
        assert_eq!(benefit(&vm).as_deref(), Some(text));
        assert_eq!(short(&vm).as_deref(), Some(narrow));
        vm.saved_ns = None;
        assert_eq!((benefit(&vm), short(&vm)), (None, None));
        assert_eq!(benefit_and_why(&vm), vm.why);
    }
    let mut would = vm(Some([1e9, 0.0, 2e9]), Some(false));
    would.would_set_ns = Some(30_000);
    let text = benefit(&would);
    assert_eq!(
        text.as_deref(),
        Some("would set 30.0 us, would have saved 1.00 s of CPU (0.00 to 2.00)")
    );
}
