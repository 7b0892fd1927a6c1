//! `poller`: polls for work before it halts, as a guest kernel's idle loop does.
//!
//! Work is a word in memory that its sender moves on. While the guest polls, a flag says so, and the
//! sender needs no interrupt: that is what `TIF_POLLING_NRFLAG` is for in Linux. The flag is taken down
//! and the work looked at once more before HLT, so that no work is slept over. `poller` gets its
//! work from the host and answers it; in `poller-ring` vCPUs hand it on to each other, by an IPI where
//! the next does not poll.
//!
//! How long it polls is up to the rule in [`poll::RULE`]. Rule 1 is the governor haltpoll
//! (`drivers/cpuidle/governors/haltpoll.c`; [`haltwise_core::kvm::guest`] says it in words): an idle CPU
//! polls unless its limit is 0 or its last poll timed out, then halts; the time in HLT moves the limit.
//! Rule 2 judges the whole idle time, as [`haltwise_core::policy`]'s `smart-idle-poll` does. With any
//! other the limit stays as it was set. Limits and times are nanoseconds; a limit is turned into TSC
//! ticks once, when it moves. Where notes are wanted, vCPU 0 writes each time judged, and the limit after
//! it, into the table.
//!
//! Interrupts are on at `sti; hlt` only, so here too each of them ends one HLT. One that was sent
//! just before the flag went up ends the next HLT at once.
//!
//! A ring that never halts lets no interrupt in, so what ends it early is the host, which takes its rounds away.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, ax, bp, dword_ptr, dx, eax, ebx, ecx, edx, es, si, word_ptr,
};

use super::{Assembly, IPI, Program, WAKE, msr};
use crate::memory::{counter, mailbox, param, poll};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// From the host, which gets an answer.
    Host,
    /// From the vCPU before it in the ring.
    Ring,
}

/// `MSR_KVM_POLL_CONTROL`: bit 0 is whether the host may poll for this vCPU.
const POLL_CONTROL: u32 = 0x4b56_4d05;
/// The first polling time above 0 of rule 2, in nanoseconds.
const SMART_FIRST_NS: u32 = 10_000;

struct Places {
    begin_idle: CodeLabel,
    idle: CodeLabel,
    halt: CodeLabel,
    work: CodeLabel,
    send: CodeLabel,
}

pub fn program(peer: Peer) -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let mut places = Places {
        begin_idle: a.create_label(),
        idle: a.create_label(),
        halt: a.create_label(),
        work: a.create_label(),
        send: a.create_label(),
    };
    begin(&mut a, peer, &places)?;
    idle(&mut a, &mut places)?;
    halt(&mut a, peer, &mut places)?;
    work(&mut a, peer, &mut places)?;
    a.finish()
}

/// Tells the host whether to poll, says that it is ready, and begins.
fn begin(a: &mut CodeAssembler, peer: Peer, places: &Places) -> Result<(), IcedError> {
    a.xor(si, si)?;
    a.mov(ecx, POLL_CONTROL)?;
    a.mov(eax, dword_ptr(poll::HOST_POLLS))?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    if peer == Peer::Ring {
        a.mov(ax, word_ptr(poll::NEXT_SEGMENT))?;
        a.mov(es, ax)?;
    }
    a.mov(dx, bp)?;
    a.out(dx, al)?;
    if peer == Peer::Ring {
        a.cmp(dword_ptr(poll::IS_FIRST), 0)?;
        a.jne(places.send)?;
    }
    Ok(())
}

fn look(a: &mut CodeAssembler, found: CodeLabel) -> Result<(), IcedError> {
    a.mov(eax, dword_ptr(mailbox::WORK))?;
    a.cmp(eax, dword_ptr(poll::SEEN))?;
    a.jne(found)
}

fn stamp(a: &mut CodeAssembler, place: u16) -> Result<(), IcedError> {
    a.rdtsc()?;
    a.mov(dword_ptr(place), eax)?;
    a.mov(dword_ptr(place + 4), edx)
}

/// `eax`: ticks since the stamp, all ones if they need more bits.
fn since(a: &mut CodeAssembler, place: u16) -> Result<(), IcedError> {
    let mut fits = a.create_label();
    a.rdtsc()?;
    a.sub(eax, dword_ptr(place))?;
    a.sbb(edx, dword_ptr(place + 4))?;
    a.je(fits)?;
    a.mov(eax, u32::MAX)?;
    a.set_label(&mut fits)
}

/// `eax`: `eax` times one word divided by another, all ones if that needs more bits.
fn scale(a: &mut CodeAssembler, times: u16, divided_by: u16) -> Result<(), IcedError> {
    let (mut fits, mut done) = (a.create_label(), a.create_label());
    a.mul(dword_ptr(times))?;
    a.cmp(edx, dword_ptr(divided_by))?;
    a.jb(fits)?;
    a.mov(eax, u32::MAX)?;
    a.jmp(done)?;
    a.set_label(&mut fits)?;
    a.div(dword_ptr(divided_by))?;
    a.set_label(&mut done)?;
    a.nop()
}

/// The idle loop's choice, and polling: `haltpoll_select` and `poll_idle`.
fn idle(a: &mut CodeAssembler, places: &mut Places) -> Result<(), IcedError> {
    let (mut spin, mut found) = (a.create_label(), a.create_label());
    a.set_label(&mut places.begin_idle)?;
    stamp(a, poll::IDLE_SINCE)?;
    a.set_label(&mut places.idle)?;
    look(a, places.work)?;
    a.cmp(dword_ptr(poll::LIMIT_TICKS), 0)?;
    a.je(places.halt)?;
    a.cmp(dword_ptr(poll::TIMED_OUT), 0)?;
    a.jne(places.halt)?;
    a.mov(dword_ptr(mailbox::POLLING), 1)?;
    stamp(a, poll::BEGAN)?;
    a.set_label(&mut spin)?;
    look(a, found)?;
    since(a, poll::BEGAN)?;
    a.cmp(eax, dword_ptr(poll::LIMIT_TICKS))?;
    a.jb(spin)?;
    a.mov(dword_ptr(poll::TIMED_OUT), 1)?;
    a.jmp(places.idle)?;
    a.set_label(&mut found)?;
    a.inc(dword_ptr(poll::SUCCESSES))?;
    a.jmp(places.work)
}

/// HLT, and what its length does to the limit: `haltpoll_reflect`.
fn halt(a: &mut Assembly, peer: Peer, places: &mut Places) -> Result<(), IcedError> {
    a.set_label(&mut places.halt)?;
    a.mov(dword_ptr(poll::TIMED_OUT), 0)?;
    // Exchanging locks: the flag is down before the work is looked at.
    a.xor(eax, eax)?;
    a.xchg(dword_ptr(mailbox::POLLING), eax)?;
    look(a, places.work)?;
    stamp(a, poll::BEGAN)?;
    a.halt(match peer {
        Peer::Host => WAKE,
        Peer::Ring => IPI,
    })?;
    since(a, poll::BEGAN)?;
    scale(a, poll::MILLION, poll::TSC_KHZ)?;
    a.mov(ebx, eax)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.cmp(dword_ptr(poll::RULE), poll::RULE_HALTPOLL)?;
    a.jne(places.idle)?;
    let mut set = a.create_label();
    let mut keep = a.create_label();
    haltpoll(a, set, keep)?;
    set_limit(a, &mut set, &mut keep)?;
    a.jmp(places.idle)
}

/// `adjust_poll_limit`: `ebx` is the time in HLT; `eax` the new limit at `set`.
fn haltpoll(a: &mut CodeAssembler, set: CodeLabel, keep: CodeLabel) -> Result<(), IcedError> {
    let (mut shrink, mut floor) = (a.create_label(), a.create_label());
    let (mut low, mut high) = (a.create_label(), a.create_label());
    a.cmp(ebx, dword_ptr(poll::CEILING_NS))?;
    a.ja(shrink)?;
    a.mov(eax, dword_ptr(poll::LIMIT_NS))?;
    a.cmp(ebx, eax)?;
    a.jbe(keep)?;
    a.mul(dword_ptr(poll::GROW))?;
    a.cmp(eax, dword_ptr(poll::GROW_START_NS))?;
    a.jae(low)?;
    a.mov(eax, dword_ptr(poll::GROW_START_NS))?;
    a.set_label(&mut low)?;
    a.cmp(eax, dword_ptr(poll::CEILING_NS))?;
    a.jbe(high)?;
    a.mov(eax, dword_ptr(poll::CEILING_NS))?;
    a.set_label(&mut high)?;
    a.jmp(set)?;
    a.set_label(&mut shrink)?;
    a.cmp(dword_ptr(poll::ALLOW_SHRINK), 0)?;
    a.je(keep)?;
    divide(a, floor)?;
    a.set_label(&mut floor)?;
    a.cmp(eax, dword_ptr(poll::GROW_START_NS))?;
    a.jae(set)?;
    a.xor(eax, eax)?;
    a.jmp(set)
}

/// `eax`: the limit divided by the divisor; 0, and on to `none`, if that is 0.
fn divide(a: &mut CodeAssembler, none: CodeLabel) -> Result<(), IcedError> {
    a.xor(eax, eax)?;
    a.xor(edx, edx)?;
    a.cmp(dword_ptr(poll::SHRINK), 0)?;
    a.je(none)?;
    a.mov(eax, dword_ptr(poll::LIMIT_NS))?;
    a.div(dword_ptr(poll::SHRINK))
}

/// Smart idle poll: `ebx` is the whole idle time; `eax` the new limit at `set`.
fn smart(a: &mut CodeAssembler, set: CodeLabel, keep: CodeLabel) -> Result<(), IcedError> {
    let (mut shrink, mut grow) = (a.create_label(), a.create_label());
    let (mut capped, mut high) = (a.create_label(), a.create_label());
    a.cmp(ebx, dword_ptr(poll::CEILING_NS))?;
    a.ja(shrink)?;
    a.je(keep)?;
    a.mov(eax, dword_ptr(poll::LIMIT_NS))?;
    a.cmp(eax, dword_ptr(poll::CEILING_NS))?;
    a.jae(keep)?;
    a.test(eax, eax)?;
    a.jne(grow)?;
    a.mov(eax, SMART_FIRST_NS)?;
    a.jmp(capped)?;
    a.set_label(&mut grow)?;
    a.mul(dword_ptr(poll::GROW))?;
    a.test(edx, edx)?;
    a.jne(high)?;
    a.set_label(&mut capped)?;
    a.cmp(eax, dword_ptr(poll::CEILING_NS))?;
    a.jbe(set)?;
    a.set_label(&mut high)?;
    a.mov(eax, dword_ptr(poll::CEILING_NS))?;
    a.jmp(set)?;
    a.set_label(&mut shrink)?;
    divide(a, set)
}

/// Rule 2 in short, where the guest takes no notes: an idle time of `eax` ticks that is below the ceiling moves
/// no limit that is at the ceiling.
fn unless_nothing_changes(a: &mut CodeAssembler, answer: CodeLabel) -> Result<(), IcedError> {
    let mut judge = a.create_label();
    a.cmp(dword_ptr(poll::TAKES_NOTES), 0)?;
    a.jne(judge)?;
    // Rounded down, so what is below it in ticks is below it in nanoseconds.
    a.cmp(eax, dword_ptr(poll::CEILING_TICKS))?;
    a.jae(judge)?;
    a.mov(edx, dword_ptr(poll::LIMIT_NS))?;
    a.cmp(edx, dword_ptr(poll::CEILING_NS))?;
    a.je(answer)?;
    a.set_label(&mut judge)?;
    a.nop()
}

/// At `set`, makes `eax` the limit. At `keep`, notes `ebx` and the limit if that is wanted.
fn set_limit(
    a: &mut CodeAssembler,
    set: &mut CodeLabel,
    keep: &mut CodeLabel,
) -> Result<(), IcedError> {
    let mut noted = a.create_label();
    a.set_label(set)?;
    a.mov(dword_ptr(poll::LIMIT_NS), eax)?;
    scale(a, poll::TSC_KHZ, poll::MILLION)?;
    a.mov(dword_ptr(poll::LIMIT_TICKS), eax)?;
    a.set_label(keep)?;
    a.cmp(dword_ptr(poll::TAKES_NOTES), 0)?;
    a.je(noted)?;
    a.mov(dword_ptr(si).gs(), ebx)?;
    a.mov(eax, dword_ptr(poll::LIMIT_NS))?;
    a.mov(dword_ptr(si + 4).gs(), eax)?;
    a.add(si, 8)?;
    a.inc(dword_ptr(poll::NOTES))?;
    a.set_label(&mut noted)?;
    a.nop()
}

/// Work: rule 2 judges the idle time that it ended; then it is answered or handed on.
fn work(a: &mut Assembly, peer: Peer, places: &mut Places) -> Result<(), IcedError> {
    let done = a.done;
    let (mut answer, mut set, mut keep) = (a.create_label(), a.create_label(), a.create_label());
    a.set_label(&mut places.work)?;
    a.mov(dword_ptr(mailbox::POLLING), 0)?;
    a.mov(eax, dword_ptr(mailbox::WORK))?;
    a.mov(dword_ptr(poll::SEEN), eax)?;
    a.inc(dword_ptr(counter::ROUNDS))?;
    // The last state was not a poll that timed out, or HLT has taken that back.
    a.mov(dword_ptr(poll::TIMED_OUT), 0)?;
    a.cmp(dword_ptr(poll::RULE), poll::RULE_SMART)?;
    a.jne(answer)?;
    since(a, poll::IDLE_SINCE)?;
    unless_nothing_changes(a, answer)?;
    scale(a, poll::MILLION, poll::TSC_KHZ)?;
    a.mov(ebx, eax)?;
    smart(a, set, keep)?;
    set_limit(a, &mut set, &mut keep)?;
    a.set_label(&mut answer)?;
    if peer == Peer::Host {
        a.mov(dx, bp)?;
        a.out(dx, al)?;
        return a.jmp(places.begin_idle);
    }
    until_done(a, true, places.send, done)?;
    a.set_label(&mut places.send)?;
    send(a)?;
    until_done(a, false, places.begin_idle, done)?;
    a.jmp(places.begin_idle)
}

/// The first of the ring ends before it sends, the others after: goes `on` unless it is its turn to end.
fn until_done(
    a: &mut CodeAssembler,
    first: bool,
    on: CodeLabel,
    done: CodeLabel,
) -> Result<(), IcedError> {
    a.cmp(dword_ptr(poll::IS_FIRST), u32::from(first))?;
    a.jne(on)?;
    a.mov(eax, dword_ptr(counter::ROUNDS))?;
    a.cmp(eax, dword_ptr(param::ROUNDS))?;
    a.jae(done)
}

/// Moves the next one's work on, and wakes it unless it polls.
fn send(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut spared, mut sent) = (a.create_label(), a.create_label());
    a.inc(dword_ptr(mailbox::WORK).es())?;
    // Exchanging locks: the work is there before the flag is looked at.
    a.xchg(dword_ptr(poll::BARRIER), eax)?;
    a.cmp(dword_ptr(mailbox::POLLING).es(), 0)?;
    a.jne(spared)?;
    a.mov(ecx, msr::ICR)?;
    a.mov(edx, dword_ptr(param::NEXT))?;
    a.mov(eax, u32::from(IPI))?;
    a.wrmsr()?;
    a.inc(dword_ptr(poll::IPIS_SENT))?;
    a.jmp(sent)?;
    a.set_label(&mut spared)?;
    a.inc(dword_ptr(poll::IPIS_SPARED))?;
    a.set_label(&mut sent)?;
    a.nop()
}
