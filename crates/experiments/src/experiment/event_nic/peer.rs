//! The other end of the link: a thread that sends every frame back to whom it came from, after a while.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;

use haltwise_core::units::Nanos;

use crate::device::net::{LONGEST, Link};
use crate::host_thread::HostThread;
use haltwise_lab::clock;
use haltwise_lab::event::Flag;

/// Frames that went back, and those that found the link full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Echoed {
    pub(super) frames: u64,
    pub(super) lost: u64,
}

/// Starts an echo that thinks for so long about each frame; it runs on a CPU, or wherever it may.
pub(super) fn start(
    link: Link,
    think: Nanos,
    cpu: Option<u32>,
) -> anyhow::Result<HostThread<Echoed>> {
    HostThread::start("net-peer", cpu, move |stop: &Flag| {
        clock::sleep_exactly()?;
        Ok(echo(&link, think, stop)?)
    })
}

fn echo(link: &Link, think: Nanos, stop: &Flag) -> io::Result<Echoed> {
    let mut echoed = Echoed::default();
    let mut thought_of: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let mut frame = [0; LONGEST];
    while !stop.is_raised() {
        while let Some(length) = link.receive(&mut frame)? {
            let mut back = frame[..length].to_vec();
            turn_round(&mut back);
            thought_of.push_back((clock::now_ns().saturating_add(think.0), back));
        }
        let now = clock::now_ns();
        while let Some((_, back)) = thought_of.pop_front_if(|(due, _)| *due <= now) {
            if link.send(&back)? {
                echoed.frames += 1;
            } else {
                echoed.lost += 1;
            }
        }
        let next = thought_of.front().map(|(due, _)| Nanos(due - now));
        clock::wait_any([link.as_fd(), stop.as_fd()], next)?;
    }
    Ok(echoed)
}

/// Exchanges the two addresses that an Ethernet frame begins with.
fn turn_round(frame: &mut [u8]) {
    if let Some((to, rest)) = frame.split_at_mut_checked(6)
        && let Some(from) = rest.get_mut(..6)
    {
        to.swap_with_slice(from);
    }
}
