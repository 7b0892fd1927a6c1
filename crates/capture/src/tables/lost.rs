//! `lost`: events that never reached the recorder.

use haltwise_core::event::Lost;

table! {
    COLUMNS of Lost: Lost {
        time_ns: U64, "When the loss was noticed.";
        count: U64, "How many events.";
        place: Text, "Which stage lost them, for example `ring buffer full`.";
    }
}
