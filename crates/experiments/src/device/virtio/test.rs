//! A driver's way through the registers of a device with several queues, and the ways that are refused.

pub(in crate::device) mod driver;

use vm_memory::{Bytes as _, GuestAddress};

use self::driver::{negotiate, set, set_up};
use super::*;
use haltwise_lab::memory::GuestMemory;

const FEATURES: u64 = feature::VERSION_1 | feature::EVENT_IDX;
const CONFIG: [u8; 3] = [7, 8, 9];

fn transport() -> Transport {
    let model = Model {
        device_id: 1,
        features: FEATURES,
        config: CONFIG.to_vec(),
    };
    Transport::new(model, &[16, 4, 8]).unwrap()
}

fn get(transport: &mut Transport, register: u32) -> u32 {
    let mut bytes = [0xee; 4];
    transport.read(register.into(), &mut bytes);
    u32::from_le_bytes(bytes)
}

#[test]
fn each_queue_is_its_own_and_none_is_beyond_the_last() {
    let mut transport = transport();
    let memory = GuestMemory::new().unwrap().mapped().clone();
    negotiate(&mut transport, 0);
    for (queue, most) in [(0, 16), (1, 4), (2, 8), (3, 0), (u32::MAX, 0)] {
        set(&mut transport, &[(register::QUEUE_SEL, queue)]);
        assert_eq!(get(&mut transport, register::QUEUE_NUM_MAX), most);
        assert_eq!(get(&mut transport, register::QUEUE_READY), 0);
    }
    set_up(&mut transport, 0, 16, 0x1_0000);
    set_up(&mut transport, 2, 2, 0x1_1000);
    for (queue, ready) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
        set(&mut transport, &[(register::QUEUE_SEL, queue)]);
        assert_eq!(get(&mut transport, register::QUEUE_READY), ready);
    }
    assert!(transport.queue(0, &memory).is_none(), "not yet ready");
    set(&mut transport, &[(register::STATUS, status::READY)]);
    let sizes = [0, 1, 2, 3].map(|index| transport.queue(index, &memory).map(|q| q.size()));
    assert_eq!(sizes, [Some(16), None, Some(2), None]);
    assert_eq!(transport.refused, 0);
    for (value, notified) in [(0_u32, Some(0)), (2, Some(2)), (3, None), (u32::MAX, None)] {
        let told = transport.write(register::QUEUE_NOTIFY.into(), &value.to_le_bytes());
        assert_eq!(told, notified);
    }
    assert_eq!(transport.refused, 2, "queues that are not there");
    set(&mut transport, &[(register::STATUS, 0)]);
    assert!((0..3).all(|index| transport.queue(index, &memory).is_none()));
}

#[test]
fn what_is_out_of_order_changes_no_queue() {
    let mut transport = transport();
    // Before the features are agreed upon.
    set_up(&mut transport, 0, 8, 0x1_0000);
    assert_eq!(transport.refused, 5, "all but the selection");
    negotiate(&mut transport, 0);
    // A queue that is not there, sizes that cannot be, and a queue that is ready already.
    set_up(&mut transport, 3, 8, 0x1_0000);
    assert_eq!(transport.refused, 10);
    set(&mut transport, &[(register::QUEUE_SEL, 1)]);
    for size in [0, 3, 8, 0x1_0004] {
        set(&mut transport, &[(register::QUEUE_NUM, size)]);
    }
    assert_eq!(transport.refused, 14);
    set_up(&mut transport, 1, 4, 0x1_0000);
    set(&mut transport, &[(register::QUEUE_NUM, 2)]);
    assert_eq!(transport.refused, 15);
    // Accesses of another width, and to no register.
    transport.write(register::STATUS.into(), &[1]);
    transport.write(1 << 40, &[0; 4]);
    transport.read(2, &mut [0; 4]);
    assert_eq!(transport.refused, 18);
    // A driver that is ready sets up no more.
    set(&mut transport, &[(register::STATUS, status::READY)]);
    set_up(&mut transport, 2, 8, 0x1_0000);
    assert_eq!(transport.refused, 23);
}

#[test]
fn a_queue_that_reaches_out_of_memory_is_not_given() {
    let memory = GuestMemory::new().unwrap().mapped().clone();
    for (at, given) in [(0xf_f000, true), (0xf_fe00, false), (0xffff_0000, false)] {
        let mut transport = transport();
        negotiate(&mut transport, 0);
        set_up(&mut transport, 0, 16, at);
        set(&mut transport, &[(register::STATUS, status::READY)]);
        assert_eq!(transport.queue(0, &memory).is_some(), given, "{at:#x}");
    }
}

#[test]
fn features_are_agreed_upon_only_if_all_of_them_are_there() {
    for (lower, upper, agreed) in [
        (0, 1, true),
        (1 << 29, 1, true),
        (0, 0, false),
        (1 << 29, 0, false),
        (1, 1, false),
        (0, 3, false),
    ] {
        let mut transport = transport();
        set(
            &mut transport,
            &[
                (register::DRIVER_FEATURES, lower),
                (register::DRIVER_FEATURES_SEL, 1),
                (register::DRIVER_FEATURES, upper),
                // There are no more than 64.
                (register::DRIVER_FEATURES_SEL, 2),
                (register::DRIVER_FEATURES, u32::MAX),
                (register::STATUS, 3 | status::FEATURES_OK),
            ],
        );
        let took = get(&mut transport, register::STATUS) & status::FEATURES_OK != 0;
        assert_eq!(took, agreed, "{lower:#x} {upper:#x}");
    }
    let mut transport = transport();
    let halves = [0, 1, 2, u32::MAX].map(|half| {
        set(&mut transport, &[(register::DEVICE_FEATURES_SEL, half)]);
        get(&mut transport, register::DEVICE_FEATURES)
    });
    assert_eq!(halves, [1 << 29, 1, 0, 0]);
}

#[test]
fn a_driver_that_takes_event_indices_is_told_by_them() {
    let memory = GuestMemory::new().unwrap().mapped().clone();
    for (lower, wants) in [(0, true), (feature::EVENT_IDX, false)] {
        let mut transport = transport();
        negotiate(&mut transport, lower);
        set_up(&mut transport, 0, 4, 0x1_0000);
        set(&mut transport, &[(register::STATUS, status::READY)]);
        // It wants to hear of the sixth buffer.
        let used_event = GuestAddress(0x1_0100 + 4 + 2 * 4);
        memory.write_obj(5_u16, used_event).unwrap();
        let queue = transport.queue(0, &memory).unwrap();
        queue.add_used(&memory, 0, 0).unwrap();
        assert_eq!(queue.needs_notification(&memory).unwrap(), wants);
    }
}

#[test]
fn an_interrupt_is_seen_until_it_is_acknowledged() {
    let mut transport = transport();
    let interrupt = Arc::clone(&transport.interrupt);
    assert_eq!(get(&mut transport, register::INTERRUPT_STATUS), 0);
    interrupt.raise();
    assert_eq!(get(&mut transport, register::INTERRUPT_STATUS), USED_BUFFER);
    set(&mut transport, &[(register::INTERRUPT_ACK, !USED_BUFFER)]);
    assert_eq!(get(&mut transport, register::INTERRUPT_STATUS), USED_BUFFER);
    set(&mut transport, &[(register::INTERRUPT_ACK, USED_BUFFER)]);
    assert_eq!(get(&mut transport, register::INTERRUPT_STATUS), 0);
    interrupt.raise();
    set(&mut transport, &[(register::STATUS, 0)]);
    assert_eq!(get(&mut transport, register::INTERRUPT_STATUS), 0);
    // Accesses of another width reach no register.
    assert_eq!(transport.refused, 0);
    transport.read(register::INTERRUPT_STATUS.into(), &mut [0; 2]);
    transport.write(register::INTERRUPT_ACK.into(), &[1; 8]);
    assert_eq!(transport.refused, 2);
}

#[test]
fn the_configuration_ends_where_it_ends() {
    let mut transport = transport();
    for (at, length, read) in [(0, 3, true), (2, 1, true), (0, 4, false), (3, 1, false)] {
        let refused = transport.refused;
        let mut bytes = vec![0xee; length];
        transport.read(u64::from(register::CONFIG) + at, &mut bytes);
        let start = usize::try_from(at).unwrap();
        let expected = CONFIG.get(start..start + length).map(<[u8]>::to_vec);
        assert_eq!(expected.is_some(), read);
        assert_eq!(bytes, expected.unwrap_or_else(|| vec![0; length]));
        assert_eq!(transport.refused - refused, u64::from(!read));
    }
}
