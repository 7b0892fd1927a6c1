//! Directories and files as another user may leave them for root: FIFOs, links, devices, foreign owners.
//!
//! Every command has a time after which it is ended, so that one that waits for ever fails.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode};

use super::import::sample;
use super::{scenarios, write};

/// Exit code that stands for a command that `timeout` had to kill.
const WAITED: i32 = 124;

fn haltwise(dir: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60"])
        .arg(env!("CARGO_BIN_EXE_haltwise"))
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or(WAITED), said)
}

/// Puts something else in the place of a file.
type Make = fn(&Path);

fn capture(dir: &Path) {
    write(scenarios::named("transactional"), &dir.join("cap"));
}

fn fifo(path: &Path) {
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_capture_of_fifos_links_and_devices_is_refused_by_every_verb() {
    let verbs = "report,report --exits,report --profile,report --findings,verify,tune --policy usual,tune,top --once,diff cap,check,check --repair new,--capture";
    let makes: [(&str, Make); 3] = [
        ("a FIFO", fifo),
        ("a symbolic link", |path| {
            symlink("/dev/zero", path).unwrap();
        }),
        ("a symbolic link", |path| {
            symlink("../secret", path).unwrap();
        }),
    ];
    for (kind, make) in makes {
        for file in ["capture.json", "halts.parquet"] {
            let dir = tempfile::tempdir().unwrap();
            capture(dir.path());
            let path = dir.path().join("cap").join(file);
            fs::rename(&path, dir.path().join("secret")).unwrap();
            make(&path);
            for verb in verbs.split(',') {
                let mut words: Vec<&str> = verb.split(' ').collect();
                words.push("cap");
                let (code, said) = haltwise(dir.path(), &words);
                // Exits and samples do not look at halts, and say of their own that there are none.
                assert!((1..=5).contains(&code), "{verb} of {kind}: {code} {said}");
                if file == "capture.json" || verb == "verify" {
                    assert!(said.contains(kind), "{verb}: {said}");
                }
            }
        }
    }
}

#[test]
fn an_import_takes_a_pipe_and_no_device_and_ends_by_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    fifo(&dir.path().join("trace"));
    let import = |file: &str| format!("exec \"$0\" import -o cap {file}");
    let run = |script: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "sh", "-c", script]);
        command.arg(env!("CARGO_BIN_EXE_haltwise"));
        command.current_dir(dir.path()).output().unwrap()
    };
    // No process ever writes: the signal comes while it waits, and not before it catches SIGTERM, the 15th.
    let script = "\"$0\" import -o cap trace & \
                  until grep -q '^SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.1; done; \
                  sleep 1; kill -TERM $!; wait $!";
    let waited = run(script);
    let said = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(1), "{said}");
    assert!(said.contains("SIGTERM came"), "{said}");
    assert!(!dir.path().join("cap").exists());

    let refused = run(&import("/dev/zero"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("it is a device, not a regular file"),
        "{said}"
    );

    fs::copy(sample("ftrace_tgid.txt"), dir.path().join("text")).unwrap();
    let script = format!("cat text > trace & {}", import("trace"));
    let taken = run(&script);
    let said = String::from_utf8_lossy(&taken.stderr);
    assert_eq!(taken.status.code(), Some(0), "{said}");
    assert!(dir.path().join("cap/halts.parquet").exists());
}

#[test]
fn a_plan_that_is_a_fifo_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fifo(&dir.path().join("plan"));
    for words in [&["apply", "plan"][..], &["prove", "--plan", "plan"]] {
        let (code, said) = haltwise(dir.path(), words);
        assert!([1, 2].contains(&code), "{words:?}: {code} {said}");
        assert!(said.contains("a FIFO"), "{said}");
    }
}

#[test]
fn what_is_written_goes_through_no_link() {
    let dir = tempfile::tempdir().unwrap();
    capture(dir.path());
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let link = dir.path().join("out");
    symlink(&victim, &link).unwrap();
    for words in [
        "report cap --html out",
        "tune cap --plan out",
        "report cap --profile --folded out",
        "import -o out text",
        "record -o out --duration 1s",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, said) = haltwise(dir.path(), &words);
        assert!((1..=5).contains(&code), "{words:?}: {code} {said}");
        assert_eq!(fs::read(&victim).unwrap(), b"mine", "{words:?}: {said}");
        assert!(link.is_symlink(), "{words:?}: {said}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "what is skipped is said")]
fn a_directory_of_another_or_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(sample("ftrace_tgid.txt"), dir.path().join("text")).unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut refused = vec![("open", "others may write to the directory (mode 777)")];
    if rustix::process::geteuid().is_root() {
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(65_534), None).unwrap();
        refused.push(("foreign", "the directory belongs to user 65534"));
    } else {
        println!("skipped: only root makes directories of others");
    }
    for (name, why) in refused {
        // Known names of what is written there, as links.
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        for words in [
            format!("record -o {name} --duration 1s"),
            format!("import -o {name} text"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let (code, said) = haltwise(dir.path(), &words);
            assert_eq!(code, 1, "{words:?}: {said}");
            assert!(said.contains(why), "{words:?}: {said}");
        }
        assert_eq!(fs::read_dir(dir.path().join(name)).unwrap().count(), 0);
    }
}
