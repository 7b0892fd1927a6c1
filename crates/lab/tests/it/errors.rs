//! Commands that cannot work say why and what to do, and end with the exit code for that.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use crate::lab::{LAB, kvm, lab};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nonsense_is_a_usage_error() {
    for args in [
        "run",
        "run linux",
        "run pingpong --gap fixed:20",
        "run pingpong --rounds 5 --duration 1s",
        "run pingpong --cap 5s",
        "run pingpong --vcpus 65",
        "run pingpong --rounds 0",
        "run pingpong --vcpus 0",
        "run ipi --vcpus 1",
        "run tick-pit --vcpus 2",
        "run tick-pit --gap exp:1ms",
        "run idle --gap fixed:1us",
        "run tick --halt-loop off",
        "run pingpong-stamped --halt-loop off",
        "run pingpong --halt-loop none",
        "run pingpong --halt-loop fixed",
        "run pingpong --halt-loop off --cap 0",
        "run poller --guest-poll kvm",
        "run poller --guest-poll fixed:10us",
        "run poller --guest-poll guest-haltpoll:most=1us",
    ] {
        let output = lab(args);
        assert_eq!(output.status.code(), Some(2), "{args}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error: "), "{args}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let output = lab("run pingpong --gap trace:/nonexistent/gaps");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("`/nonexistent/gaps`"));
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
fn without_kvm_the_host_is_unsupported() {
    // A mount namespace of its own, with an empty /dev.
    let script = "mount -t tmpfs none /dev 2>/dev/null || exit 77; exec \"$0\" run pingpong";
    let mut command = Command::new("unshare");
    let output = command.args(["-m", "sh", "-c", script, LAB]).output();
    let Some(output) = output
        .ok()
        .filter(|o| !matches!(o.status.code(), Some(1 | 77)))
    else {
        println!("skipped: cannot hide /dev (needs root and unshare)");
        return;
    };
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(
        text.starts_with("error: open /dev/kvm: this host offers no KVM"),
        "{text}"
    );
    assert!(text.contains("\nhint: load the kvm module"), "{text}");
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
fn without_permission_the_hint_says_who_may() {
    let Some(()) = kvm() else { return };
    // Only root can become another user, and that user must be able to reach the binary.
    let mut nobody = Command::new(LAB);
    let output = nobody
        .args(["run", "pingpong"])
        .uid(65534)
        .gid(65534)
        .output();
    let Ok(output) = output else {
        println!("skipped: cannot run as nobody");
        return;
    };
    if output.status.success() {
        println!("skipped: everybody may use /dev/kvm here");
        return;
    }
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(
        text.starts_with("error: open /dev/kvm: not permitted"),
        "{text}"
    );
    assert!(text.contains("\nhint: run as root"), "{text}");
}
