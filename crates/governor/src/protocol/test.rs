//! Encoded messages decode to themselves; any other bytes are refused or are a message.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

#[test]
fn requests_come_back() {
    let requests = [
        Request::List,
        Request::SetCeiling { fd: 17, ns: 0 },
        Request::SetCeiling {
            fd: i32::MAX,
            ns: u32::MAX,
        },
    ];
    for request in requests {
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        assert_eq!(Request::decode(&bytes[1..]), None);
        // Another magic, version or kind.
        for at in [0, 4, 7] {
            let mut other = bytes;
            other[at] ^= 0x40;
            assert_eq!(Request::decode(&other), None, "byte {at}");
        }
    }
}

#[test]
fn replies_come_back() {
    let vm = |fd, ceiling_ns| Vm { fd, ceiling_ns };
    let many = (0..20).map(|fd| vm(fd, Some(1_000)));
    for reply in [
        Reply::of(22),
        Reply::list([vm(9, None), vm(11, Some(0)), vm(12, Some(u32::MAX))]),
        Reply::list(many),
    ] {
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        assert!(reply.vms().len() <= MAX_VMS);
    }
    let mut bytes = Reply::list([vm(9, None)]).encode();
    bytes[12] = 17;
    assert_eq!(
        Reply::decode(&bytes),
        None,
        "more VMs than there is room for"
    );
    bytes[12] = 1;
    bytes[20] = 2;
    assert_eq!(
        Reply::decode(&bytes),
        None,
        "neither with nor without a ceiling"
    );
}

#[test]
fn names_come_back() {
    assert_eq!(read_memfd_name(&memfd_name(17)), Some((VERSION, 17)));
    for other in [
        "",
        "haltwise-governor:",
        "haltwise-governor:1",
        "haltwise-governor:x:1",
        "else:1:1",
    ] {
        assert_eq!(read_memfd_name(other), None);
    }
}
