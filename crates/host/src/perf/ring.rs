//! The rings of all CPUs, and the tracepoints that write to them.

use std::collections::BTreeMap;
use std::io;

use haltwise_core::decode::Order;
use haltwise_core::event::Facts;
use perf_event::{Counter, Sampler};

use super::open::{self, explain, is_gone};
use crate::bytes::{u32_at, u64_at};
use crate::collector::{CollectError, Losses, RingLosses, push_lost};
use crate::cpus;
use crate::opaque::Opaque;
use crate::root::Root;

pub(super) type Tracepoint<F = String> = (u64, Option<F>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given<'a> {
    Event { pid: u32, raw: &'a [u8] },
    Gap,
}

/// The tracepoint that an event came of, as rings have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// One that is there as long as the ring is.
    Always,
    /// One of those that [`Rings::watch`] replaces.
    Watched,
}

/// Numbers of events, by [`Of`].
pub(super) type EventCounts = [u64; 2];

#[derive(Debug, Default)]
pub(super) struct Rings {
    of_cpus: BTreeMap<u32, Ring>,
    losses: Losses,
}

impl Rings {
    /// Opens the CPUs that are online and not open yet, and begins to record there.
    pub(super) fn open_online(
        &mut self,
        root: &Root,
        buffer_bytes: u32,
        always: &[Tracepoint<&str>],
        watched: &[Tracepoint],
    ) -> Result<(), CollectError> {
        let online = cpus::online(root)?;
        let bytes = ring_bytes(buffer_bytes, online.len());
        for cpu in online {
            if self.of_cpus.contains_key(&cpu) {
                continue;
            }
            match Ring::open(always, cpu, bytes) {
                Ok(mut ring) => {
                    let watching = ring.watch(watched).and_then(|()| ring.enable());
                    watching.map_err(explain(cpu))?;
                    self.of_cpus.insert(cpu, ring);
                }
                // It went offline in between.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(explain(cpu)(error)),
            }
        }
        Ok(())
    }

    pub(super) fn watch(&mut self, watched: &[Tracepoint]) -> Result<(), CollectError> {
        self.each(|ring| ring.watch(watched))
    }

    pub(super) fn disable(&mut self) -> Result<(), CollectError> {
        self.each(Ring::disable)
    }

    fn each(&mut self, of: impl Fn(&mut Ring) -> io::Result<()>) -> Result<(), CollectError> {
        let mut all = self.of_cpus.iter_mut();
        all.try_for_each(|(&cpu, ring)| of(ring).map_err(explain(cpu)))
    }

    /// Reads what is in the rings: CPU, time and event. `take` says of each that it has understood whose it is.
    pub(super) fn read(&mut self, mut take: impl FnMut(u32, u64, Given<'_>) -> Option<Of>) {
        for (&cpu, ring) in &mut self.of_cpus {
            ring.read(|time_ns, given| take(cpu, time_ns, given));
        }
    }

    /// Reports what rings lost and what could not be read of them, and what came too late to be put in order.
    pub(super) fn report<T>(&mut self, order: &mut Order<T>, facts: &mut Facts, now_ns: u64) {
        let (mut lost, mut unreadable) = (0, 0);
        for ring in self.of_cpus.values() {
            lost += ring.losses.lost;
            unreadable += ring.losses.unreadable;
        }
        let counts = [
            (lost, "perf ring full"),
            (unreadable, "record not understood"),
        ];
        self.losses.report(&mut facts.lost, now_ns, counts);
        let place = "event too late to be put in order";
        push_lost(&mut facts.lost, now_ns, order.take_late(), place);
    }

    /// Closes the rings. The kernel counted every event: how many it neither recorded nor told as lost shows only now,
    /// when recording has ended and all was read.
    pub(super) fn close(&mut self) -> Result<EventCounts, CollectError> {
        let mut sum = [0; 2];
        for (cpu, mut ring) in std::mem::take(&mut self.of_cpus) {
            let of_ring = ring.unaccounted().map_err(explain(cpu))?;
            sum = [sum[0] + of_ring[0], sum[1] + of_ring[1]];
        }
        Ok(sum)
    }
}

/// One CPU's tracepoints. The first owns the ring, the others write into it too.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    bytes: usize,
    owner: Opaque<Sampler>,
    others: Vec<Counter>,
    watched: Vec<Counter>,
    retired: u64,
    read: EventCounts,
    losses: RingLosses,
}

impl Ring {
    fn open(always: &[Tracepoint<&str>], cpu: u32, bytes: usize) -> io::Result<Self> {
        let Some((&(first, filter), rest)) = always.split_first() else {
            return Err(io::Error::other("no event to open"));
        };
        let mut ring = Self {
            cpu,
            bytes,
            owner: Opaque(open::tracepoint(first, filter, cpu, bytes)?.sampled(bytes)?),
            others: Vec::new(),
            watched: Vec::new(),
            retired: 0,
            read: [0; 2],
            losses: RingLosses::default(),
        };
        for &(id, filter) in rest {
            ring.others.push(ring.shared(id, filter)?);
        }
        Ok(ring)
    }

    fn shared(&self, id: u64, filter: Option<&str>) -> io::Result<Counter> {
        let counter = open::tracepoint(id, filter, self.cpu, self.bytes)?;
        open::share_ring(&counter, &self.owner)?;
        Ok(counter)
    }

    /// Begins to record. The first event comes last, so that nothing of it is seen whose other events were not.
    fn enable(&mut self) -> io::Result<()> {
        for counter in &mut self.others {
            counter.enable()?;
        }
        self.owner.enable()
    }

    fn disable(&mut self) -> io::Result<()> {
        let mut result = self.owner.disable();
        for counter in self.others.iter_mut().chain(&mut self.watched) {
            result = result.and(counter.disable());
        }
        result
    }

    /// An event takes one filter in its life (`ftrace_profile_set_filter`), so new events replace the
    /// old. For a moment both record; what comes twice says the same twice.
    fn watch(&mut self, watched: &[Tracepoint]) -> io::Result<()> {
        let mut fresh = Vec::new();
        for (id, filter) in watched {
            let mut counter = self.shared(*id, filter.as_deref())?;
            counter.enable()?;
            fresh.push(counter);
        }
        for mut old in std::mem::replace(&mut self.watched, fresh) {
            old.disable()?;
            self.retired = self.retired.saturating_add(old.read()?);
        }
        Ok(())
    }

    fn read(&mut self, mut take: impl FnMut(u64, Given<'_>) -> Option<Of>) {
        while let Some(record) = self.owner.next_record() {
            let body = record.to_contiguous();
            let understood = match parse(record.ty(), &body) {
                Some(Record::Sample { pid, time_ns, raw }) => {
                    let of = take(time_ns, Given::Event { pid, raw });
                    if let Some(of) = of {
                        self.read[of as usize] += 1;
                    }
                    of.is_some()
                }
                Some(Record::Lost { count, time_ns }) => {
                    self.losses.lost = self.losses.lost.saturating_add(count);
                    take(time_ns, Given::Gap).is_some()
                }
                Some(Record::Other) => true,
                None => false,
            };
            self.losses.unreadable += u64::from(!understood);
        }
    }

    fn unaccounted(&mut self) -> io::Result<EventCounts> {
        let mut always = self.owner.read()?;
        for counter in &mut self.others {
            always = always.saturating_add(counter.read()?);
        }
        let mut watched = self.retired;
        for counter in &mut self.watched {
            watched = watched.saturating_add(counter.read()?);
        }
        let always = always.saturating_sub(self.read[Of::Always as usize]);
        let watched = watched.saturating_sub(self.read[Of::Watched as usize]);
        // Events reported as lost may be of either kind.
        let told = self.losses.lost.saturating_add(self.losses.unreadable);
        let rest = told.saturating_sub(always);
        Ok([always.saturating_sub(told), watched.saturating_sub(rest)])
    }
}

/// A CPU's share of the buffer, a power of two between 512 KiB and 16 MiB.
fn ring_bytes(total: u32, cpus: usize) -> usize {
    let share = usize::try_from(total).unwrap_or(0) / cpus.max(1);
    share
        .checked_next_power_of_two()
        .unwrap_or(usize::MAX)
        .clamp(512 << 10, 16 << 20)
}

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Sample {
        /// The process that ran, as this PID namespace numbers it.
        pid: u32,
        time_ns: u64,
        raw: &'a [u8],
    },
    Lost {
        count: u64,
        time_ns: u64,
    },
    /// A record of a kind that we did not ask for (throttling): no data of ours.
    Other,
}

/// Reads the body of a record of type `kind`; `None` if it is too short for its kind.
pub(super) fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    match kind {
        PERF_RECORD_SAMPLE => {
            let length = usize::try_from(u32_at(body, 16)?).ok()?;
            Some(Record::Sample {
                pid: u32_at(body, 0)?,
                time_ns: u64_at(body, 8)?,
                raw: body.get(20..20_usize.checked_add(length)?)?,
            })
        }
        // id, lost, then the trailer: pid, tid, time.
        PERF_RECORD_LOST => Some(Record::Lost {
            count: u64_at(body, 8)?,
            time_ns: u64_at(body, 24)?,
        }),
        _ => Some(Record::Other),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_ring_is_a_fair_share_within_bounds() {
        assert_eq!(ring_bytes(16 << 20, 2), 8 << 20);
        assert_eq!(ring_bytes(16 << 20, 3), 8 << 20);
        assert_eq!(ring_bytes(16 << 20, 256), 512 << 10);
        assert_eq!(ring_bytes(u32::MAX, 1), 16 << 20);
    }

    #[test]
    fn losses_carry_their_number() {
        let body = [1_u64, 42, 0, 77].map(u64::to_ne_bytes).concat();
        let expected = Record::Lost {
            count: 42,
            time_ns: 77,
        };
        assert_eq!(parse(PERF_RECORD_LOST, &body), Some(expected));
        assert_eq!(parse(PERF_RECORD_LOST, &body[..31]), None);
        assert_eq!(parse(5, &[]), Some(Record::Other));
    }
}
