//! Parameters in a guest, set from its host: by the real `qemu-ga`, which sees a tmpfs of ours in the place of `/sys`.
//!
//! Says `skipped: reason` where `qemu-ga` or root is missing.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Host;

const PARAMETERS: &str = "sys/module/haltpoll/parameters";

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Mounts what is below `$1/sys` in the place of `/sys`, for itself alone, and becomes the agent. It ends where that is
/// still the kernel's.
const BEGIN: &str = "mount --bind \"$1/sys\" /sys && [ ! -e /sys/kernel ] && [ -e /sys/ours ] && exec \"$2\" \
                     --method unix-listen --path \"$1/qga.sock\" --statedir \"$1\" --pidfile \"$1/qga.pid\" $3";

fn start(guest: &Path, options: &str) -> Option<Agent> {
    let program = ["/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"];
    let Some(program) = program.into_iter().find(|it| Path::new(it).exists()) else {
        println!("skipped: no qemu-ga");
        return None;
    };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root");
        return None;
    }
    let parameters = guest.join(PARAMETERS);
    fs::create_dir_all(&parameters).unwrap();
    fs::write(guest.join("sys/ours"), "").unwrap();
    for (name, value) in [
        ("guest_halt_poll_ns", "200000"),
        ("guest_halt_poll_grow", "2"),
    ] {
        fs::write(parameters.join(name), format!("{value}\n")).unwrap();
    }
    let child = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            BEGIN,
            "sh",
        ])
        .arg(guest)
        .args([program, options])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        println!("skipped: no unshare");
        return None;
    };
    let mut agent = Agent(child);
    let until = Instant::now() + Duration::from_secs(10);
    while !guest.join("qga.sock").exists() {
        if agent.0.try_wait().unwrap().is_some() {
            println!("skipped: no mounts of its own are permitted here");
            return None;
        }
        assert!(Instant::now() < until, "qemu-ga did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(agent)
}

/// The agent's process as that of a QEMU whose guest it is in.
fn show(host: &Host, pid: u32, guest: &Path) {
    let process = format!("proc/{pid}");
    let path = guest.join("qga.sock");
    let line = format!(
        "/usr/bin/qemu-system-x86_64\0-name\0guest=web1\0-chardev\0socket,path={},server=on,id=qga0\0-device\0\
         virtserialport,chardev=qga0,name=org.qemu.guest_agent.0\0",
        path.display()
    );
    host.set(&format!("{process}/cmdline"), &line);
    host.set(&format!("{process}/comm"), "qemu-system-x86");
    let before = "0 ".repeat(18);
    host.set(
        &format!("{process}/stat"),
        &format!("{pid} (qemu) S {before}7 0"),
    );
    fs::create_dir_all(host.path(&format!("{process}/fd"))).unwrap();
    fs::create_dir_all(host.path(&format!("{process}/task"))).unwrap();
    symlink("anon_inode:kvm-vm", host.path(&format!("{process}/fd/9"))).unwrap();
    symlink("/", host.path(&format!("{process}/root"))).unwrap();
}

/// Runs a line, with the agent's pid as 7; its code and everything that it said.
fn said(host: &Host, pid: u32, line: &str) -> String {
    let (code, out, err) = host.run(line);
    println!("$ haltwise {line}\n{out}{err}(exit code {code:?})\n");
    let text = format!("{out}{err}(exit code {})", code.unwrap_or(-1));
    text.replace(&format!("pid {pid}"), "pid 7")
}

const DRY_RUN: &str = "\
Would set:
  guest_halt_poll_grow in web1 (pid 7)  2 -> 4
  guest_halt_poll_ns in web1 (pid 7)    200000 -> 750000  (200 us -> 750 us)
Nothing was changed; --yes makes the changes, `haltwise undo` reverts them.
(exit code 0)";

#[test]
fn the_real_agent_sets_and_restores() {
    let host = Host::new("6.12.8-golden");
    let guest = host.path("../guest");
    let Some(agent) = start(&guest, "") else {
        return;
    };
    let pid = agent.0.id();
    show(&host, pid, &guest);
    let value = |name: &str| {
        let text = fs::read_to_string(guest.join(PARAMETERS).join(name));
        text.unwrap().trim().to_owned()
    };
    let in_guest = || [value("guest_halt_poll_ns"), value("guest_halt_poll_grow")];
    let set = "apply --vm web1 --set guest_halt_poll_ns=750000 --set guest_halt_poll_grow=4";
    let columns = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(columns(&said(&host, pid, set)), columns(DRY_RUN));
    assert_eq!(in_guest(), ["200000", "2"]);
    let done = said(&host, pid, &format!("{set} --yes"));
    assert!(
        done.starts_with("Set:") && done.ends_with("(exit code 0)"),
        "{done}"
    );
    assert_eq!(in_guest(), ["750000", "4"]);
    let status = said(&host, pid, "status");
    assert!(
        status.contains("guest_halt_poll_ns in web1 (pid 7)"),
        "{status}"
    );
    // Another value meanwhile is left.
    fs::write(guest.join(PARAMETERS).join("guest_halt_poll_grow"), "3\n").unwrap();
    let undone = said(&host, pid, "undo");
    assert!(
        undone.contains("left alone: modified externally"),
        "{undone}"
    );
    assert!(undone.ends_with("(exit code 5)"), "{undone}");
    assert_eq!(in_guest(), ["200000", "3"]);
    // A VM that has ended has nothing to restore.
    said(
        &host,
        pid,
        "apply --vm web1 --set guest_halt_poll_ns=1us --yes",
    );
    fs::remove_dir_all(host.path(&format!("proc/{pid}/fd"))).unwrap();
    fs::remove_file(host.path(&format!("proc/{pid}/stat"))).unwrap();
    let undone = said(&host, pid, "undo");
    assert!(undone.contains("is gone: the VM has ended"), "{undone}");
}

#[test]
fn a_real_agent_that_denies_files_is_reported() {
    let host = Host::new("6.12.8-golden");
    let guest = host.path("../guest");
    let option = "--blacklist=guest-file-open,guest-file-write";
    let Some(agent) = start(&guest, option) else {
        return;
    };
    let pid = agent.0.id();
    show(&host, pid, &guest);
    let text = said(
        &host,
        pid,
        "apply --vm web1 --set guest_halt_poll_ns=750us --yes",
    );
    for part in "does not permit guest-file-open,--block-rpcs,fw_cfg,(exit code 3)".split(',') {
        assert!(text.contains(part), "{text}");
    }
}
