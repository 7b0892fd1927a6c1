//! Bytes as the kernel lays them out, whole, cut and damaged.

use super::*;

fn body(chain: &[u64], tag: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [77_u64, 0x5555] {
        bytes.extend(word.to_ne_bytes());
    }
    for half in [4711_u32, 4712] {
        bytes.extend(half.to_ne_bytes());
    }
    bytes.extend(123_456_789_u64.to_ne_bytes());
    for half in [3_u32, 0] {
        bytes.extend(half.to_ne_bytes());
    }
    bytes.extend(1_003_009_u64.to_ne_bytes());
    bytes.extend((chain.len() as u64).to_ne_bytes());
    for address in chain {
        bytes.extend(address.to_ne_bytes());
    }
    if let Some(tag) = tag {
        // perf makes length and bytes together a multiple of eight.
        let padded = (4 + tag.len()).next_multiple_of(8) - 4;
        bytes.extend(u32::try_from(padded).unwrap().to_ne_bytes());
        bytes.extend(tag);
        bytes.resize(bytes.len() + padded - tag.len(), 0);
    }
    bytes
}

fn tag_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(500_u64.to_ne_bytes());
    bytes.extend(48_u32.to_ne_bytes());
    bytes.extend([1, 2, 2, 0]);
    bytes
}

const KERNEL: u16 = 1;
const GUEST_USER: u16 = 5;

fn read(misc: u16, body: &[u8], tagged: bool) -> Option<Raw> {
    match parse(PERF_RECORD_SAMPLE, misc, body, tagged)? {
        Record::Sample(raw) => Some(raw),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sample_of_the_kernel_has_both_sides_of_its_stack_and_its_exit() {
    let chain = [CONTEXT_KERNEL, 0xf1, 0xf2, CONTEXT_USER, 0x11, 0x12];
    let raw = read(KERNEL, &body(&chain, Some(&tag_bytes())), true).unwrap();
    assert_eq!((raw.kernel, raw.user), (vec![0xf1, 0xf2], vec![0x11, 0x12]));
    assert_eq!((raw.id, raw.pid, raw.tid, raw.cpu), (77, 4711, 4712, 3));
    assert_eq!(
        (raw.time_ns, raw.hit, raw.cut),
        (123_456_789, Hit::Kernel, false)
    );
    let tag = raw.tag.unwrap();
    assert_eq!((tag.period, tag.event, tag.reason), (500, 1, 48));
    assert_eq!((tag.phase, tag.isa), (Phase::Exit, Isa::Svm));
}

#[test]
fn without_a_chain_the_address_is_kept_but_not_that_of_a_guest() {
    let raw = read(KERNEL, &body(&[], None), false).unwrap();
    assert_eq!((raw.kernel, raw.period), (vec![0x5555], 1_003_009));
    // A guest's addresses are not the host's, whatever context stands before them.
    let guest = [0u64.wrapping_sub(2048), 0x99];
    let raw = read(GUEST_USER, &body(&guest, None), false).unwrap();
    assert_eq!((raw.kernel, raw.user), (vec![], vec![]));
    assert_eq!(raw.hit, Hit::GuestUser);
}

#[test]
fn a_stack_deeper_than_any_is_cut_and_says_so() {
    let mut chain = vec![CONTEXT_USER];
    chain.extend(1..=CHAIN_MOST as u64 + 3);
    let raw = read(2, &body(&chain, None), false).unwrap();
    assert_eq!((raw.user.len(), raw.cut), (CHAIN_MOST, true));
}

#[test]
fn what_is_cut_off_is_refused_at_every_byte() {
    let whole = body(&[CONTEXT_KERNEL, 1], Some(&tag_bytes()));
    // Behind what the program adds lies only padding.
    for end in 0..whole.len() {
        assert_eq!(
            parse(PERF_RECORD_SAMPLE, KERNEL, &whole[..end], true),
            None,
            "{end}"
        );
    }
    let mut endless = whole.clone();
    endless[48..56].copy_from_slice(&u64::MAX.to_ne_bytes());
    assert_eq!(parse(PERF_RECORD_SAMPLE, KERNEL, &endless, true), None);
}

#[test]
fn losses_carry_their_number_and_other_records_say_nothing() {
    let mut lost = 9_u64.to_ne_bytes().to_vec();
    lost.extend(42_u64.to_ne_bytes());
    assert_eq!(
        parse(PERF_RECORD_LOST, 0, &lost, true),
        Some(Record::Lost(42))
    );
    assert_eq!(parse(PERF_RECORD_LOST, 0, &lost[..15], true), None);
    assert_eq!(parse(5, 0, &[], true), Some(Record::Other));
}
