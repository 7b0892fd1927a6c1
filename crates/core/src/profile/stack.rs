//! Stacks, the frames they are made of, and names of threads.

use crate::ids::{Pid, Tid, VmIndex};

crate::names! {
    /// Owner of a frame's code.
    pub enum Space {
        /// The host's kernel and its modules.
        Kernel = "kernel",
        /// User space: the VMM and its libraries.
        User = "user",
    }
}

/// A function, or an address that no symbol covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number, from 1 on. Two may be equal in everything else.
    pub id: u64,
    pub space: Space,
    /// `kernel`, a kernel module's name, the path of a program or library, or `[vdso]` and the like;
    /// empty where nothing is known of the address.
    pub module: String,
    /// The function, without what a compiler appends to its name; demangled.
    pub symbol: Option<String>,
    /// Where there is no symbol: the address, in a file counted from its beginning.
    pub address: Option<u64>,
}

impl Frame {
    /// The last part of the module's path.
    pub fn module_name(&self) -> &str {
        let name = self.module.trim_end_matches(" (deleted)");
        name.rsplit('/').next().unwrap_or(name)
    }

    /// The function; without a symbol, module and address.
    pub fn name(&self) -> String {
        match (&self.symbol, self.address) {
            (Some(symbol), _) => symbol.clone(),
            (None, Some(address)) if self.module.is_empty() => format!("{address:#x}"),
            (None, Some(address)) => format!("{}+{address:#x}", self.module_name()),
            (None, None) if self.module.is_empty() => "[unknown]".to_owned(),
            (None, None) => format!("[{}]", self.module_name()),
        }
    }
}

/// A chain of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its number, from 1 on. Two may hold the same frames.
    pub id: u64,
    /// Numbers of its frames, the innermost first: the kernel's before those of user space.
    pub frames: Vec<u64>,
    /// Whether frames are missing at its outer end: an address that is no code, or the kernel's limit.
    pub cut: bool,
}

/// The name of a thread when it was first sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub vm: Option<VmIndex>,
    pub pid: Pid,
    pub tid: Tid,
    /// Its name (`/proc/PID/task/TID/comm`); `None` if it was gone.
    pub name: Option<String>,
}
