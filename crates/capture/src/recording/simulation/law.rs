//! Laws of every capture that is left.

use haltwise_core::event::{Facts, Halt};

use super::read::facts_of;
use super::{End, Outcome, World};
use crate::capture::Capture;
use crate::convert::convert;
use crate::error::CaptureReadError;
use crate::files::Directory;
use crate::info::{CaptureInfo, State, refused};
use crate::note::Note;
use crate::table::Table;

/// Halts up to the first that cannot be read.
fn halts_of(capture: &Capture) -> Vec<Halt> {
    let rows = capture.halts().into_iter().flatten();
    rows.map_while(Result::ok).collect()
}

pub(super) fn while_recording(directory: &std::path::Path, taken: &[Halt]) {
    let capture = Capture::open(directory).unwrap().as_stored();
    assert!(capture.notes().contains(&Note::StillRecording));
    assert_eq!(halts_of(&capture), taken);
}

pub(super) fn holds(world: &World, outcome: Outcome) {
    let no_power = world.end == End::PowerLost;
    if no_power {
        world.disk.lose_power();
    }
    // Flushed data is there.
    let sound = !no_power || world.disk.is_true();
    if let Outcome::NotCreated(error) = outcome {
        return not_created(world, &error);
    }
    let capture = match Capture::open(&world.directory) {
        Ok(capture) => capture,
        // A disk that has flushed nothing when the last word was spoken may have lost both copies of it.
        Err(_) if !sound && world.ending => return,
        Err(error) => panic!("{error:?} after {outcome:?}"),
    };
    match outcome {
        Outcome::Finished if sound => assert_eq!(capture.info().state, State::Complete),
        // A disk that is no more than full takes the last word.
        Outcome::NotFinished if sound && world.disk.was_only_full() => {
            assert!(capture.info().ended.is_some());
        }
        Outcome::Abandoned if sound => assert!(capture.info().ended.is_some()),
        _ => {}
    }
    let complete = capture.info().state == State::Complete;
    let ended = capture.info().ended.is_some() && sound && (complete || !no_power);
    let capture = capture.as_stored();
    let halts = halts_of(&capture);
    assert!(
        world.taken.starts_with(&halts),
        "{} rows of {} that were taken, {outcome:?}",
        halts.len(),
        world.taken.len()
    );
    let read = facts_of(&capture);
    if ended {
        exact(world, &capture, read.as_ref().unwrap());
        if complete {
            let rows = capture.vcpus().unwrap().map(Result::unwrap);
            assert!(rows.eq(capture.info().roster.vcpus.iter().cloned()));
        }
    } else {
        cut(world, &capture, &read);
    }
    // One capture in eight is converted, to save time.
    if let Ok(facts) = read
        && !complete
        && world.seed.is_multiple_of(8)
    {
        convert(&world.directory).unwrap();
        let capture = Capture::open(&world.directory).unwrap().as_stored();
        assert_eq!(facts_of(&capture).unwrap(), facts, "made into tables");
    }
}

/// Where nothing was begun there is nothing, so that it can be tried again.
fn not_created(world: &World, error: &crate::error::CaptureWriteError) {
    let ours = Directory::open(&world.directory);
    let ended = world.disk.has_ended() || world.end == End::PowerLost;
    if !ended && !world.disk.failed_to_remove() {
        let left = ours.is_ok_and(|ours| !ours.is_empty().unwrap());
        assert!(!left, "something is left after {error}");
    }
}

/// Rows of each table but that of losses.
fn sizes(of: &Facts) -> [(Table, usize); 11] {
    let profile = &of.profile;
    [
        (Table::Halts, of.halts.len()),
        (Table::WindowChanges, of.windows.len()),
        (Table::HaltCounts, of.counts.len()),
        (Table::Knobs, of.knobs.len()),
        (Table::HostSamples, of.host.len()),
        (Table::IdleStates, of.idle_states.len()),
        (Table::Exits, of.exits.len()),
        (Table::SampleFrames, profile.frames.len()),
        (Table::SampleStacks, profile.stacks.len()),
        (Table::SampleThreads, profile.threads.len()),
        (Table::Samples, profile.samples.len()),
    ]
}

/// Rows of a table that the disk did not take.
fn lost(info: &CaptureInfo, table: Table) -> usize {
    let lost = info.lost.get(&refused(table)).copied();
    usize::try_from(lost.unwrap_or(0)).unwrap()
}

/// Each event that was reported is a row or a loss.
fn exact(world: &World, capture: &Capture, read: &Facts) {
    let reported = &world.collector.reported;
    let info = capture.info();
    for (nth, (table, read)) in sizes(read).into_iter().enumerate() {
        let rows: usize = reported.iter().map(|facts| sizes(facts)[nth].1).sum();
        assert_eq!(read + lost(info, table), rows, "{table}: {:?}", info.lost);
    }
    losses(world, info, read);
    roster(world, info);
}

/// VMs that found no room are counted, and those that came first are there.
fn roster(world: &World, info: &CaptureInfo) {
    let all = &world.collector.roster;
    let (vms, vcpus) = (&info.roster.vms, &info.roster.vcpus);
    assert_eq!(vms.len() + lost(info, Table::Vms), all.vms.len());
    assert_eq!(vcpus.len() + lost(info, Table::Vcpus), all.vcpus.len());
    if vms.len() == all.vms.len() {
        assert_eq!(*vms, all.vms);
    }
    // Those that had room are as they were then.
    let first = all.vms.iter().map(|vm| vm.index).take(vms.len());
    assert!(vms.iter().map(|vm| vm.index).eq(first));
    assert_eq!(vcpus[..], all.vcpus[..vcpus.len()]);
    assert!(vcpus.iter().all(|vcpu| (vcpu.vm.0 as usize) < vms.len()));
}

/// Losses are as they were reported, and no loss is there twice.
fn losses(world: &World, info: &CaptureInfo, read: &Facts) {
    // The collector's losses are as the collector reported them.
    for (place, count) in &world.collector.lost {
        assert_eq!(info.lost.get(place), Some(count), "{place}");
    }
    // The table of losses says nothing that the sums do not.
    for place in read.lost.iter().map(|lost| &lost.place) {
        let rows = read.lost.iter().filter(|lost| lost.place == *place);
        let rows: u64 = rows.map(|lost| lost.count).sum();
        assert!(rows <= info.lost[place], "{place}: {rows}");
    }
}

/// A capture without its end says so, and holds what cannot be taken from it any more.
fn cut(world: &World, capture: &Capture, read: &Result<Facts, CaptureReadError>) {
    let notes = capture.notes();
    assert!(
        notes.contains(&Note::Cut) || capture.info().state == State::Complete,
        "{notes:?}"
    );
    if world.end != End::PowerLost {
        let read = read.as_ref().unwrap();
        assert_eq!(read.halts.len(), world.taken.len());
    }
}
