//! `idle_states`: how long and how often the CPUs were in each state of cpuidle.

use haltwise_core::event::IdleState;

use crate::laws::Laws;

table! {
    COLUMNS of IdleStates: IdleState {
        time_ns: U64, "When.";
        state: U32, "The state's number, from the shallowest on.";
        name: Text, "What its driver calls it, for example `POLL`, `C1E`.";
        description: Text, "How its driver describes it.";
        cpus: U32, "CPUs that have it.";
        entries: U64, "How often they entered it since boot (`usage`).";
        residency_ns: U64, "How long they were in it since boot (`time`).";
        above: U64, null "not counted by this kernel",
            "Entries that ended before the state's target residency, while a shallower one was enabled.";
        below: U64, null "not counted by this kernel", "Entries that lasted long enough for the next deeper state.";
    }
    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::idle_state)
    }
}
