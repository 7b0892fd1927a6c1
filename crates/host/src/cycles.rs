//! Cycles and instructions of all CPUs, as their PMUs count them: no sampling, and nothing of ours runs meanwhile.
//!
//! `PERF_COUNT_HW_CPU_CYCLES` counts while a CPU runs and stands still with it, so that a CPU that polls costs cycles and
//! one that halts does not. Inside a guest it is there only where the hypervisor has a virtual PMU. To read a CPU's
//! counters the kernel interrupts that CPU, so they are read seldom.

use std::io;

use haltwise_core::recording::Missing;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};
use rustix::io::Errno;

use crate::collector::CollectError;
use crate::cpus;
use crate::perf::open::{is_gone, refused};
use crate::root::Root;

#[derive(Debug)]
pub struct Cycles {
    cpus: Vec<OnCpu>,
}

#[derive(Debug)]
struct OnCpu {
    cycles: Counter,
    instructions: Option<Counter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    pub cycles: u64,
    /// Instructions that they retired, where all of them count these.
    pub instructions: Option<u64>,
}

impl Cycles {
    pub fn open(root: &Root) -> Result<Self, CollectError> {
        Self::open_events(
            &cpus::online(root)?,
            Hardware::CPU_CYCLES,
            Hardware::INSTRUCTIONS,
        )
    }

    fn open_events<E: Event + Copy>(
        cpus: &[u32],
        first: E,
        second: E,
    ) -> Result<Self, CollectError> {
        let mut opened = Vec::new();
        for &cpu in cpus {
            let cycles = match counter(first, cpu) {
                Ok(counter) => counter,
                // It went offline in between.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(explain(error)),
            };
            opened.push(OnCpu {
                cycles,
                instructions: counter(second, cpu).ok(),
            });
        }
        if opened.is_empty() {
            // A sum over none would be a measurement of 0.
            return Err(explain(Errno::NODEV.into()));
        }
        Ok(Self { cpus: opened })
    }

    /// Counts so far. Where events shared a counter, the count is scaled up for the time in which they had none.
    pub fn read(&mut self) -> io::Result<Counted> {
        let mut sum = Counted {
            cycles: 0,
            instructions: Some(0),
        };
        for cpu in &mut self.cpus {
            sum.cycles = sum.cycles.saturating_add(count(&mut cpu.cycles)?);
            let instructions = cpu.instructions.as_mut();
            let instructions = instructions.and_then(|counter| count(counter).ok());
            let both = sum.instructions.zip(instructions);
            sum.instructions = both.map(|(sum, more)| sum.saturating_add(more));
        }
        Ok(sum)
    }

    pub fn missing(opened: &Result<Self, CollectError>) -> Vec<Missing> {
        match opened {
            Err(error) => vec![Missing::new("cycles, instructions", error.to_string())],
            Ok(all) if all.cpus.iter().any(|cpu| cpu.instructions.is_none()) => {
                let reason = "not every CPU counts instructions";
                vec![Missing::new("instructions", reason)]
            }
            Ok(_) => Vec::new(),
        }
    }
}

fn counter(event: impl Event, cpu: u32) -> io::Result<Counter> {
    let cpu = usize::try_from(cpu).map_err(io::Error::other)?;
    Builder::new(event)
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
        .enabled(true)
        .build()
}

fn count(counter: &mut Counter) -> io::Result<u64> {
    let data = counter.read_full()?;
    let ns = |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_nanos());
    scaled(
        data.count(),
        ns(data.time_enabled()),
        ns(data.time_running()),
    )
    .ok_or_else(|| io::Error::other("the event never had a counter"))
}

fn scaled(count: u64, enabled_ns: u128, running_ns: u128) -> Option<u64> {
    if running_ns >= enabled_ns {
        return Some(count);
    }
    let whole = (u128::from(count) * enabled_ns).checked_div(running_ns)?;
    Some(u64::try_from(whole).unwrap_or(u64::MAX))
}

fn explain(source: io::Error) -> CollectError {
    match refused("count cycles by the CPUs' PMU".to_owned(), source) {
        CollectError::Unsupported { what, source } => CollectError::Unsupported {
            what: format!("{what}: this machine has none, or its hypervisor does not pass it on"),
            source,
        },
        error => error,
    }
}

#[cfg(test)]
mod test {
    use perf_event::events::Software;

    use super::*;

    /// The same counters on an event that every kernel has: each CPU's clock goes on by the time that passes.
    #[test]
    #[expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
    fn every_cpu_is_counted() {
        let root = Root::host();
        let cpus = cpus::online(&root).unwrap();
        let opened = Cycles::open_events(&cpus, Software::CPU_CLOCK, Software::CPU_CLOCK);
        let mut counters = match opened {
            Ok(counters) => counters,
            Err(error @ CollectError::Denied { .. }) => {
                println!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(counters.cpus.len(), cpus.len());
        let before = counters.read().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        let after = counters.read().unwrap();
        // At least one CPU's clock went on for the whole time between the two readings of that CPU.
        assert!(after.cycles - before.cycles >= 5_000_000, "{after:?}");
        assert!(after.instructions > before.instructions);
        assert_eq!(Cycles::missing(&Ok(counters)), []);
    }

    #[test]
    fn an_event_that_shared_its_counter_is_scaled_to_its_time() {
        assert_eq!(scaled(100, 50, 50), Some(100));
        assert_eq!(scaled(100, 50, 25), Some(200));
        assert_eq!(scaled(0, 50, 0), None);
        assert_eq!(scaled(0, 0, 0), Some(0));
        assert_eq!(scaled(u64::MAX, 50, 1), Some(u64::MAX));
    }

    #[test]
    fn a_refusal_says_what_is_lacking() {
        let none = explain(Errno::NOENT.into());
        assert!(matches!(none, CollectError::Unsupported { .. }), "{none}");
        let missing = Cycles::missing(&Err(none));
        assert_eq!(missing[0].field, "cycles, instructions");
        assert!(missing[0].reason.contains("PMU"), "{missing:?}");
        let denied = explain(Errno::ACCESS.into());
        assert!(matches!(denied, CollectError::Denied { .. }), "{denied}");
    }
}
