//! Every screen on every kind of host, against committed texts; and laws of drawing.
//!
//! `UPDATE_GOLDEN=1 cargo test -p haltwise top::draw` makes the texts anew; review the difference.

use std::path::{Path, PathBuf};

use haltwise_core::event::Observable;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::top::model::test::press;
use crate::top::recorded::{Length, load};
use crate::top::world::{self, SECOND, exits, step, vm};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A committed capture in steps of 5 ms, looked at in its middle.
fn capture(name: &str) -> Model {
    let dir = golden().join("captures").join(name);
    let loaded = load(&dir, Length::Ns(5_000_000), |_| Ok(None));
    let (mut origin, mut timeline) = loaded.unwrap_or_else(|_| panic!("{name}"));
    origin.capture = Some(name.to_owned());
    timeline.seek(timeline.len() * 2 / 3);
    Model::new(origin, timeline)
}

/// Sixty VMs with exits, one of which cannot be seen.
fn crowd() -> Model {
    let mut vms: Vec<_> = (0..60).map(|n| vm(n, &format!("guest-{n}"))).collect();
    vms[7].observable = Observable::No("exits on HLT are disabled".into());
    let steps = (0..30).map(|nth| {
        let mut step = step(nth, &vms[..usize::try_from(30 + nth).unwrap()]);
        step.exits(&exits(3, 0, (nth + 1) * SECOND, 48, 40 + nth));
        step.exits(&exits(3, 1, (nth + 1) * SECOND, 32, 900));
        step.settle();
        step
    });
    let mut model = world::with_exits(world::model(true, steps.collect()));
    model.timeline.follow();
    model
}

/// Three VMs that a pilot knows, and one that it does not know yet.
fn piloted() -> Model {
    let names = ["web-1", "db", "batch", "new"];
    let vms: Vec<_> = (0..).zip(names).map(|(n, name)| vm(n, name)).collect();
    let said = std::rc::Rc::new(piloted::test::said(&vms));
    let steps = (0..3).map(|nth| {
        let mut step = step(nth, &vms);
        step.around.pilot = std::rc::Rc::clone(&said);
        step
    });
    world::model(true, steps.collect())
}

fn drawn(model: &Model, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let shown = terminal.draw(|frame| draw(model, frame));
    shown.unwrap().buffer.clone()
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let buffer = drawn(model, width, height);
    text_of(&buffer).map(|line| line + "\n").collect()
}

/// Screens with more columns where they are wide.
const WIDE: [&str; 3] = ["fleet.txt", "crowd.txt", "exits-vcpu.txt"];

/// A small screen in a file, and a large one beside it where that shows more.
fn compare(name: &str, model: &Model) -> Result<(), String> {
    let mut got = String::new();
    for (width, height) in [(80, 24), (200, 36)] {
        let text = screen(model, width, height);
        let wide = text.lines().find(|line| line.width() > usize::from(width));
        assert_eq!(wide, None, "{name}");
        if width == 80 || WIDE.contains(&name) {
            got.extend([&format!("--- {width} x {height}\n"), &text].map(String::as_str));
        }
    }
    same(name, &got)
}

fn same(name: &str, got: &str) -> Result<(), String> {
    let path = golden().join("expected/top").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(got.lines()).find(|(a, b)| a != b);
    match differs {
        Some((expected, got)) => Err(format!(
            "{name}:\n  expected {expected}\n  got      {got}\n"
        )),
        None if expected.len() == got.len() => Ok(()),
        None => Err(format!("{name}: another number of lines\n")),
    }
}

#[test]
fn screens_are_as_committed() {
    let mut wrong = String::new();
    let mut check = |name: &str, model: &Model| wrong.extend(compare(name, model).err());
    for name in ["fleet", "lossy", "hostile-names"] {
        check(&format!("{name}.txt"), &capture(name));
    }
    let mut fleet = capture("fleet");
    press(&mut fleet, "⏎");
    check("fleet-vm.txt", &fleet);
    press(&mut fleet, "⏎");
    check("fleet-vcpu.txt", &fleet);
    press(&mut fleet, "?");
    check("help.txt", &fleet);
    let mut hidden = capture("fleet");
    press(&mut hidden, "⇲⇟⏎");
    check("not-observable-vm.txt", &hidden);
    press(&mut hidden, "⏎");
    check("not-observable-vcpu.txt", &hidden);
    let mut crowd = crowd();
    check("crowd.txt", &crowd);
    press(&mut crowd, "⇟⇟⇟");
    check("crowd-below.txt", &crowd);
    press(&mut crowd, "/T-3");
    check("crowd-typing.txt", &crowd);
    press(&mut crowd, "⏎←");
    check("crowd-filtered-paused.txt", &crowd);
    press(&mut crowd, "⇞r⏎");
    check("exits-vm.txt", &crowd);
    press(&mut crowd, "⏎");
    check("exits-vcpu.txt", &crowd);
    check("first-interval.txt", &world::model(true, Vec::new()));
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn what_the_pilot_says_is_as_committed() {
    let mut model = piloted();
    let mut wrong = String::new();
    let mut check = |done: Result<(), String>| wrong.extend(done.err());
    check(compare("pilot.txt", &model));
    let once = text(&model, 80);
    assert!(once.lines().all(|line| line.width() <= 80), "{once}");
    check(same("pilot-once.txt", &once));
    press(&mut model, "/d⏎⏎");
    check(compare("pilot-vm.txt", &model));
    press(&mut model, "?");
    check(compare("pilot-help.txt", &model));
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_page_without_vms_says_so_above_what_was_lost() {
    let page = text(&world::model(true, vec![step(0, &[])]), 80);
    let end: Vec<&str> = page.lines().rev().take(2).collect();
    assert_eq!(end[0], "Lost: nothing");
    assert!(end[1].starts_with("No VM was found. "), "{page}");
}

#[test]
fn the_json_has_what_the_pilot_says() {
    let interval = crate::top::view::of(&piloted()).unwrap();
    let json = serde_json::to_value(&interval).unwrap();
    let of = |vm: usize| &json["vms"][vm]["pilot"];
    assert_eq!(of(0)["state"], "kept");
    assert_eq!(of(0)["saved_ns"]["low"], 10.12e9);
    assert_eq!(of(1)["is_saved"], false);
    assert_eq!(of(1)["would_set_ns"], 0);
    assert!(of(3).is_null());
}

#[test]
fn the_marked_row_is_marked_and_colours_can_be_without() {
    let model = capture("fleet");
    let buffer = drawn(&model, 80, 24);
    let reversed = |y: u16| {
        let cell = &buffer[(1, y)];
        cell.modifier.contains(Modifier::REVERSED)
    };
    let rows: Vec<u16> = (0..24).filter(|y| reversed(*y)).collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let mut plain = buffer.clone();
    without_colours(&mut plain);
    let is_plain = |cell: &Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
    assert!(plain.content().iter().all(is_plain));
    assert!(!buffer.content().iter().all(|cell| cell.fg == Color::Reset));
}

#[test]
fn any_name_fits_any_screen() {
    let names = [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "a\r\nb\u{202e}gpj.exe\u{2066}",
        "数据库-主-数据库-主-数据库-主-数据库-主-数据库-主-数据库-主",
        "👨\u{200d}👩\u{200d}👧 family 🇩🇪 e\u{301}\u{301}\u{301}",
        &"a-name-that-goes-on-".repeat(5_000),
        "",
    ];
    let vms: Vec<_> = (0..).zip(names).map(|(n, name)| vm(n, name)).collect();
    let mut model = world::model(false, (0..3).map(|nth| step(nth, &vms)).collect());
    for (width, height) in [(20, 4), (33, 9), (80, 24), (200, 60), (500, 100)] {
        for vm in &vms {
            model.screen = Screen::Vm(vm.index);
            let text = screen(&model, width, height);
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
        }
        model.screen = Screen::Host;
        let text = screen(&model, width, height);
        assert!(
            text.lines().all(|line| line.width() <= usize::from(width)),
            "{text}"
        );
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any screen of any size is drawn, and drawn the same after a walk through time and back.
    #[test]
    fn any_size(width in 0_u16..260, height in 0_u16..70, screen in 0_usize..5, far in 1_usize..40) {
        let mut model = if screen < 3 { crowd() } else { capture("fleet") };
        model.timeline.seek(4);
        match screen {
            1 | 3 => press(&mut model, "⏎"),
            2 | 4 => press(&mut model, "⏎⏎"),
            _ => {}
        }
        let before = drawn(&model, width, height);
        press(&mut model, &"→".repeat(far.min(5)));
        press(&mut model, &"←".repeat(far.min(5)));
        prop_assert_eq!(before, drawn(&model, width, height));
        model.help = true;
        let _help = drawn(&model, width, height);
    }
}
