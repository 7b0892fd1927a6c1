//! Samples beside the halts: how often, of what.

use std::str::FromStr;

use anyhow::anyhow;
use haltwise_core::ids::Pid;
use haltwise_core::profile::Event;
use haltwise_core::recording::Rung;
use haltwise_host::collector::Collector;
use haltwise_host::profile::{self, ProfileOptions, Profiler};
use haltwise_host::root::Root;

use super::attach::explain;
use crate::exit::{Exit, Failure};
use crate::offered::Offered;

#[derive(Debug)]
pub(crate) struct ProfileWanted {
    pub(crate) rate: Rate,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u32);

/// More often than this, sampling would take a good part of what it samples.
const MOST: u32 = 20_000;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let number = lower.strip_suffix("hz").unwrap_or(&lower);
        let (number, scale) = match number.strip_suffix('k') {
            Some(number) => (number, 1000),
            None => (number, 1),
        };
        let rate = number.trim().parse::<u32>().ok();
        match rate.and_then(|rate| rate.checked_mul(scale)) {
            Some(rate) if (1..=MOST).contains(&rate) => Ok(Self(rate)),
            _ => Err(format!("a rate from 1hz to {}khz is needed", MOST / 1000)),
        }
    }
}

pub(crate) const EVENTS: Offered<Event> = Offered {
    names: &[
        "cpu-clock",
        "cycles",
        "instructions",
        "cache-misses",
        "dtlb-misses",
        "page-faults",
    ],
    read: event,
};

fn event(text: &str) -> Result<Event, String> {
    Event::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Event::ALL.iter().map(|event| event.as_str()).collect();
        format!("one of {} is needed", names.join(", "))
    })
}

impl ProfileWanted {
    pub(crate) fn start(
        &self,
        vms: &[Pid],
        collector: &dyn Collector,
        root: &Root,
    ) -> Result<Profiler, Failure> {
        let hz = self.rate.0;
        if let Some(most) = profile::most_hz(root).filter(|most| hz > *most) {
            let error = anyhow!("--profile {hz}hz: this kernel allows {most} samples a second");
            return Err(Failure::new(Exit::Usage, error)
                .hint("ask for fewer; kernel.perf_event_max_sample_rate is the limit"));
        }
        let options = ProfileOptions {
            hz,
            events: self.events.clone(),
            vms: vms.to_vec(),
        };
        let by_bpf = collector.rung() == Rung::Bpf;
        Profiler::start(options, root, collector.exit_threads(), by_bpf).map_err(explain)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_their_unit() {
        for (text, rate) in [
            ("997hz", 997),
            ("99", 99),
            ("1kHz", 1000),
            ("20khz", 20_000),
        ] {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
        }
        for bad in ["", "0", "-1hz", "21khz", "1e3", "hz", "4294967295khz"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(event("cpu-clock"), Ok(Event::CpuClock));
        assert!(event("clock").unwrap_err().contains("cpu-clock, cycles"));
    }
}
