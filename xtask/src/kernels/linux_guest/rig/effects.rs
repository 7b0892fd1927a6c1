//! The effects of `effects.toml`: statements of a source, the columns that show them, and claims about their counts.

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effect {
    pub(super) name: String,
    /// The source, and its statement.
    pub(super) source: String,
    /// The finding or command of haltwise that answers it.
    pub(super) on_your_host: String,
    /// Work that counts are given for, and how much of it a load has.
    pub(super) unit: String,
    pub(super) units: u32,
    /// Shell of the host that starts the VMs.
    pub(super) begins: String,
    /// Arguments of `measured`, but in columns that have their own.
    pub(super) loads: String,
    /// Whether the guests run Debian's kernel for all hardware.
    #[serde(default)]
    pub(super) all_hardware: bool,
    pub(super) columns: Vec<Column>,
    pub(super) claims: Vec<Claim>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    /// Shell of the host that makes the column what it is.
    pub(super) setup: String,
    pub(super) loads: Option<String>,
}

/// A statement of the source, its figure, the base column, how the new column compares, and the new column.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Claim(
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) Is,
    pub(super) String,
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Is {
    /// Below the base by a tenth of it at least.
    Less,
    /// Above the base by a tenth of it at least.
    More,
    /// Within half of the base.
    Like,
    Zero,
}

pub(super) fn all() -> Result<Vec<Effect>> {
    #[derive(Deserialize)]
    struct Effects {
        effect: Vec<Effect>,
    }
    let effects: Effects =
        toml::from_str(include_str!("effects.toml")).context("understand effects.toml")?;
    Ok(effects.effect)
}
