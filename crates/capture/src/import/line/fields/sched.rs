//! The scheduler's events. A task's name may hold anything but is 15 bytes long, so that what is
//! longer cannot be part of one: such words are sought, from the right.

use haltwise_core::ids::Tid;

use super::{What, number};

/// `comm=… pid=4201 prio=120 target_cpu=001`, bare or not, or the plugin's `…:4201 [120] CPU:001`.
pub(super) fn waking(text: &[u8]) -> Option<What> {
    let woken = if text.starts_with(b"comm=") {
        // No name can hold both of these.
        let tail = after_last(text, b" target_cpu=")?;
        let before = &text[..text.len() - tail.len()];
        is_last_value(tail).then_some(())?;
        tid_at(after_last(before, b" pid=")?)?
    } else {
        let cpu = after_last(text, b" CPU:")?;
        number::decimal(cpu)?;
        let before = &text[..text.len() - cpu.len() - b" CPU:".len()];
        plugin_task(before)?
    };
    Some(What::Waking { woken })
}

/// `prev_comm=… prev_pid=4201 prev_prio=120 prev_state=S ==> next_comm=…`, bare without the arrow, or
/// the plugin's `…:4201 [120] S ==> …:0 [120]`.
pub(super) fn switch(text: &[u8]) -> Option<What> {
    let (tid, state) = if text.starts_with(b"prev_comm=") {
        is_last_value(after_last(text, b" next_prio=")?).then_some(())?;
        let next = after_last(text, b" next_comm=")?;
        let before = &text[..text.len() - next.len() - b" next_comm=".len()];
        let before = before.strip_suffix(b" ==>").unwrap_or(before);
        let state = after_last(before, b" prev_state=")?;
        (tid_at(after_last(before, b" prev_pid=")?)?, state)
    } else {
        let next = after_last(text, b" ==> ")?;
        plugin_task(next)?;
        let before = &text[..text.len() - next.len() - b" ==> ".len()];
        let blank = before.iter().rposition(|byte| *byte == b' ')?;
        (plugin_task(&before[..blank])?, &before[blank + 1..])
    };
    Some(match state {
        // TASK_INTERRUPTIBLE, in which kvm_vcpu_block sleeps.
        b"S" | b"1" | b"0x1" | b"0x1 (1)" => What::Slept { tid },
        // It could go on, or waits elsewhere.
        _ => What::Switched,
    })
}

/// A task as the plugin prints it, `comm:pid [prio]`, at the end of a text.
fn plugin_task(text: &[u8]) -> Option<Tid> {
    let open = text.iter().rposition(|byte| *byte == b'[')?;
    signed(text[open + 1..].strip_suffix(b"]")?)?;
    let before = text[..open].strip_suffix(b" ")?;
    let colon = before.iter().rposition(|byte| *byte == b':')?;
    tid(&before[colon + 1..])
}

/// A priority: deadline tasks have -1.
fn signed(text: &[u8]) -> Option<u64> {
    number::any(text.strip_prefix(b"-").unwrap_or(text))
}

/// The number at the beginning of a text: `4201 …` or `0x1069 (4201) …`.
fn tid_at(text: &[u8]) -> Option<Tid> {
    let end = text.iter().position(|byte| *byte == b' ');
    tid(&text[..end.unwrap_or(text.len())])
}

fn tid(text: &[u8]) -> Option<Tid> {
    u32::try_from(number::any(text)?).ok().map(Tid)
}

/// Whether a text is one value, and nothing after it.
fn is_last_value(text: &[u8]) -> bool {
    let mut words = text.split(|byte| *byte == b' ');
    let first = words.next().and_then(signed);
    let decimal = words.next().map(|word| {
        let inner = word.strip_prefix(b"(").and_then(|w| w.strip_suffix(b")"));
        inner.and_then(signed).is_some()
    });
    first.is_some() && decimal.unwrap_or(true) && words.next().is_none()
}

fn after_last<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(word.len()).rposition(|piece| piece == word)?;
    Some(&text[at + word.len()..])
}
