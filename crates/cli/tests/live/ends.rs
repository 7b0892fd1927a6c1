//! However a recording ends, what was recorded is kept and nothing stays attached.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use haltwise_capture::capture::Capture;
use haltwise_core::workload::SplitMix64;
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, has_recorded, ran, told, until, until_so};
use crate::tries::{judge, tries};

fn programs_of_ours() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy().starts_with("on_vcpu_wakeup"))
        .count()
}

/// A lab that keeps halting, and a recorder of it that has written something.
fn recorder(bench: &Bench) -> (Running, Running) {
    let lab = bench.keep_halting("fixed:200us", "ends");
    let recorder = Running::start(
        Command::new(haltwise())
            .args(["record", "--duration", "30s", "-o"])
            .arg(bench.path("capture"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let stream = bench.path("capture/halts.arrows");
    until_so("what is written", || {
        std::fs::metadata(&stream).is_ok_and(|file| file.len() > 20_000)
    });
    (lab, recorder)
}

fn halts(bench: &Bench) -> (Capture, usize) {
    let capture = bench.capture("capture");
    let count = capture.halts().unwrap().map(Result::unwrap).count();
    (capture, count)
}

#[test]
fn sigterm_ends_a_recording_cleanly() {
    let Some(bench) = Bench::set_up() else { return };
    let (lab, recorder) = recorder(&bench);
    let output = recorder.end(Signal::TERM);
    lab.end(Signal::TERM);
    assert!(output.status.success(), "{}", told(&output));
    let (capture, halts) = halts(&bench);
    assert!(halts > 0);
    assert_eq!(capture.info().ended.as_ref().unwrap().by, "SIGTERM");
    assert!(capture.notes().is_empty(), "{:?}", capture.notes());
}

#[test]
fn a_recording_through_sudo_is_for_who_ran_it_alone() {
    let Some(bench) = Bench::set_up() else { return };
    let by = 12_345;
    let recorded = Command::new(haltwise())
        .args("record --duration 1s --exits --no-command -o".split(' '))
        .arg(bench.path("above/capture"))
        .env("SUDO_UID", by.to_string())
        .env("SUDO_GID", by.to_string())
        .output()
        .unwrap();
    has_recorded(&recorded);
    let capture = bench.path("above/capture");
    let mut all = vec![bench.path("above"), capture.clone()];
    let files = std::fs::read_dir(&capture).unwrap();
    all.extend(files.map(|file| file.unwrap().path()));
    assert!(all.len() > 8, "{all:?}");
    for path in all {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let mode = if found.is_dir() { 0o700 } else { 0o600 };
        let told = (found.uid(), found.gid(), found.mode() & 0o7777);
        assert_eq!(told, (by, by, mode), "{}", path.display());
    }
    let capture = Capture::open(&capture).unwrap();
    assert_eq!(capture.info().command, [""; 0]);
}

/// Kills a recorder some time after it has begun to write; what is wrong with what is left.
fn kill_and_read(bench: &Bench, name: &str, after: Duration) -> Option<String> {
    let recorder = bench.recorder(name, "--mode full");
    std::thread::sleep(after);
    recorder.end(Signal::KILL);
    let dir = bench.path(name);
    let report = bench.ran(&format!("report --json {name}"));
    if report.status.code() != Some(5) {
        return Some(told(&report));
    }
    let rows = |when: &str| {
        let rows = || {
            let capture = Capture::open(&dir).map(Capture::as_stored)?;
            capture.halts()?.collect::<Result<Vec<_>, _>>()
        };
        rows().map_err(|error| format!("{when}: {error}"))
    };
    let read = || {
        let cut = rows("cut")?;
        let repair = bench.ran(&format!("check {name} --finish"));
        // 5: the last batch may be torn.
        if !matches!(repair.status.code(), Some(0 | 5)) {
            return Err(told(&repair));
        }
        if rows("repaired")? != cut {
            return Err("other rows after repair".to_owned());
        }
        Ok(())
    };
    read().err()
}

#[test]
fn killed_at_any_moment_a_recording_is_read_and_repaired() {
    let Some(bench) = Bench::set_up() else { return };
    let tries = tries(12);
    let lab = bench.keep_halting("fixed:100us", "ends");
    let mut random = SplitMix64(14);
    let mut failures = Vec::new();
    for number in 0..tries {
        let after = Duration::from_micros(random.below(1_200_000));
        let name = format!("killed-{number}");
        let wrong = kill_and_read(&bench, &name, after);
        failures.extend(wrong.map(|wrong| format!("after {after:?}: {wrong}")));
    }
    lab.end(Signal::TERM);
    judge("recorder killed at any moment", tries, &failures);
}

/// Output and exit code of a recorder after `harm` is done to its capture.
fn told_after(bench: &Bench, harm: impl Fn(&Path)) -> (Option<i32>, String) {
    let (lab, recorder) = recorder(bench);
    harm(&bench.path("capture"));
    // The recorder notices it within a flush, and ends by itself.
    let output = recorder.output();
    lab.end(Signal::TERM);
    (output.status.code(), told(&output))
}

#[test]
fn a_capture_that_is_removed_or_moved_while_it_is_recorded_ends_it() {
    for harm in [
        // The recorder may add a file meanwhile.
        (|path| until("an empty folder", || std::fs::remove_dir_all(path).ok())) as fn(&Path),
        |path| std::fs::rename(path, path.with_file_name("elsewhere")).unwrap(),
        |path| std::fs::remove_file(path.join("halts.arrows")).unwrap(),
        |path| {
            std::fs::remove_file(path.join("halts.arrows")).unwrap();
            std::fs::write(path.join("halts.arrows"), "another").unwrap();
        },
    ] {
        let Some(bench) = Bench::set_up() else { return };
        let (code, said) = told_after(&bench, harm);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("removed, moved or replaced"), "{said}");
    }
}

/// Contents of a directory of root: the names and bytes of its files.
fn held(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files.extend(held(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            files.push((path, bytes));
        }
    }
    files.sort();
    files
}

/// The shell of another user, who owns the directory above the capture; it is ended with its group.
fn by_another(dir: &Path, script: &str) -> Running {
    Running::start(
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(["sh", "-c", script])
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
}

/// Root records below a directory of another, who puts others in the capture's place all the time: links to a capture
/// of root's and directories of his own. What root has elsewhere stays as it is, and a capture that is said to
/// have been recorded is whole.
#[test]
fn nothing_is_written_elsewhere_when_another_replaces_the_directory_of_a_recording() {
    let Some(bench) = Bench::set_up() else { return };
    let tries = tries(6);
    let victims = bench.path("victims");
    bench.record("", "pingpong --rounds 100");
    std::fs::create_dir(&victims).unwrap();
    std::fs::rename(bench.path("capture"), victims.join("cap")).unwrap();
    bench.record("--keep 1m", "pingpong --rounds 100");
    std::fs::rename(bench.path("capture"), victims.join("ring")).unwrap();
    let before = held(&victims);
    let lab = bench.keep_halting("fixed:200us", "ends");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bench.path("."), open).unwrap();
    let swaps = [
        // The capture's own name, and that of a directory above it.
        "mv a/$C a/away; ln -s $V/$C a/$C; rm a/$C; mkdir a/$C; rmdir a/$C; mv a/away a/$C",
        "mv a away; ln -s $V a; rm a; mv away a",
    ];
    let (mut failures, mut noticed) = (Vec::new(), 0);
    let mut random = SplitMix64(1402);
    for number in 0..tries {
        let dir = bench.path(&format!("foreign-{number}"));
        std::fs::create_dir_all(dir.join("a")).unwrap();
        for of in [dir.clone(), dir.join("a")] {
            chown(of, Some(65_534), Some(65_534)).unwrap();
        }
        let swap = swaps[usize::try_from(number % 2).unwrap()];
        // Every third run records a ring, whose segments are created and removed all the time.
        let (name, options) = match number % 3 {
            2 => ("ring", "--duration 4s --keep 1s"),
            _ => ("cap", "--duration 1s"),
        };
        let swap = swap.replace("$V", victims.to_str().unwrap());
        let swap = swap.replace("$C", name);
        let wait = random.below(1_200);
        let (seconds, millis) = (wait / 1000, wait % 1000);
        let script = format!(
            "until [ -d a/{name} ]; do :; done; sleep {seconds}.{millis:03}; while :; do {swap}; done"
        );
        let another = by_another(&dir, &script);
        let capture = dir.join("a").join(name);
        let recorder = ran(&format!("record {options} -o {}", capture.display()));
        another.end(Signal::KILL);
        if held(&victims) != before {
            failures.push(format!("{number}: written elsewhere: {}", told(&recorder)));
            break;
        }
        match recorder.status.code() {
            Some(0 | 5) => {}
            Some(1) => noticed += 1,
            _ => failures.push(format!("{number}: {}", told(&recorder))),
        }
    }
    lab.end(Signal::TERM);
    println!("{noticed} of {tries} recordings ended by it");
    judge("directories replaced while recorded", tries, &failures);
}

#[test]
fn a_vm_that_dies_while_recorded_is_kept() {
    let Some(bench) = Bench::set_up() else { return };
    let (lab, recorder) = recorder(&bench);
    lab.end(Signal::KILL);
    let output = recorder.end(Signal::INT);
    assert!(output.status.success(), "{}", told(&output));
    let (capture, halts) = halts(&bench);
    assert!(halts > 0);
    assert!(!capture.info().roster.vms.is_empty());
}

#[test]
fn nothing_of_ours_is_left_in_the_kernel() {
    let Some(bench) = Bench::set_up() else { return };
    let before = programs_of_ours();
    bench.record("", "pingpong --rounds 100");
    // Other tests of this file may come and go meanwhile; ours must not add to them for good.
    until_so("as few programs as before", || programs_of_ours() <= before);
}

#[test]
fn a_full_disk_does_not_end_a_recording_and_keeps_what_fits() {
    let Some(bench) = Bench::set_up() else { return };
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(&disk)
        .status()
        .unwrap();
    if !mounted.success() {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    // Record this VM alone: VMs of other tests come and go.
    let lab = bench.keep_halting("fixed:30us", "full-disk");
    let output = bench.ran("record --vm full-disk -o disk/capture -- sleep 5");
    lab.end(Signal::TERM);
    let capture = Capture::open(&disk.join("capture"));
    let kept = capture
        .as_ref()
        .map(|capture| capture.halts().unwrap().filter_map(Result::ok).count());
    let lost = capture.as_ref().map(|it| it.info().lost.clone());
    let ended = capture.as_ref().map(|it| it.info().ended.clone());
    let report = bench.ran("report disk/capture");
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("No space left"), "{said}");
    assert!(said.contains("error: convert table"), "{said}");
    assert!(kept.unwrap() > 0, "{said}");
    assert!(said.contains("recording goes on"), "{said}");
    assert_eq!(ended.unwrap().unwrap().by, "command ended");
    // Data that did not fit is counted, although nothing more fitted.
    let lost = lost.unwrap();
    let halts = lost.get("disk refused rows of table halts").copied();
    assert!(halts.unwrap_or(0) > 0, "{lost:?} {said}");
    assert!(said.contains("is safe: `haltwise report"), "{said}");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(
        report.contains("disk refused rows of table halts"),
        "{report}"
    );
}
