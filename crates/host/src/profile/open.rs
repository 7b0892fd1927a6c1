//! The events of one CPU and the ring that their samples go to.

use std::io;
use std::os::fd::AsRawFd;

use haltwise_core::profile::Event;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use super::record::{self, Raw, Record};
use crate::bpf::sample::SampleFilter;
use crate::collector::{CollectError, RingLosses};
use crate::opaque::Opaque;
use crate::perf::open::{borrow, on_cpu, share_ring};

pub(super) const SAMPLED: SampleFlag = SampleFlag::IDENTIFIER
    .union(SampleFlag::IP)
    .union(SampleFlag::TID)
    .union(SampleFlag::TIME)
    .union(SampleFlag::CPU)
    .union(SampleFlag::PERIOD)
    .union(SampleFlag::CALLCHAIN);

#[derive(Debug)]
pub(super) struct Ring {
    /// Owns the ring: the event that the BPF program writes to, or the first that is sampled.
    owner: Opaque<Sampler>,
    /// The sampled events with their identifiers, where no BPF program is.
    events: Vec<(u64, Event, Counter)>,
    tagged: bool,
}

impl Ring {
    pub(super) fn open(
        cpu: u32,
        hz: u32,
        events: &[Event],
        bytes: usize,
        filter: Option<&mut SampleFilter>,
    ) -> Result<Self, OpenError> {
        match filter {
            Some(filter) => Self::open_filtered(cpu, hz, events, bytes, filter),
            None => Ok(Self::open_plain(cpu, hz, events, bytes)?),
        }
    }

    fn open_filtered(
        cpu: u32,
        hz: u32,
        events: &[Event],
        bytes: usize,
        filter: &mut SampleFilter,
    ) -> Result<Self, OpenError> {
        let mut writer = Builder::new(Software::BPF_OUTPUT);
        writer
            .sample_period(1)
            .sample(SAMPLED.union(SampleFlag::RAW));
        let mut owner = on_cpu(&mut writer, cpu, bytes)?.sampled(bytes)?;
        owner.enable()?;
        filter.send(cpu, owner.as_raw_fd())?;
        for (place, event) in (0..).zip(events) {
            let counter = sampled(*event, hz, cpu, bytes)?;
            filter.attach(borrow(&counter).try_clone_to_owned()?, place)?;
        }
        Ok(Self {
            owner: Opaque(owner),
            events: Vec::new(),
            tagged: true,
        })
    }

    fn open_plain(cpu: u32, hz: u32, events: &[Event], bytes: usize) -> io::Result<Self> {
        let mut opened = Vec::new();
        for event in events {
            opened.push((*event, sampled(*event, hz, cpu, bytes)?));
        }
        let mut writer = Builder::new(Software::DUMMY);
        writer.sample(SAMPLED);
        let owner = on_cpu(&mut writer, cpu, bytes)?.sampled(bytes)?;
        let mut events = Vec::new();
        for (event, mut counter) in opened {
            share_ring(&counter, &owner)?;
            counter.enable()?;
            events.push((counter.id(), event, counter));
        }
        Ok(Self {
            owner: Opaque(owner),
            events,
            tagged: false,
        })
    }

    /// Ends sampling. What is in the ring stays readable.
    pub(super) fn disable(&mut self) {
        for (_, _, counter) in &mut self.events {
            // One that its CPU took with it is off already.
            drop(counter.disable());
        }
    }

    /// Reads what is in the ring. `sink` is told the place of the event among those sampled.
    pub(super) fn read(
        &mut self,
        events: &[Event],
        mut sink: impl FnMut(Raw, Event),
    ) -> RingLosses {
        let mut told = RingLosses::default();
        while let Some(record) = self.owner.next_record() {
            let body = record.to_contiguous();
            match record::parse(record.ty(), record.misc(), &body, self.tagged) {
                Some(Record::Sample(raw)) => {
                    let event = match raw.tag {
                        Some(tag) => events.get(usize::from(tag.event)).copied(),
                        None => self
                            .events
                            .iter()
                            .find(|(id, _, _)| *id == raw.id)
                            .map(|(_, event, _)| *event),
                    };
                    match event {
                        Some(event) => sink(raw, event),
                        None => told.unreadable += 1,
                    }
                }
                Some(Record::Lost(count)) => told.lost = told.lost.saturating_add(count),
                Some(Record::Other) => {}
                None => told.unreadable += 1,
            }
        }
        told
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// Whether an event is there, tried on one CPU.
pub(super) fn is_there(event: Event, hz: u32, cpu: u32) -> io::Result<()> {
    sampled(event, hz, cpu, 1 << 16).map(drop)
}

fn sampled(event: Event, hz: u32, cpu: u32, bytes: usize) -> io::Result<Counter> {
    let mut builder = match event {
        Event::CpuClock => Builder::new(Software::CPU_CLOCK),
        Event::PageFaults => Builder::new(Software::PAGE_FAULTS),
        Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Event::Instructions => Builder::new(Hardware::INSTRUCTIONS),
        Event::CacheMisses => Builder::new(Hardware::CACHE_MISSES),
        Event::DtlbMisses => Builder::new(Cache {
            which: CacheId::DTLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        }),
    };
    builder.sample(SAMPLED);
    match event {
        // Every sample stands for the same time.
        Event::CpuClock => builder.sample_period(1_000_000_000 / u64::from(hz.max(1))),
        _ => builder.sample_frequency(u64::from(hz)),
    };
    on_cpu(&mut builder, cpu, bytes)
}
