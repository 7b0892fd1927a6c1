//! KVM's parameters as a command line gives them, where a recording does not have them.

use haltwise_core::parameter::{Parameter, Values};

use crate::time;

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct GivenParameters {
    /// Module parameter `halt_poll_ns`: 200us or 200000 [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) max: Option<u32>,
    /// Module parameter `halt_poll_ns_grow` [default: recorded, else unknown]
    #[arg(long, value_name = "N")]
    pub(crate) grow: Option<u32>,
    /// Module parameter `halt_poll_ns_grow_start` [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) grow_start: Option<u32>,
    /// Module parameter `halt_poll_ns_shrink` [default: recorded, else unknown]
    #[arg(long, value_name = "N")]
    pub(crate) shrink: Option<u32>,
    /// Ceiling of every VM (`KVM_CAP_HALT_POLL`) [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) cap: Option<u32>,
}

impl GivenParameters {
    pub(crate) fn values(self) -> Values {
        let given = [self.max, self.grow, self.grow_start, self.shrink];
        let known = Parameter::HOST.into_iter().zip(given);
        known.filter_map(|(it, value)| Some((it, value?))).collect()
    }
}
