//! Effects of each wish on the model: tables, and the laws of time travel.

use haltwise_core::account::ledger::Place;
use proptest::prelude::*;

use super::*;
use crate::top::step::Used;
use crate::top::world::{self, SECOND, step, vm};

const PAGE: usize = 10;

fn three() -> Vec<Vm> {
    vec![vm(0, "alpha"), vm(1, "beta"), vm(2, "gamma")]
}

fn world(live: bool) -> Model {
    world::model(live, (0..5).map(|nth| step(nth, &three())).collect())
}

fn names(model: &Model) -> Vec<String> {
    model.rows().into_iter().map(|row| row.name).collect()
}

fn marked(model: &Model) -> String {
    let rows = model.rows();
    rows[model.standing().place(&rows)].name.clone()
}

pub(crate) fn press(model: &mut Model, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '↑' => KeyCode::Up,
            '↓' => KeyCode::Down,
            '←' => KeyCode::Left,
            '→' => KeyCode::Right,
            '⏎' => KeyCode::Enter,
            '⎋' => KeyCode::Esc,
            '⌫' => KeyCode::Backspace,
            '⇱' => KeyCode::Home,
            '⇲' => KeyCode::End,
            '⇞' => KeyCode::PageUp,
            '⇟' => KeyCode::PageDown,
            key => KeyCode::Char(key),
        };
        let key = KeyEvent::from(code);
        let effect = model.press(key, PAGE);
        assert_eq!(effect, None, "{key:?}");
    }
}

#[test]
fn rows_stand_by_halts_and_by_any_other_column() {
    use Column::{Ceiling, Halts, Name, P50, P99, Useful, Vcpus, Wasted};
    let mut model = world(false);
    assert_eq!(names(&model), ["gamma", "beta", "alpha"]);
    press(&mut model, "r");
    assert_eq!(names(&model), ["alpha", "beta", "gamma"]);
    press(&mut model, "r<<<<");
    assert_eq!((model.vms.by, names(&model)), (Column::Name, names(&model)));
    assert_eq!(names(&model), ["alpha", "beta", "gamma"]);
    let mut seen = vec![model.vms.by];
    for _ in 0..12 {
        press(&mut model, ">");
        if seen.last() != Some(&model.vms.by) {
            seen.push(model.vms.by);
        }
    }
    let here = [Name, Vcpus, Halts, Wasted, Useful, P50, P99, Ceiling];
    assert_eq!(seen, here, "every column can be reached");
}

#[test]
fn rows_stand_by_cpu_time_where_that_is_known() {
    let place = |vm| Place {
        vm: Some(VmIndex(vm)),
        vcpu: None,
    };
    let before = Used::from([(place(1), (SECOND, SECOND))]);
    let now = Used::from([
        (place(0), (SECOND / 4, SECOND)),
        (place(1), (2 * SECOND, 3 * SECOND)),
    ]);
    let mut step = step(0, &three());
    step.use_cpus(&before, &now);
    let of = |vm| step.cpus_of(Key::Vm(VmIndex(vm)));
    assert_eq!([of(0), of(1), of(2)], [Some(0.25), Some(0.5), None]);
    let mut model = world::model(true, vec![step]);
    assert_eq!(model.sorted_by(), Column::Cpu);
    assert_eq!(names(&model), ["beta", "alpha", "gamma"]);
    press(&mut model, ">");
    assert_eq!(model.sorted_by(), Column::Halts);
}

#[test]
fn a_marked_row_keeps_its_mark_wherever_it_goes() {
    let mut model = world(false);
    assert_eq!(marked(&model), "gamma");
    press(&mut model, "↓");
    assert_eq!(marked(&model), "beta");
    press(&mut model, "r<");
    assert_eq!(marked(&model), "beta");
    press(&mut model, "↑↑↑↑");
    let first = names(&model)[0].clone();
    assert_eq!(marked(&model), first);
}

#[test]
fn a_vm_that_goes_leaves_its_place_to_the_next() {
    let mut steps: Vec<Step> = (0..2).map(|nth| step(nth, &three())).collect();
    steps.push(step(2, &three()[1..]));
    let mut model = world::model(false, steps);
    press(&mut model, "<<↓"); // by name: beta
    assert_eq!(marked(&model), "beta");
    press(&mut model, "↑");
    assert_eq!(marked(&model), "alpha");
    press(&mut model, "→→");
    assert_eq!(marked(&model), "beta", "alpha is gone");
    press(&mut model, "←");
    assert_eq!(marked(&model), "alpha", "and there again");
}

#[test]
fn enter_goes_in_and_escape_out() {
    let mut model = world(false);
    press(&mut model, "↓⏎");
    assert_eq!(model.screen, Screen::Vm(VmIndex(1)));
    assert_eq!(names(&model), ["vCPU 0 tid 10100", "vCPU 1 tid 10101"]);
    press(&mut model, "↓⏎");
    assert_eq!(model.screen, Screen::Vcpu(VmIndex(1), VcpuId(1)));
    press(&mut model, "↑");
    assert_eq!(model.screen, Screen::Vcpu(VmIndex(1), VcpuId(0)));
    press(&mut model, "⏎>");
    assert_eq!(
        model.screen,
        Screen::Vcpu(VmIndex(1), VcpuId(0)),
        "no table here"
    );
    press(&mut model, "⎋⎋");
    assert_eq!(model.screen, Screen::Host);
    assert_eq!(marked(&model), "beta");
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut model = world(false);
    press(&mut model, "/BETx⌫");
    assert_eq!(names(&model), ["beta"], "while typing, in any case");
    press(&mut model, "q");
    assert_eq!(names(&model), [""; 0], "q is a letter here");
    press(&mut model, "⌫⏎");
    assert_eq!(
        (names(&model), model.typing.as_deref()),
        (vec!["beta".to_owned()], None)
    );
    press(&mut model, "/zzz⎋");
    assert_eq!(model.filter, "BET", "escape brings the last one back");
    press(&mut model, "⎋");
    assert_eq!(names(&model).len(), 3);
    press(&mut model, "/x");
    assert_eq!(model.press(ctrl('u'), PAGE), None);
    assert_eq!(model.filter, "");
    assert_eq!(model.press(ctrl('c'), PAGE), Some(Action::Quit));
    press(&mut model, "⎋");
    press(&mut model, &format!("/{}", "x".repeat(500)));
    assert!(model.filter.len() <= FILTER);
}

#[test]
fn a_key_does_one_thing_and_help_names_it() {
    let mut all: Vec<&KeyEvent> = Vec::new();
    for (keys, shown, _, help) in BINDINGS {
        for key in *keys {
            assert!(!all.contains(&key), "{key:?} twice");
            all.push(key);
            if let (KeyCode::Char(c), true) = (key.code, key.modifiers.is_empty()) {
                assert!(
                    c == ' ' || help.is_empty() || shown.contains(c),
                    "{c} in `{shown}`"
                );
            }
        }
    }
    let pressed = KeyEvent::new(KeyCode::Char('/'), KeyModifiers::ALT);
    let pressed: Vec<KeyCode> = presses(pressed).map(|key| key.code).collect();
    assert_eq!(pressed, [KeyCode::Esc, KeyCode::Char('/')]);
}

#[test]
fn a_live_view_pauses_travels_and_follows_again() {
    let mut model = world(true);
    press(&mut model, "←←");
    assert_eq!(model.step().unwrap().start_ns, 2 * SECOND);
    model.timeline.push(step(5, &three()));
    assert_eq!(model.step().unwrap().start_ns, 2 * SECOND);
    press(&mut model, "⇲");
    assert!(model.timeline.follows());
    press(&mut model, " ");
    model.timeline.push(step(6, &three()));
    assert_eq!(model.step().unwrap().start_ns, 5 * SECOND);
    press(&mut model, " ");
    assert_eq!(model.step().unwrap().start_ns, 6 * SECOND);
}

#[test]
fn before_the_first_interval_every_key_is_harmless() {
    let mut model = world::model(true, Vec::new());
    for (keys, ..) in BINDINGS {
        for key in *keys {
            let _effect = model.press(*key, PAGE);
            model.help = false;
            model.typing = None;
        }
    }
}

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let all = BINDINGS.iter().flat_map(|(keys, ..)| *keys).copied();
    prop::sample::select(all.collect::<Vec<_>>())
}

proptest! {
    /// Whatever is pressed, what is marked and looked at is there.
    #[test]
    fn any_keys(pressed in prop::collection::vec(any_key(), 0..60), live in any::<bool>()) {
        let mut model = world(live);
        for key in pressed {
            let _effect = model.press(key, PAGE);
            let rows = model.rows();
            prop_assert!(rows.is_empty() || model.standing().place(&rows) < rows.len());
            prop_assert!(model.step().is_some());
        }
    }
}
