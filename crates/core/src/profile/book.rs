//! Frames, stacks and threads, to look up.

use std::collections::BTreeMap;

use super::{Frame, Stack, Thread};
use crate::ids::{Tid, VmIndex};

/// Frames of a stack that are kept: the kernel walks 127 of its own and of user space unless its
/// `perf_event_max_stack` was raised.
const FRAMES_MOST: usize = 1024;

/// Frames, stacks and threads that samples point to.
#[derive(Debug, Clone, Default)]
pub struct Book {
    frames: BTreeMap<u64, Frame>,
    stacks: BTreeMap<u64, Stack>,
    threads: BTreeMap<(Option<VmIndex>, Tid), Option<String>>,
}

impl Book {
    /// Takes over a frame.
    pub fn frame(&mut self, frame: Frame) {
        self.frames.insert(frame.id, frame);
    }

    /// Takes over a stack. Its frames must be there already; those that are not are left out.
    pub fn stack(&mut self, mut stack: Stack) {
        let named = stack.frames.len();
        stack.frames.retain(|id| self.frames.contains_key(id));
        let is_whole = stack.frames.len() == named;
        stack.cut |= !is_whole || stack.frames.len() > FRAMES_MOST;
        stack.frames.truncate(FRAMES_MOST);
        self.stacks.insert(stack.id, stack);
    }

    /// Takes over a thread's name; the first that is known stays.
    pub fn thread(&mut self, thread: Thread) {
        let name = self.threads.entry((thread.vm, thread.tid)).or_default();
        if name.is_none() {
            *name = thread.name;
        }
    }

    /// The frames of a stack, the innermost first.
    pub fn frames(&self, stack: u64) -> impl DoubleEndedIterator<Item = &Frame> {
        let frames = self.stacks.get(&stack).map(|stack| &stack.frames[..]);
        let frames = frames.unwrap_or_default().iter();
        frames.filter_map(|id| self.frames.get(id))
    }

    /// Whether frames are missing at the outer end of a stack; also if the stack itself is missing.
    pub fn is_cut(&self, stack: u64) -> bool {
        stack != 0 && self.stacks.get(&stack).is_none_or(|stack| stack.cut)
    }

    /// The name of a thread, where it is known.
    pub fn name(&self, vm: Option<VmIndex>, tid: Tid) -> Option<&str> {
        self.threads.get(&(vm, tid))?.as_deref()
    }
}
