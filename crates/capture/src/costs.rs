//! Costs tables on disk: what every setting of a grid would cost each VM, as sums ([`haltwise_core::costs`]).
//!
//! A table is one Parquet file, and many of them are a lake: `host=NAME/date=DATE/TIME.parquet`. `docs/costs-format.md`
//! describes both; `haltwise pages` writes `costs-columns.md` from [`COLUMNS`].

pub mod batch;
pub mod columns;
pub mod lake;
pub mod read;
mod seal;
pub mod write;

pub use batch::Batch;
pub use columns::COLUMNS;
pub use read::{CostsError, Reader};
pub use write::encode;

/// The schema that is written, and the newest that is read.
pub const SCHEMA: u32 = 2;

/// The first whose files have a checksum.
const SEALED_SCHEMA: u32 = 2;

/// The entry of a file's metadata that holds it.
const SCHEMA_KEY: &str = "haltwise.costs";

/// The entry that holds the name of the grid.
const GRID_KEY: &str = "haltwise.grid";

#[cfg(test)]
mod test;
