//! The other end of the link: a thread that sends every frame back to whom it came from.

use std::io;
use std::os::fd::AsFd as _;

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

pub(super) fn start(link: Link, cpu: u32) -> anyhow::Result<HostThread<Echoed>> {
    HostThread::start("net-peer", Some(cpu), move |stop: &Flag| {
        Ok(echo(&link, stop)?)
    })
}

fn echo(link: &Link, stop: &Flag) -> io::Result<Echoed> {
    let mut echoed = Echoed::default();
    let mut frame = [0; LONGEST];
    while !stop.is_raised() {
        while let Some(length) = link.receive(&mut frame)? {
            let frame = &mut frame[..length];
            turn_round(frame);
            if link.send(frame)? {
                echoed.frames += 1;
            } else {
                echoed.lost += 1;
            }
        }
        clock::wait_any([link.as_fd(), stop.as_fd()], None)?;
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
