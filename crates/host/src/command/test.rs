//! Real commands, with children that outlive them unless they are ended.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use std::fs;
use std::path::Path;

use super::*;

fn words(script: &str, arguments: &[&Path]) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).into();
    words.extend(arguments.iter().map(|path| path.as_os_str().to_owned()));
    words
}

/// Waits until a file has text.
fn text_of(path: &Path) -> String {
    for _ in 0..3000 {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => std::thread::sleep(STEP),
        }
    }
    panic!("nothing came to {}", path.display());
}

/// Whether a process of this group runs. Those that their parents have not waited for yet have ended.
fn lives(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let processes = fs::read_dir("/proc").unwrap();
    let stats = processes.filter_map(|it| fs::read_to_string(it.unwrap().path().join("stat")).ok());
    stats.into_iter().any(|stat| {
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let is_over = matches!(fields.first(), Some(&("Z" | "X")));
        !is_over && fields.get(2) == Some(&group.as_str())
    })
}

fn assert_gone(group: Pid) {
    // Killed is not yet dead.
    let gone = (0..3000).any(|_| {
        let lives = lives(group);
        if lives {
            std::thread::sleep(STEP);
        }
        !lives
    });
    assert!(gone, "{group:?}");
}

#[test]
fn the_whole_group_ends_with_the_command_that_we_end() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let script = "sleep 1000 & echo ready > \"$1\"; sleep 1000";
    let running = Running::start(&words(script, &[&ready]), None).unwrap();
    assert_eq!(text_of(&ready), "ready\n");
    assert!(!running.has_ended());
    let group = running.group();
    assert!(lives(group));
    assert_eq!(running.end().unwrap(), Ended::Asked);
    assert_gone(group);
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let running = Running::start(&words("sleep 1000 & exit 3", &[]), None).unwrap();
    let group = running.group();
    while !running.has_ended() {
        std::thread::sleep(STEP);
    }
    let ended = running.end().unwrap();
    assert!(
        matches!(ended, Ended::Itself(status) if status.code() == Some(3)),
        "{ended:?}"
    );
    assert_gone(group);
}

#[test]
fn who_does_not_listen_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let script = "trap '' TERM; echo ready > \"$1\"; while :; do sleep 1; done";
    let running = Running::start(&words(script, &[&ready]), None).unwrap();
    text_of(&ready);
    let group = running.group();
    assert_eq!(running.end().unwrap(), Ended::Asked);
    assert_gone(group);
}

#[test]
fn a_command_that_is_dropped_ends() {
    let running = Running::start(&words("sleep 1000", &[]), None).unwrap();
    let group = running.group();
    drop(running);
    assert_gone(group);
}

#[test]
fn what_cannot_start_says_why() {
    let error = Running::start(&["/there/is/no/such/program".into()], None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(Running::start(&[], None).is_err());
}

#[test]
fn somebody_else_has_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root: only root can run a command as somebody else");
        return;
    }
    let Ok(nobody) = Account::find("nobody") else {
        println!("skipped: this system has no user nobody");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = fs::File::create(&out).unwrap();
    drop(file);
    rustix::fs::chmod(&out, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    rustix::fs::chmod(dir.path(), rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
    let script = "{ id -u; id -ru; id -G; echo $USER; \
                  grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status; echo end; } > \"$1\"";
    let running = Running::start(&words(script, &[&out]), Some(nobody.clone())).unwrap();
    while !running.has_ended() {
        std::thread::sleep(STEP);
    }
    drop(running);
    let text = text_of(&out);
    let lines: Vec<&str> = text.lines().collect();
    let uid = nobody.uid().to_string();
    assert_eq!(lines[..2], [&uid, &uid], "{text}");
    assert!(!lines[2].split(' ').any(|group| group == "0"), "{text}");
    assert_eq!(lines[3], "nobody");
    let capabilities = &lines[4..lines.len() - 1];
    assert_eq!(capabilities.len(), 4, "{text}");
    let is_none = |line: &&str| line.ends_with("\t0000000000000000");
    assert!(capabilities.iter().all(is_none), "{text}");
}
