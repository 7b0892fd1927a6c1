//! Processes that pretend to be a VMM, this one among them: each is reported as what it is, and nothing waits.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use haltwise_governor::protocol::memfd_name;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::*;

mod hanging;

fn this() -> Pid {
    Pid(std::process::id())
}

/// What comes of asking this process while it shows a memfd of this name.
fn asked(name: &str) -> Result<Vec<Governed>, CeilingError> {
    let _sign = memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
    Governor::of(&Root::host(), this())?.vms()
}

fn pair() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
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
    // Nobody at the other end; somebody who never reads.
    let (end, other_end) = pair();
    drop(other_end);
    let gone = told(asked(&memfd_name(end.as_raw_fd())));
    assert!(gone.contains("closed its socket"), "{gone}");
    // One who answers what is no reply, and one who lists what is no VM.
    let (end, answering) = pair();
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

/// To close what these show, or answer with, takes for ever: a child does it, and the answer is there all the same.
#[test]
fn a_file_that_cannot_be_closed_holds_nobody_up() {
    let Some(files) = hanging::Hanging::mount() else {
        println!("skipped: no FUSE, or not permitted to mount it");
        return;
    };
    let root = |socket: i32| {
        let (folder, root) = crate::root::made_up(&[(
            &format!("proc/{}/stat", this()),
            &format!("{} (vmm) S {}9 0", this(), "0 ".repeat(18)),
        )]);
        let fds = folder.path().join(format!("proc/{}/fd", this()));
        std::fs::create_dir_all(&fds).unwrap();
        let sign = format!("/memfd:{} (deleted)", memfd_name(socket));
        std::os::unix::fs::symlink(sign, fds.join("3")).unwrap();
        (folder, root)
    };
    let shown = std::mem::ManuallyDrop::new(files.file());
    let (_folder, of_file) = root(shown.as_raw_fd());
    for _ in 0..2 {
        let error = obstacles(&of_file, &[this()]).remove(0).unwrap();
        assert!(error.contains("is no socket"), "{error}");
    }
    let (end, answering) = pair();
    let (_folder, of_socket) = root(end.as_raw_fd());
    let thread = std::thread::spawn(move || answer_with(&answering, &[1, 2, 3], Some(&*shown)));
    let error = obstacles(&of_socket, &[this()]).remove(0).unwrap();
    assert!(error.contains("is no reply"), "{error}");
    thread.join().unwrap();
}

/// Takes one request and answers it with these bytes.
fn answer(socket: &OwnedFd, bytes: &[u8]) {
    answer_with(socket, bytes, None);
}

/// The same with a file attached.
fn answer_with(socket: &OwnedFd, bytes: &[u8], file: Option<&std::fs::File>) {
    let mut into = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut into)];
    recvmsg(socket, &mut into, &mut control, RecvFlags::empty()).unwrap();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let files = file.map(|file| [file.as_fd()]);
                if let Some(files) = &files {
                    control.push(SendAncillaryMessage::ScmRights(files));
                }
                let bytes = [IoSlice::new(bytes)];
                sendmsg(&fd, &bytes, &mut control, SendFlags::NOSIGNAL).unwrap();
            }
        }
    }
}
