//! Laws of the page: never torn, never lost, never twice, whatever a guest writes.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::agent::{Agent, Client};
use super::page::{DEADLINE, FIRED, NEVER, NEXT_SYNC, Page, Snapshot};
use super::slot::{Look, Slot};

/// A page in which something happens before each load of the agent.
#[derive(Default)]
struct Made {
    words: RefCell<[u32; 32]>,
    /// Stores of the guest that are still to come: word, value.
    script: RefCell<Vec<(usize, u32)>>,
    /// How many of them come before each load.
    before: RefCell<Vec<usize>>,
}

const LOW: usize = DEADLINE as usize / 4;

impl Made {
    fn store(&self, word: usize, value: u32) {
        self.words.borrow_mut()[word] = value;
    }

    /// The guest takes so many of its steps.
    fn step(&self, steps: usize) {
        let mut script = self.script.borrow_mut();
        let steps = steps.min(script.len());
        for (word, value) in script.drain(..steps) {
            self.store(word, value);
        }
    }

    /// A guest's stores for one deadline, as the protocol has them.
    fn write(&self, sequence: u32, deadline: u64) {
        let (low, high) = (deadline & 0xffff_ffff, deadline >> 32);
        let half = |half: u64| u32::try_from(half).unwrap();
        self.script.borrow_mut().extend([
            (0, sequence.wrapping_sub(1)),
            (LOW, half(low)),
            (LOW + 1, half(high)),
            (0, sequence),
        ]);
    }
}

impl Page for Made {
    fn load32(&self, offset: u32) -> anyhow::Result<u32> {
        let steps = self.before.borrow_mut().pop().unwrap_or(0);
        self.step(steps);
        Ok(self.words.borrow()[offset as usize / 4])
    }

    fn load64(&self, offset: u32) -> anyhow::Result<u64> {
        let low = self.load32(offset)?;
        let high = self.words.borrow()[offset as usize / 4 + 1];
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    fn store32(&self, offset: u32, value: u32) -> anyhow::Result<()> {
        self.store(offset as usize / 4, value);
        Ok(())
    }

    fn store64(&self, offset: u32, value: u64) -> anyhow::Result<()> {
        self.store32(offset, u32::try_from(value & 0xffff_ffff).unwrap())?;
        self.store32(offset + 4, u32::try_from(value >> 32).unwrap())
    }
}

const FIRST: u64 = 0x1111_1111_2222_2222;
const SECOND: u64 = 0x3333_3333_4444_4444;

#[test]
fn no_interleaving_of_two_writes_and_a_read_gives_a_torn_deadline() {
    let mut seen = [0; 4];
    // Number of the guest's eight steps before each of the agent's three loads.
    for (a, b, c) in
        (0..=8).flat_map(|a| (0..=8).flat_map(move |b| (0..=8).map(move |c| (a, b, c))))
    {
        let page = Made::default();
        page.write(2, FIRST);
        page.write(4, SECOND);
        *page.before.borrow_mut() = vec![c, b, a];
        let read = Snapshot::read(&page).unwrap();
        let whole = [(0, 0), (2, FIRST), (4, SECOND)];
        match read.map(|read| {
            whole
                .iter()
                .position(|w| *w == (read.sequence, read.deadline))
        }) {
            None => seen[3] += 1,
            Some(Some(which)) => seen[which] += 1,
            Some(None) => panic!("{a} {b} {c}: {read:?}"),
        }
    }
    assert!(
        seen.iter().all(|count| *count > 0),
        "all were met: {seen:?}"
    );
}

/// An honest guest: writes only when nothing is armed, or what is armed is not due yet.
#[derive(Debug, Clone)]
enum Act {
    Wait(u64),
    /// A deadline so far ahead, or none.
    Write(Option<u64>),
    Look,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1_u64..50).prop_map(Act::Wait),
        prop::option::of(0_u64..100).prop_map(Act::Write),
        Just(Act::Look),
    ];
    prop::collection::vec(act, 1..200)
}

proptest! {
    /// A deadline in the page when the agent first looks at or after its time fires exactly once; one
    /// replaced before never fires.
    #[test]
    fn every_deadline_fires_once_unless_it_is_replaced(acts in acts()) {
        let page = Made::default();
        let (mut slot, mut now, mut sequence) = (Slot::default(), 1_000_u64, 0);
        let mut pending: Option<(u32, u64)> = None;
        for act in acts {
            match act {
                Act::Wait(time) => now += time,
                Act::Write(ahead) => {
                    sequence += 2;
                    let deadline = ahead.map_or(0, |ahead| now + ahead);
                    page.write(sequence, deadline);
                    page.step(4);
                    pending = ahead.map(|_| (sequence, deadline));
                }
                Act::Look => {
                    let look = slot.look(Snapshot::read(&page).unwrap(), now, 0);
                    match pending {
                        Some((sequence, deadline)) if deadline <= now => {
                            prop_assert_eq!(look, Look::Fire(sequence));
                            pending = None;
                        }
                        Some((_, deadline)) => prop_assert_eq!(look, Look::At(deadline)),
                        None => prop_assert_eq!(look, Look::Nothing),
                    }
                }
            }
        }
    }

    /// Whatever a page holds, a pass reads three words, fires a page at most once, never within the least gap
    /// of the time before, and another page's deadline all the same.
    #[test]
    fn nonsense_harms_nobody_else(
        stores in prop::collection::vec((0_usize..32, any::<u32>()), 0..300),
        steps in prop::collection::vec(0_usize..5, 300),
        gap in 1_u64..1_000,
        offset: u64,
    ) {
        let (bad, good) = (Made::default(), Made::default());
        *bad.script.borrow_mut() = stores;
        *bad.before.borrow_mut() = steps;
        good.write(2, 5_000_u64.wrapping_add(offset).max(1));
        good.step(4);
        let client = |page, tsc_offset| Client { page, tsc_offset, slot: Slot::default() };
        let clients = vec![client(bad, offset), client(good, offset)];
        let mut agent = Agent { clients, least_gap: gap };
        let now = Cell::new(0_u64);
        let mut fired = Vec::new();
        for time in (0..100).map(|pass| pass * 97) {
            now.set(time);
            agent.pass(|| now.get(), |client| { fired.push((client, time)); Ok(()) }).unwrap();
        }
        let of = |client| fired.iter().filter(move |(c, _)| *c == client).map(|(_, at)| *at);
        for pair in of(0).collect::<Vec<_>>().windows(2) {
            prop_assert!(pair[1] - pair[0] >= gap);
        }
        // The guest's TSC may go round once in the middle; its deadline does so with it.
        if offset < u64::MAX - 10_000 {
            prop_assert_eq!(of(1).collect::<Vec<_>>(), [52 * 97]);
            prop_assert_eq!(agent.clients[1].slot.counts.fired, 1);
        }
    }
}

#[test]
fn what_a_guest_does_wrong_has_a_meaning_and_is_counted() {
    let (mut slot, gap) = (Slot::default(), 100);
    let read = |sequence, deadline| Some(Snapshot { sequence, deadline });
    for (read, now, look) in [
        (None, 10, Look::Nothing),
        (read(0, 77), 10, Look::Nothing),
        (read(2, 500), 10, Look::At(500)),
        // Backwards.
        (read(4, 400), 20, Look::At(400)),
        // Under the same sequence.
        (read(4, 30), 40, Look::At(400)),
        (read(4, 400), 401, Look::Fire(4)),
        (read(4, 400), 402, Look::Nothing),
        // Passed long ago, and too soon after the last.
        (read(6, 1), 403, Look::At(501)),
        (read(6, 1), 500, Look::At(501)),
        (read(6, 1), 501, Look::Fire(6)),
        // Years ahead, then none.
        (read(8, u64::MAX), 502, Look::At(u64::MAX)),
        (read(10, 0), 503, Look::Nothing),
    ] {
        assert_eq!(slot.look(read, now, gap), look, "{read:?} at {now}");
    }
    let counts = slot.counts;
    assert_eq!((counts.fired, counts.backwards, counts.far), (2, 1, 1));
    assert_eq!((counts.due_when_seen, counts.held, counts.torn), (1, 1, 1));
}

#[test]
fn a_tsc_that_wraps_brings_no_interrupt_too_soon() {
    let (mut slot, gap) = (Slot::default(), 100);
    let read = |sequence, deadline| Some(Snapshot { sequence, deadline });
    let last = u64::MAX;
    for (read, now, look) in [
        (read(2, 5), last - 20, Look::Fire(2)),
        (read(4, 1), last - 10, Look::At(last)),
        (read(4, 1), last, Look::At(last)),
        // 21 ticks and 70 after.
        (read(4, 1), 70, Look::At(79)),
        (read(4, 1), 79, Look::Fire(4)),
    ] {
        assert_eq!(slot.look(read, now, gap), look, "{read:?} at {now}");
    }
    assert_eq!((slot.counts.fired, slot.counts.held), (2, 1));
}

#[test]
fn an_agent_that_follows_another_fires_nothing_twice() {
    let page = Made::default();
    page.write(2, 100);
    page.step(4);
    let mut fired = 0;
    let client = Client::new(page, 0).unwrap();
    let mut agent = Agent {
        clients: vec![client],
        least_gap: 0,
    };
    let mut pass = |agent: &mut Agent<Made>| {
        agent
            .pass(
                || 200,
                |_| {
                    fired += 1;
                    Ok(())
                },
            )
            .unwrap()
    };
    pass(&mut agent);
    let page = agent.clients.remove(0).page;
    assert_eq!(page.load32(FIRED).unwrap(), 2);
    agent.clients.push(Client::new(page, 0).unwrap());
    pass(&mut agent);
    assert_eq!(fired, 1);
}

#[test]
fn a_promise_is_told_in_each_guests_time_and_the_next_due_in_the_hosts() {
    let (early, late) = (Made::default(), Made::default());
    for (page, deadline) in [(&early, 1_300), (&late, 2_500)] {
        page.write(2, deadline);
        page.step(4);
    }
    let clients = vec![
        Client::new(early, 1_000).unwrap(),
        Client::new(late, 2_000).unwrap(),
    ];
    let mut agent = Agent {
        clients,
        least_gap: 0,
    };
    let next = agent.pass(|| 100, |_| Ok(())).unwrap();
    assert_eq!(next, Some(300));
    agent.promise(300).unwrap();
    let told = |agent: &Agent<Made>| {
        let clients = agent.clients.iter();
        let words = clients.map(|client| client.page.load64(NEXT_SYNC).unwrap());
        words.collect::<Vec<_>>()
    };
    assert_eq!(told(&agent), [1_300, 2_300]);
    agent.announce(NEVER).unwrap();
    assert_eq!(told(&agent), [NEVER; 2]);
}
