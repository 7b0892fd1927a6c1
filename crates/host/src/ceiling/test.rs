//! Processes that pretend to be a VMM, this one among them: each is reported as what it is, and nothing waits.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::fd::AsRawFd;

use haltwise_governor::protocol::memfd_name;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendFlags, send};

use super::*;

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
