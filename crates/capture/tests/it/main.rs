//! Tests of the capture from the outside: through its public interface and its files.

mod common;
mod round_trip;
