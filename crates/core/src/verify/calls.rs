//! Finds the call of grow or shrink that belongs to a halt: two tables, each in its own order.
//!
//! A table of halts is in order of their starts, one of calls in order of their times; within each
//! thread the two agree. So calls are taken in as they come and wait, by thread, for their halt.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{Halt, WindowChange};
use crate::ids::Tid;

/// Calls that wait for their halts.
#[derive(Debug, Default)]
pub struct Calls {
    waiting: BTreeMap<Tid, VecDeque<WindowChange>>,
    count: usize,
}

impl Calls {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A call, in the order of the table.
    pub fn add(&mut self, call: WindowChange) {
        self.count += 1;
        self.waiting.entry(call.tid).or_default().push_back(call);
    }

    /// Whether the thread has a call as late as this halt: more of the table need not be read.
    pub fn reaches(&self, halt: &Halt) -> bool {
        let waiting = self.waiting.get(&halt.tid);
        let last = waiting.and_then(VecDeque::back);
        last.is_some_and(|call| call.time_ns >= halt.end_ns())
    }

    /// The call that this halt made. Older ones of the thread, whose halts are missing, are dropped.
    pub fn take(&mut self, halt: &Halt) -> Option<WindowChange> {
        let waiting = self.waiting.get_mut(&halt.tid)?;
        let end_ns = halt.end_ns();
        while let Some(call) = waiting.pop_front_if(|call| call.time_ns <= end_ns) {
            self.count -= 1;
            if call.time_ns == end_ns {
                return Some(call);
            }
        }
        None
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::Call;

    fn call(tid: u32, time_ns: u64) -> WindowChange {
        let (grow, old, new) = (true, 0, 0);
        let call = Call { grow, old, new };
        call.row(&halt(tid, time_ns))
    }

    fn halt(tid: u32, end_ns: u64) -> Halt {
        Halt {
            start_ns: end_ns - 5,
            halt_ns: 5,
            tid: Tid(tid),
            ..Halt::default()
        }
    }

    #[test]
    fn each_halt_finds_its_own_call_and_no_other() {
        let mut calls = Calls::default();
        for (tid, time) in [(1, 10), (2, 15), (1, 20), (1, 30)] {
            calls.add(call(tid, time));
        }
        assert!(calls.reaches(&halt(1, 30)) && !calls.reaches(&halt(1, 31)));
        assert!(!calls.reaches(&halt(3, 10)));
        assert_eq!(calls.take(&halt(1, 20)), Some(call(1, 20)));
        assert_eq!(calls.take(&halt(1, 25)), None);
        assert_eq!(calls.take(&halt(2, 15)), Some(call(2, 15)));
        assert_eq!(calls.take(&halt(2, 15)), None);
        assert_eq!((calls.len(), calls.is_empty()), (1, false));
    }
}
