//! The pair against a table of cases, and against KVM's own pair under any script.

mod script;

use proptest::prelude::*;

use self::script::Step;
use super::*;
use crate::device::Devices as _;
use crate::device::board::{KernelBoard, LINE_PORT, PULSE, UserBoard};
use crate::device::machine::Machine;
use haltwise_lab::event::Event;
use std::os::fd::AsFd;

/// As every PC's firmware writes it, all lines unmasked.
const INITIALIZE: [(u16, u8); 10] = [
    (0x20, 0x11),
    (0x21, 0x60),
    (0x21, 0x04),
    (0x21, 0x01),
    (0xa0, 0x11),
    (0xa1, 0x68),
    (0xa1, 0x02),
    (0xa1, 0x01),
    (0x21, 0),
    (0xa1, 0),
];

/// Bytes that the reader of a script sees: reads, vectors, 0 after each window.
fn modelled(steps: &[Step]) -> Vec<u8> {
    let mut board = UserBoard::default();
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Out(port, value) => board.pio_out(port, &[value]),
            Step::In(port) => {
                let mut byte = [0];
                board.pio_in(port, &mut byte);
                seen.push(byte[0]);
            }
            Step::Window => {
                while let Some(vector) = board.acknowledge() {
                    seen.push(vector);
                }
                seen.push(0);
            }
        }
    }
    seen
}

/// The same by a guest, with the controllers in the VMM or in the kernel.
fn seen_by_guest(steps: &[Step], in_kernel: bool) -> Vec<u8> {
    let interrupt = Event::new().unwrap();
    let machine = Machine::create("script", in_kernel, script::program()).unwrap();
    script::load(&machine.vm.memory, steps).unwrap();
    let machine = if in_kernel {
        let board = KernelBoard::new(&machine.vm).unwrap();
        machine.with(board)
    } else {
        machine.with(UserBoard::default())
    };
    let running = machine.start(None, None).unwrap();
    let late_ns = running.start_ns + 20_000_000_000;
    let ended = !running.wait_until(late_ns, interrupt.as_fd()).unwrap();
    assert!(ended, "the script did not come to its end");
    script::log(&running.end().unwrap().vm.memory).unwrap()
}

fn initialized(steps: &[Step]) -> Vec<Step> {
    let initialize = INITIALIZE
        .iter()
        .map(|(port, value)| Step::Out(*port, *value));
    initialize.chain(steps.iter().copied()).collect()
}

/// A script in short: `w` a window, `p5` a pulse of line 5, `u5` and `d5` its level, `?20` a read of a port,
/// `20=c3` a write to it. Lines are decimal, ports and values hexadecimal.
fn steps(text: &str) -> Vec<Step> {
    let hex = |text: &str| u16::from_str_radix(text, 16).unwrap();
    let step = |word: &str| {
        let line = || LINE_PORT + word[1..].parse::<u16>().unwrap();
        match word.split_at(1) {
            ("w", _) => Step::Window,
            ("p", _) => Step::Out(line(), PULSE),
            ("u", _) => Step::Out(line(), 1),
            ("d", _) => Step::Out(line(), 0),
            ("?", port) => Step::In(hex(port)),
            _ => {
                let (port, value) = word.split_once('=').unwrap();
                Step::Out(hex(port), hex(value).try_into().unwrap())
            }
        }
    };
    initialized(&text.split_whitespace().map(step).collect::<Vec<_>>())
}

fn bytes(text: &str) -> Vec<u8> {
    let byte = |word| u8::from_str_radix(word, 16).unwrap();
    text.split_whitespace().map(byte).collect()
}

/// On which the kernel and the data sheet agree: what is done after initialization, what is seen.
const BOTH: [(&str, &str, &str); 24] = [
    ("nothing", "w", "0"),
    ("the lowest line first", "p5 p1 w", "61 0"),
    ("15 goes before 3", "p3 p15 w", "6f 0"),
    ("a higher one interrupts", "p5 w p1 w", "65 0 61 0"),
    ("a lower one waits", "p1 w p5 w 20=20 w", "61 0 0 65 0"),
    ("in service", "p1 w p1 w 20=20 w", "61 0 0 61 0"),
    ("two edges are one", "p4 p4 w 20=20 w", "64 0 0"),
    ("a level is one edge", "u4 w 20=20 w d4 u4 w", "64 0 0 64 0"),
    ("masked, then not", "21=10 p4 w 21=0 w", "0 64 0"),
    ("the mask reads back", "21=a5 ?21", "a5"),
    ("IRR is read by default", "21=ff p4 p0 ?20", "11"),
    ("ISR", "p4 w 20=0b ?20 20=0a ?20", "64 0 10 0"),
    ("ISRs of both", "p8 w 20=0b ?20 a0=0b ?a0", "68 0 4 1"),
    (
        "EOI of one alone",
        "p9 w a0=20 p10 w 20=20 w",
        "69 0 0 6a 0",
    ),
    ("specific EOI", "p5 w p1 w 20=65 20=0b ?20", "65 0 61 0 2"),
    ("line 3 lowest", "20=c3 p3 p4 w 20=20 w", "64 0 63 0"),
    ("rotate on EOI", "p0 w 20=a0 p0 p1 w", "60 0 61 0"),
    ("rotate on specific EOI", "p3 w 20=e3 p3 p4 w", "63 0 64 0"),
    (
        "automatic EOI",
        "20=11 21=60 21=4 21=3 p5 w p5 w",
        "65 0 65 0",
    ),
    (
        "and rotation",
        "20=11 21=60 21=4 21=3 20=80 p0 p1 w p0 p3 w",
        "60 61 0 63 60 0",
    ),
    (
        "special fully nested",
        "20=11 21=60 21=4 21=11 p12 w p9 w",
        "6c 0 69 0",
    ),
    ("fully nested", "p12 w p9 w", "6c 0 0"),
    (
        "ICW1 forgets",
        "21=ff p4 20=11 21=60 21=4 21=1 ?21 w",
        "0 0",
    ),
    ("withdrawn by a mask", "p9 a1=ff w", "6f 0"),
];

/// On which the kernel leaves the data sheet, and the model does not.
const MODEL: [(&str, &str, &str); 5] = [
    ("a poll takes it", "p4 20=0c ?20 w 20=0b ?20", "84 0 10"),
    ("a poll of nothing", "20=0c ?20", "0"),
    ("one read is polled", "p4 20=0c ?21 ?21", "84 0"),
    ("special mask", "p1 w 21=2 20=68 p5 w", "61 0 65 0"),
    ("and its end", "p1 w 21=2 20=68 20=48 p5 w", "61 0 0"),
];

#[test]
fn the_table_holds_for_the_model_the_guest_and_the_kernel() {
    let kvm = haltwise_lab::vm::open().is_ok();
    for (what, script, expected) in BOTH {
        let (steps, expected) = (steps(script), bytes(expected));
        assert_eq!(modelled(&steps), expected, "{what}, the model");
        for in_kernel in [false, true] {
            if kvm {
                let seen = seen_by_guest(&steps, in_kernel);
                let (seen, rest) = seen.split_at(expected.len());
                assert_eq!(seen, expected, "{what}, in the kernel: {in_kernel}");
                assert!(rest.iter().all(|byte| *byte == 0), "{what}: {in_kernel}");
            }
        }
    }
}

#[test]
fn polling_and_the_special_mask_follow_the_data_sheet() {
    for (what, script, expected) in MODEL {
        assert_eq!(modelled(&steps(script)), bytes(expected), "{what}");
    }
}

#[test]
fn a_level_triggered_line_asks_as_long_as_it_is_up() {
    let mut pic = PicPair::default();
    for (port, value) in INITIALIZE {
        pic.write(port, &[value]);
    }
    pic.write(0x4d0, &[0xff]);
    let mut level = [0];
    pic.read(0x4d0, &mut level);
    assert_eq!(level, [0xf8], "system lines stay edges");
    pic.set(5, true);
    for _ in 0..2 {
        assert_eq!(pic.acknowledge(), 0x65);
        assert!(!pic.interrupts());
        pic.write(0x20, &[0x20]);
        assert!(pic.interrupts());
    }
    pic.set(5, false);
    assert!(!pic.interrupts());
}

#[test]
fn what_is_none_of_its_business_is_refused() {
    let mut pic = PicPair::default();
    pic.set(16, true);
    pic.write(0x20, &[]);
    pic.write(0x20, &[0x11, 0]);
    pic.write(0x22, &[1]);
    pic.read(0x20, &mut [0, 0]);
    pic.read(0xffff, &mut [0]);
    assert_eq!(pic.refused, 6);
    let untouched = PicPair {
        refused: 6,
        ..PicPair::default()
    };
    assert_eq!(pic, untouched);
}

/// All that the kernel and the data sheet have in common.
fn step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![
        (0_u8..8, 0_u8..8).prop_map(|(what, line)| what << 5 | line),
        Just(0x0a),
        Just(0x0b),
        Just(0x20),
    ];
    prop_oneof![
        3 => (0_u16..16).prop_filter("the cascade", |line| *line != 2).prop_map(|line| Step::Out(LINE_PORT + line, PULSE)),
        1 => (0_u16..16, 0_u8..2).prop_filter("the cascade", |(line, _)| *line != 2)
            .prop_map(|(line, raised)| Step::Out(LINE_PORT + line, raised)),
        2 => (prop_oneof![Just(0x20), Just(0xa0)], command).prop_map(|(port, value)| Step::Out(port, value)),
        1 => (prop_oneof![Just(0x21), Just(0xa1)], any::<u8>()).prop_map(|(port, value)| Step::Out(port, value)),
        1 => prop_oneof![Just(0x20), Just(0x21), Just(0xa0), Just(0xa1)].prop_map(Step::In),
        3 => Just(Step::Window),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_script_sees_the_same_of_the_model_and_of_the_kernel(
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let steps = initialized(&steps);
        let modelled = modelled(&steps);
        if haltwise_lab::vm::open().is_ok() {
            for in_kernel in [false, true] {
                let seen = seen_by_guest(&steps, in_kernel);
                prop_assert_eq!(&seen[..modelled.len()], &modelled[..], "in the kernel: {}", in_kernel);
            }
        }
    }
}
