//! Processes that pretend to be a VMM, this one among them: each is reported as what it is, and nothing waits.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use haltwise_governor::protocol::memfd_name;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg, send};

use super::*;

mod hanging;

fn this() -> Pid {
    Pid(std::process::id())
}

/// Answer of this process while it shows a memfd of this name.
fn asked(name: &str) -> Result<Vec<Governed>, CeilingError> {
    let _sign = memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
    Governor::of(&Root::host(), this())?.vms()
}

/// One test: all of them show their memfd in the same process.
#[test]
fn pretenders_are_told() {
    let told = |result: Result<Vec<Governed>, CeilingError>| result.unwrap_err().to_string();
    let none = told(Governor::of(&Root::host(), this()).map(|_| Vec::new()));
    assert!(none.contains("without libhaltwise_preload.so"), "{none}");
    let other = told(asked("haltwise-governor:7:3"));
    assert!(other.contains("has version 7"), "{other}");
    // A number that is no fd, or no socket.
    let closed = told(asked(&memfd_name(9_999)));
    assert!(closed.contains("has ended"), "{closed}");
    let file = std::fs::File::open("/dev/null").unwrap();
    let file = told(asked(&memfd_name(file.as_raw_fd())));
    assert!(file.contains("is no socket"), "{file}");
    // No process has the other end.
    let (end, other_end) = taken::pair().unwrap();
    drop(other_end);
    let gone = told(asked(&memfd_name(end.as_raw_fd())));
    assert!(gone.contains("closed its socket"), "{gone}");
    // One who answers what is no reply, and one who lists what is no VM.
    let (end, answering) = taken::pair().unwrap();
    let reply = Reply::list([haltwise_governor::protocol::Vm {
        fd: 0,
        ceiling_ns: Some(1),
    }]);
    for bytes in [&[1, 2, 3][..], &reply.encode()] {
        let answering = answering.try_clone().unwrap();
        let bytes = bytes.to_vec();
        let thread = std::thread::spawn(move || answer(&answering, &bytes));
        let result = asked(&memfd_name(end.as_raw_fd()));
        thread.join().unwrap();
        match result {
            Ok(vms) => assert_eq!(vms, [], "standard input is no VM"),
            Err(error) => assert!(error.to_string().contains("is no reply"), "{error}"),
        }
    }
}

/// To close what this VMM shows takes for ever, and so does looking for a path below it: a child does both.
#[test]
fn files_of_a_vmm_that_never_answer_do_not_block() {
    let Some(files) = hanging::Hanging::mount() else {
        println!("skipped: no FUSE, or not permitted to mount it");
        return;
    };
    let mut vmm = Command::new("sh")
        .args(["-c", "exec 3<\"$1\"; exec sleep 600", "sh"])
        .arg(files.file())
        .spawn()
        .unwrap();
    let pid = vmm.id();
    while std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| !exe.ends_with("sleep")) {
        std::thread::yield_now();
    }
    let stat = format!("{pid} (vmm) S {}9 0", "0 ".repeat(18));
    let (folder, root) = crate::root::made_up(&[(&format!("proc/{pid}/stat"), &stat)]);
    let fds = folder.path().join(format!("proc/{pid}/fd"));
    std::fs::create_dir_all(&fds).unwrap();
    let sign = format!("/memfd:{} (deleted)", memfd_name(3));
    std::os::unix::fs::symlink(sign, fds.join("4")).unwrap();
    let asked = || obstacles(&root, &[Pid(pid)].into())[&Pid(pid)].clone();
    let (first, second) = (asked(), asked());
    let take = |name: &str| {
        let at = At::path(&files.file().with_file_name(name)).unwrap();
        let of = rustix::process::Pid::INIT;
        taken::take(&[Shown { of, at }]).remove(0).unwrap_err()
    };
    let (no_socket, hung) = (take("file"), [take("never"), take("never")]);
    drop(files);
    vmm.kill().unwrap();
    vmm.wait().unwrap();
    assert!(first.contains("is no socket"), "{first}");
    assert!(
        second.contains("the child that asked it before hangs"),
        "{second}"
    );
    assert_eq!(no_socket, (Step::Connect, Errno::CONNREFUSED));
    assert_eq!(hung.map(|it| it.0), [Step::Start, Step::Hangs]);
}

/// Takes one request and answers it with these bytes.
fn answer(socket: &OwnedFd, bytes: &[u8]) {
    let mut into = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut into)];
    recvmsg(socket, &mut into, &mut control, RecvFlags::empty()).unwrap();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                send(&fd, bytes, SendFlags::NOSIGNAL).unwrap();
            }
        }
    }
}
