//! `haltwise import`: what it says, with which exit code, and that reports of its captures are made.

use std::fs;
use std::path::{Path, PathBuf};

use super::piped::fed;

pub(super) fn sample(name: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    home.join("../capture/tests/import/samples").join(name)
}

/// Exit code, stdout and stderr of haltwise in a directory, with something on its stdin.
fn haltwise(dir: &Path, line: &str, stdin: &[u8]) -> (i32, String, String) {
    fed(dir, &line.split(' ').collect::<Vec<_>>(), stdin, dir)
}

/// An imported capture, as `name` in a directory.
pub(super) fn write(dir: &Path, name: &str) {
    fs::copy(sample("ftrace_tgid.txt"), dir.join("trace.txt")).unwrap();
    let line = format!("import -o {name} --kernel 6.18 --max 200us trace.txt");
    let (code, _, said) = haltwise(dir, &line, b"");
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn a_text_becomes_a_capture_that_reports_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(sample("ftrace_tgid.txt"), dir.path().join("trace.txt")).unwrap();
    let line =
        "import -o cap --kernel 6.18 trace.txt --max 200us --grow 2 --grow-start 10us --shrink 2";
    let (code, out, err) = haltwise(dir.path(), line, b"");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [
            "Read 212 lines, 200 of them events",
            "Imported 80 halts of 1 VM and 1 vCPU over 44.8 ms to cap (0.1 MB)",
            "Next: haltwise report cap",
        ]
    );
    let (code, out, err) = haltwise(dir.path(), "report cap", b"");
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "Linux 6.18",
        "kvm: halt_poll_ns 200000, grow 2, grow_start 10000, shrink 2",
        "ceiling 200 us (module parameter)",
        "source import",
        "lost: nothing",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    // The same from stdin, as JSON; and no capture is written over.
    let text = fs::read(sample("ftrace_tgid.txt")).unwrap();
    let (code, out, _) = haltwise(dir.path(), "import -o cap2 --json -", &text);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &json["schema"], &json["halts"]),
        (0, &1.into(), &80.into())
    );
    let (code, out, err) = haltwise(dir.path(), "import -o cap -", &text);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "error: import stdin: create capture cap: the directory is not empty\n\
         hint: captures are never overwritten: name another directory\n"
    );
}

#[test]
fn what_is_passed_over_is_said_and_makes_the_result_partial() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = fs::read(sample("perf_ns.txt")).unwrap();
    text.extend_from_slice(b"nonsense\n");
    let (code, out, err) = haltwise(dir.path(), "import -o cap -", &text);
    assert_eq!(
        (code, err.as_str()),
        (5, "Skipped: 1 (import: damaged lines)\n")
    );
    assert!(
        out.contains("Imported 166 halts of 1 VM and 1 vCPU"),
        "{out}"
    );
    let (code, out, _) = haltwise(dir.path(), "report cap", b"");
    assert_eq!(code, 5);
    assert!(out.contains("import: damaged lines"), "{out}");
}

#[test]
fn what_is_no_text_of_a_tracer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (text, error) in [
        (
            &b"PERFILE2\x68\0\0\0"[..],
            "error: import stdin: it is perf.data, not text\n\
             hint: make text of it first: perf script -i stdin | haltwise import -o DIR -\n",
        ),
        (
            b"",
            "error: import stdin: it is empty\nhint: record kvm:kvm_vcpu_wakeup and",
        ),
        (
            b"hello\n",
            "error: import stdin: none of its 1 lines is an event",
        ),
        (
            b"  x-1 [000] ..... 1.000000: kvm_msr: msr_read 1\n",
            "error: import stdin: none of its 1 events is a halt",
        ),
    ] {
        let (code, out, err) = haltwise(dir.path(), "import -o cap -", text);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.starts_with(error), "{err}");
        assert!(err.contains("\nhint: "), "{err}");
    }
    let (code, _, err) = haltwise(dir.path(), "import -o cap nowhere", b"");
    assert_eq!(code, 1);
    assert_eq!(
        err,
        "error: read nowhere: No such file or directory (os error 2)\n"
    );
    let (code, _, err) = haltwise(dir.path(), "import -o cap .", b"");
    assert_eq!(code, 1);
    assert!(
        err.starts_with("error: read .: is a directory\nhint: "),
        "{err}"
    );
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "something is left"
    );
}
