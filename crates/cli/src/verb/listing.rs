//! Options of tables that list VMs.

/// How many VMs a table lists, and whether each is shown in detail.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Listing {
    /// VMs in the table; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Also print each VM in detail, as for a capture of one VM
    #[arg(long)]
    detail: bool,
}

impl Listing {
    /// The most VMs that a table lists.
    pub(crate) fn most(self) -> usize {
        match self.top {
            0 => usize::MAX,
            most => most,
        }
    }

    /// Whether each VM is shown in detail.
    pub(crate) fn detail(self) -> bool {
        self.detail
    }
}
