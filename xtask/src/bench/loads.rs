//! Loads of the lab that stand for what guests wait for.

use std::borrow::Cow;

/// A load of the lab.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// What it is called in the tables.
    pub(crate) name: Cow<'static, str>,
    /// The lab's guest.
    pub(crate) guest: &'static str,
    /// Its gaps, as [`haltwise_core::workload`] writes them.
    pub(crate) gap: Cow<'static, str>,
    /// The host sees the answer: round trips are measured.
    pub(crate) round_trips: bool,
    /// How the host waits where it sees the answer, as the lab calls it: `spin`, `device` (sleeps for
    /// answers) or `block` (sleeps for instants too).
    pub(crate) wait: &'static str,
    /// Of the number of rounds asked for, one in so many: loads with long gaps.
    pub(crate) fewer: u32,
}

const fn pingpong(name: &'static str, gap: &'static str, fewer: u32) -> Load {
    Load {
        name: Cow::Borrowed(name),
        guest: "pingpong",
        gap: Cow::Borrowed(gap),
        round_trips: true,
        wait: "spin",
        fewer,
    }
}

const fn sleeping(name: &'static str, gap: &'static str, wait: &'static str) -> Load {
    Load {
        name: Cow::Borrowed(name),
        guest: "pingpong",
        gap: Cow::Borrowed(gap),
        round_trips: true,
        wait,
        fewer: 1,
    }
}

const fn tick(name: &'static str, gap: &'static str, fewer: u32) -> Load {
    Load {
        name: Cow::Borrowed(name),
        guest: "tick",
        gap: Cow::Borrowed(gap),
        round_trips: false,
        wait: "spin",
        fewer,
    }
}

/// What a real host has of each kind: replies at once, replies of all lengths, two kinds of waits,
/// phases, and timers that are due whatever the vCPU did before.
pub(crate) const LOADS: &[Load] = &[
    pingpong("reply 20us", "fixed:20us", 1),
    pingpong("reply 80us", "fixed:80us", 1),
    pingpong("reply exp 60us", "exp:60us", 1),
    pingpong("reply 5-400us", "uniform:5us:400us", 1),
    pingpong("bimodal", "bimodal:0.8:15us:2ms", 1),
    pingpong("phases", "phases:20us*200:3ms*50", 1),
    pingpong("sparse 1ms", "exp:1ms", 2),
    tick("timer 60us", "fixed:60us", 1),
    tick("timer 20-300us", "uniform:20us:300us", 1),
];

/// Wakers that sleep: where a vCPU polls, they are woken sooner themselves, which no recording without
/// polling shows.
pub(crate) const SLEEPING: &[Load] = &[
    sleeping("device exp 60us", "exp:60us", "device"),
    sleeping("sleeper exp 30us", "exp:30us", "block"),
];
