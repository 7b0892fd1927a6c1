//! A ring of captures: no halt is lost between segments, the oldest go, and a recorder may be killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_capture::ring::{RingInfo, Segment, all_segments};
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, has_recorded, json, told, until_so};
use crate::counted::counted;

/// Segments of a second, which is the shortest there is.
const KEPT: &str = "--keep 12s --max-size 64M";

fn ring(bench: &Bench, options: &str) -> (Running, PathBuf) {
    let path = bench.path("ring");
    let before = all_segments(&path).unwrap_or_default().len();
    let recorder = Running::start(
        Command::new(haltwise())
            .args(["record", "--duration", "60s", "--json"])
            .args(options.split(' '))
            .arg("-o")
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    wait_for_segments(&path, before + 1);
    (recorder, path)
}

fn wait_for_segments(ring: &Path, least: usize) {
    let has_begun = |it: &Segment| it.path.join("capture.json").exists();
    until_so("segments", || {
        let there = all_segments(ring).unwrap_or_default();
        there.iter().filter(|it| has_begun(it)).count() >= least
    });
}

fn halts_of(capture: &Capture, tid: u32) -> Vec<haltwise_core::event::Halt> {
    let rows = capture.halts().unwrap().map(Result::unwrap);
    rows.filter(|halt| halt.tid.0 == tid).collect()
}

#[test]
fn segments_together_have_each_halt_once() {
    let Some(bench) = Bench::set_up() else { return };
    let (recorder, path) = ring(&bench, KEPT);
    let lab = bench.lab_ran("pingpong --name in-a-ring --gap fixed:150us --duration 5s");
    has_recorded(&recorder.end(Signal::INT));

    let joined = Capture::open(&path).unwrap();
    let counted = counted(&lab);
    let [vcpu] = counted.as_slice() else {
        panic!("{counted:?}")
    };
    let segments = all_segments(&path).unwrap();
    assert!(segments.len() >= 4, "{segments:?}");
    let halts_in = |segment: &Segment| {
        let capture = Capture::open(&segment.path).unwrap();
        halts_of(&capture, vcpu.tid).len()
    };
    let alone: Vec<usize> = segments.iter().map(halts_in).collect();
    let halts = halts_of(&joined, vcpu.tid);
    assert_eq!(halts.len(), alone.iter().sum::<usize>(), "{alone:?}");
    let with_halts = alone.iter().filter(|&&halts| halts > 0);
    assert!(with_halts.count() >= 3, "{alone:?}");
    if joined.info().lost.is_empty() {
        // A HLT whose interrupt came before KVM looked is an exit, and no halt.
        assert!(halts.len() as u64 <= vcpu.halt_exits, "{alone:?}");
        let waited = halts.iter().filter(|halt| halt.waited).count();
        assert_eq!(waited as u64, vcpu.waits, "{alone:?}");
        let polled = halts.iter().filter(|halt| halt.polled == Some(true));
        assert_eq!(polled.count() as u64, vcpu.attempted, "{alone:?}");
    }
    assert!(halts.is_sorted_by_key(|halt| halt.start_ns));

    other_verbs_read_it(&bench, &segments[1], halts.len());
}

fn other_verbs_read_it(bench: &Bench, segment: &Segment, halts: usize) {
    let reported = bench.page("report --json ring");
    let vms = reported["vms"].as_array().unwrap();
    let ours = vms.iter().find(|vm| vm["name"] == "in-a-ring").unwrap();
    assert_eq!(ours["account"]["halts"].as_u64(), Some(halts as u64));
    for line in [
        "--capture ring",
        "tune ring",
        // Guests of other tests may disable host polling.
        "verify ring --vm in-a-ring",
        "report --findings ring",
        "top ring --once",
        &format!("diff ring {}", segment.path.display()),
    ] {
        has_recorded(&bench.ran(line));
    }
}

#[test]
fn the_oldest_go_and_what_went_is_reported() {
    let Some(bench) = Bench::set_up() else { return };
    let _vm = bench.keep_halting("fixed:500us", "outlives");
    let (recorder, path) = ring(&bench, "--keep 2s");
    bench.lab_ran("pingpong --name is-gone --rounds 500");
    let names = |ring: &Path| -> Vec<String> {
        let vms = Capture::open(ring).map(|ring| ring.info().roster.vms.clone());
        let vms = vms.unwrap_or_default().into_iter();
        vms.map(|vm| vm.name).collect()
    };
    let has = |name: &str| names(&path).iter().any(|it| it == name);
    until_so("a VM", || has("is-gone"));
    until_so("its end", || !has("is-gone"));
    assert!(has("outlives"), "{:?}", names(&path));
    let dropped = || RingInfo::read(&path).map_or(0, |info| info.dropped.segments);
    until_so("dropped segments", || dropped() >= 2);
    let output = recorder.end(Signal::INT);
    let said = json(&output);
    let info = RingInfo::read(&path).unwrap();
    let has_dropped = info.dropped.segments >= 2 && info.dropped.halts > 0;
    assert!(has_dropped, "{info:?}");
    assert_eq!(said["ring"]["dropped"]["segments"], info.dropped.segments);
    let segments = all_segments(&path).unwrap();
    assert!(segments.iter().all(|it| it.number >= info.oldest));
    assert_eq!(said["ring"]["segments"], segments.len());
    let joined = Capture::open(&path).unwrap();
    assert!(joined.notes().contains(&Note::Dropped(info.dropped)));
}

#[test]
fn a_ring_whose_recorder_is_killed_is_read_and_goes_on() {
    let Some(bench) = Bench::set_up() else { return };
    let _vm = bench.keep_halting("fixed:500us", "outlives");
    let mut first = 0;
    for round in 0..3 {
        let (recorder, path) = ring(&bench, KEPT);
        let info = RingInfo::read(&path).unwrap();
        assert!(round == 0 || info.first > first, "{info:?} after {first}");
        first = info.first;
        // At another moment each time: between segments, and while tables are made.
        wait_for_segments(&path, usize::try_from(first).unwrap() + 1);
        std::thread::sleep(Duration::from_millis(130 * round));
        recorder.end(Signal::KILL);

        let joined = Capture::open(&path).unwrap();
        assert!(joined.notes().contains(&Note::Cut), "{:?}", joined.notes());
        let together = joined.halts().unwrap().map(Result::unwrap).count();
        let mut alone = 0;
        for segment in all_segments(&path).unwrap() {
            if segment.number >= first && segment.path.join("capture.json").exists() {
                let capture = Capture::open(&segment.path).unwrap();
                alone += capture.halts().unwrap().map(Result::unwrap).count();
            }
        }
        assert!(alone > 0 && together == alone, "{together} of {alone}");
    }
    // Two recorders in one ring would write over each other.
    let (_recorder, _) = ring(&bench, KEPT);
    let refused = bench.ran("record --keep 1h -o ring");
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("a recorder is writing to it"), "{why}");
}
