//! Whether a capture is whole, and making a whole one of it: what `check` and `repair` say.

pub(crate) mod page;
pub(crate) mod view;

/// Version of the JSON of both; documented in `docs/check-json.md` and `docs/repair-json.md`.
pub(crate) const SCHEMA: u32 = 1;
