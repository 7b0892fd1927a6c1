//! Entry point for the fuzz target and its smoke run: any text in, no panic, no text that lies. And
//! what holds of every halt, for the targets of other crates.
//!
//! Not part of the library's interface.

use crate::event::Halt;
use crate::units::Nanos;
use crate::workload::{GapSpec, Gaps, parse_trace};

const DRAWN: usize = 16;

/// Reads bytes as a duration, a gap process and a trace; gives as how many of the three.
///
/// # Panics
/// If what is printed does not read back as the same, or a gap lies outside its process.
pub fn text(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    u64::from(duration(&text)) + u64::from(process(&text)) + u64::from(trace(&text))
}

fn duration(text: &str) -> bool {
    let Ok(read) = text.parse::<Nanos>() else {
        return false;
    };
    assert_eq!(read.to_exact().parse(), Ok(read), "printed exactly");
    // Three digits: half a unit of the last one, and what a float takes away. Above 2^64 ns the
    // rounded text does not fit any more.
    if let Ok(rounded) = read.to_string().parse::<Nanos>() {
        let error = rounded.0.abs_diff(read.0);
        assert!(error <= read.0 / 199, "{read} for {} ns", read.0);
    }
    true
}

fn process(text: &str) -> bool {
    let Ok(spec) = text.parse::<GapSpec>() else {
        return false;
    };
    assert_eq!(spec.to_string().parse(), Ok(spec.clone()), "{spec}");
    let Ok(mut gaps) = Gaps::new(spec.clone(), 1) else {
        assert!(matches!(spec, GapSpec::Trace(_)), "{spec} draws nothing");
        return true;
    };
    for _ in 0..DRAWN {
        let gap = gaps.draw();
        let expected = match &spec {
            GapSpec::Fixed(only) => gap == *only,
            GapSpec::Uniform(low, high) => (*low..=*high).contains(&gap),
            GapSpec::Bimodal(_, first, second) => [*first, *second].contains(&gap),
            GapSpec::Phases(phases) => phases.iter().any(|(phase, _)| *phase == gap),
            GapSpec::Exp(_) | GapSpec::Trace(_) => true,
        };
        assert!(expected, "{spec} drew {gap}");
    }
    true
}

fn trace(text: &str) -> bool {
    let Ok(gaps) = parse_trace(text) else {
        return false;
    };
    let lines: String = gaps.iter().map(|gap| gap.to_exact() + "\n").collect();
    assert_eq!(parse_trace(&lines), Ok(gaps.clone()), "printed as a trace");
    let drawn = Gaps::from_trace("fuzz", gaps.clone()).map(|mut drawn| drawn.draw());
    assert_eq!(drawn.ok().as_ref(), gaps.first(), "its first gap");
    true
}

/// Asserts the invariants of a halt, whatever the events were that told of the halt up to `told_ns`.
///
/// # Panics
/// If the halt contradicts itself.
pub fn must_be_sound(halt: &Halt, told_ns: u64) {
    assert!(halt.start_ns <= told_ns, "begins in the future: {halt:?}");
    if halt.halt_ns <= told_ns {
        assert!(halt.end_ns() <= told_ns, "ends in the future: {halt:?}");
    }
    if !halt.waited {
        assert_eq!(halt.wake_latency_ns, Some(0), "{halt:?}");
        assert!(!halt.is_preempted(), "{halt:?}");
    }
    let parts = [halt.wake_latency_ns, halt.poll_ns];
    for part in parts.into_iter().flatten() {
        assert!(part <= halt.halt_ns, "a part exceeds the whole: {halt:?}");
    }
    if let (Some(poll), Some(window)) = (halt.poll_ns, halt.window_ns) {
        assert!(
            poll <= u64::from(window),
            "polled past its window: {halt:?}"
        );
        assert!(!halt.is_preempted() || poll < u64::from(window), "{halt:?}");
    }
    if let (Some(window), Some(ceiling)) = (halt.window_ns, halt.ceiling_ns) {
        assert!(window <= ceiling, "a window above its ceiling: {halt:?}");
    }
}
