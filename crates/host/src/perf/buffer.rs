//! The ring of one CPU, and the tracepoints that write to it for as long as it is there.

use std::io;

use perf_event::{Counter, Sampler};

use super::open;
use super::record::{self, Record};
use crate::losses::RingLosses;
use crate::opaque::Opaque;

/// One CPU's tracepoints. The first owns the ring, the others write into it too.
#[derive(Debug)]
pub(super) struct Buffer {
    owner: Opaque<Sampler>,
    others: Vec<Counter>,
    /// Events that were read and understood so far.
    pub(super) read: u64,
    pub(super) losses: RingLosses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given<'a> {
    Event { pid: u32, raw: &'a [u8] },
    Gap,
}

impl Buffer {
    pub(super) fn open(ids: &[(u64, Option<&str>)], cpu: u32, bytes: usize) -> io::Result<Self> {
        let counter = |id, filter: Option<&str>| {
            let counter = open::tracepoint(id, cpu, bytes)?;
            filter.map_or(Ok(()), |filter| open::set_filter(&counter, filter))?;
            Ok::<_, io::Error>(counter)
        };
        let Some((&(first, filter), rest)) = ids.split_first() else {
            return Err(io::Error::other("no event to open"));
        };
        let owner = counter(first, filter)?.sampled(bytes)?;
        let mut others = Vec::new();
        for &(id, filter) in rest {
            let counter = counter(id, filter)?;
            open::share_ring(&counter, &owner)?;
            others.push(counter);
        }
        Ok(Self {
            owner: Opaque(owner),
            others,
            read: 0,
            losses: RingLosses::default(),
        })
    }

    pub(super) fn owner(&self) -> &Sampler {
        &self.owner
    }

    /// Begins to record. The first event comes last, so that nothing of it is seen whose other events were not.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        for counter in &mut self.others {
            counter.enable()?;
        }
        self.owner.enable()
    }

    /// Ends recording. What is in the ring stays readable.
    pub(super) fn disable(&mut self) -> io::Result<()> {
        let mut result = self.owner.disable();
        for counter in &mut self.others {
            result = result.and(counter.disable());
        }
        result
    }

    /// Reads what is in the ring, with its times. `take` says whether it has understood.
    pub(super) fn read(&mut self, mut take: impl FnMut(u64, Given<'_>) -> bool) {
        while let Some(record) = self.owner.next_record() {
            let body = record.to_contiguous();
            let understood = match record::parse(record.ty(), &body) {
                Some(Record::Sample { pid, time_ns, raw }) => {
                    let understood = take(time_ns, Given::Event { pid, raw });
                    self.read += u64::from(understood);
                    understood
                }
                Some(Record::Lost { count, time_ns }) => {
                    self.losses.lost = self.losses.lost.saturating_add(count);
                    take(time_ns, Given::Gap)
                }
                Some(Record::Other) => true,
                None => false,
            };
            self.losses.unreadable += u64::from(!understood);
        }
    }

    pub(super) fn counted(&mut self) -> io::Result<u64> {
        let mut sum = self.owner.read()?;
        for counter in &mut self.others {
            sum = sum.saturating_add(counter.read()?);
        }
        Ok(sum)
    }
}
