//! Agents that answer, that do not, and that answer anything.
#![allow(clippy::unwrap_used, reason = "a test")]

pub(crate) mod fake;

use self::fake::{FakeAgent, Mood};
use super::*;

const CEILING: Parameter = Parameter::GuestHaltPollNs;

fn key() -> VmKey {
    VmKey::first(Pid(std::process::id()), 7)
}

fn made() -> (tempfile::TempDir, Root, FakeAgent) {
    let dir = tempfile::tempdir().unwrap();
    let agent = FakeAgent::start(dir.path(), key());
    let root = Root::at(dir.path());
    (dir, root, agent)
}

fn refusal(root: &Root) -> String {
    let sessions = Sessions::default();
    let read = sessions.read(root, key(), CEILING);
    let error = read.and_then(|_| sessions.write(root, key(), CEILING, "1"));
    error.unwrap_err().to_string()
}

#[test]
fn a_value_is_read_written_and_read_again() {
    let (_dir, root, agent) = made();
    let sessions = Sessions::default();
    let read = |parameter| {
        let seen = sessions.read(&root, key(), parameter).unwrap().unwrap();
        assert_eq!(seen.boot.as_deref(), Some(fake::BOOTS[0]));
        seen.value
    };
    assert_eq!(read(CEILING), "200000");
    assert_eq!(read(Parameter::GuestAllowShrink), "Y");
    sessions.write(&root, key(), CEILING, "750000").unwrap();
    assert_eq!(read(CEILING), "750000");
    assert_eq!(agent.value(CEILING), "750000");
    let asked = agent.asked();
    let count = |name: &str| asked.iter().filter(|it| *it == name).count();
    assert_eq!((count("guest-sync-delimited"), count("guest-info")), (1, 1));
    assert_eq!(count("guest-file-open"), count("guest-file-close"));
    let absent = sessions.read(&root, key(), Parameter::GuestShrink);
    let absent = absent.unwrap_err().to_string();
    assert!(
        absent.contains("the guest has no such parameter"),
        "{absent}"
    );
}

#[test]
fn an_agent_that_denies_files_is_named_with_its_setting() {
    let (_dir, root, agent) = made();
    agent.is(Mood::Denied);
    let denied = refusal(&root);
    for part in [
        "guest-file-open",
        "--block-rpcs",
        "--allow-rpcs",
        "BLACKLIST_RPC",
        "/etc/sysconfig/qemu-ga",
    ] {
        assert!(denied.contains(part), "{denied}");
    }
    assert!(!agent.asked().contains(&"guest-file-open".to_owned()));
}

#[test]
fn an_agent_that_is_silent_or_slow_is_waited_for_once() {
    for mood in [Mood::Silent, Mood::Slow(Duration::from_millis(700))] {
        let (_dir, root, agent) = made();
        agent.is(mood);
        let sessions = Sessions::default();
        let begin = Instant::now();
        let read = (0..20).map(|_| sessions.read(&root, key(), CEILING));
        let error = read.last().unwrap().unwrap_err().to_string();
        let took = begin.elapsed();
        assert!(error.contains("did not answer in time: is"), "{error}");
        assert!(took >= PATIENCE && took < 2 * PATIENCE, "{took:?}");
    }
}

#[test]
fn a_vm_that_has_ended_and_a_socket_of_another_are_not_asked() {
    let (dir, root, agent) = made();
    let later = VmKey::first(key().pid, 8);
    let sessions = Sessions::default();
    assert_eq!(sessions.read(&root, later, CEILING).unwrap(), None);
    let gone = VmKey::first(Pid(1), 7);
    assert_eq!(sessions.read(&root, gone, CEILING).unwrap(), None);
    // Another VMM's command line names the same socket.
    let theirs = VmKey::first(Pid(1), 1);
    std::fs::remove_file(dir.path().join("qga.sock")).unwrap();
    let other = FakeAgent::start(dir.path(), theirs);
    let error = sessions.read(&root, theirs, CEILING).unwrap_err();
    assert!(matches!(error, AgentError::OtherOwner { .. }), "{error}");
    assert_eq!((agent.asked().len(), other.asked().len()), (0, 0));
}

/// Each is an error that can be printed, within the time limit, and none is believed.
#[test]
fn hostile_answers_are_errors() {
    let deep = "[".repeat(200_000).into_bytes();
    let long = vec![b' '; 300 << 10];
    let of_read = |text: &str| {
        let text = STANDARD.encode(text);
        format!(r#"{{"return":{{"count":9,"buf-b64":"{text}","eof":true}}}}"#).into_bytes()
    };
    let cases = [
        ("guest-info", deep.clone()),
        ("guest-info", long),
        ("guest-info", b"{}".to_vec()),
        ("guest-info", b"null".to_vec()),
        (
            "guest-info",
            br#"{"return":{"supported_commands":7}}"#.to_vec(),
        ),
        (
            "guest-info",
            b"{\"error\":{\"class\":\"X\",\"desc\":\"\\u001b[2J\\nroot# \\u202e\"}}".to_vec(),
        ),
        ("guest-file-open", br#"{"return":"1000"}"#.to_vec()),
        ("guest-file-open", br#"{"return":1e400}"#.to_vec()),
        (
            "guest-file-read",
            br#"{"return":{"count":-1,"buf-b64":"%%%%","eof":true}}"#.to_vec(),
        ),
        ("guest-file-read", of_read("\u{1b}[2J")),
        ("guest-file-read", of_read("80us\n")),
        ("guest-file-read", of_read("007\n")),
        ("guest-file-read", of_read("4294967296\n")),
        ("guest-file-read", of_read(&"1".repeat(100))),
        ("guest-file-close", deep),
    ];
    for (command, bytes) in cases {
        let (_dir, root, agent) = made();
        agent.is(Mood::Says(command, bytes));
        let text = refusal(&root);
        assert!(
            text.chars().all(|c| !c.is_control() && c != '\u{202e}'),
            "{text:?}"
        );
        assert!(text.len() < 1_000, "{text}");
    }
}

#[test]
fn virsh_is_given_the_uuid_and_ended_when_it_is_late() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let program = |text: &str| {
        let path = dir.path().join("virsh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path.display().to_string()
    };
    let ask = |text: &str| {
        let virsh = Virsh::new(&program(text), "u-u".to_owned(), Pid(7));
        virsh.ask(
            "guest-info",
            "{}",
            Instant::now() + Duration::from_millis(100),
        )
    };
    let line = "-c qemu:///system qemu-agent-command --timeout 1 u-u {}\n";
    assert_eq!(ask("echo \"$*\"").unwrap(), line.as_bytes());
    let error = ask("echo 'error: Guest agent is not \u{1b}connected' >&2; exit 1").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("Guest agent is not") && !text.contains('\u{1b}'),
        "{text:?}"
    );
    assert!(matches!(ask("exec sleep 60"), Err(AgentError::Silent(_))));
    assert!(matches!(
        ask("yes"),
        Err(AgentError::Refused { .. } | AgentError::Silent(_))
    ));
}
