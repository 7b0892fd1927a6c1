//! Addresses as functions: the kernel's from `/proc/kallsyms`, user space's from the ELF files that a
//! process has mapped, read while it is there to ask.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use haltwise_core::profile::Space;

use super::kallsyms::Kallsyms;
use super::maps::{self, Mapping};
use crate::root::Root;

/// `/proc/kallsyms` is read up to here: some ten times what kernels have.
const KALLSYMS_MOST: u64 = 64 << 20;

/// Between two looks at the mappings of a process that has an address they do not hold.
const LOOK_AGAIN_NS: u64 = 200_000_000;

/// A name is kept up to so many bytes: templates grow without end.
const NAME_MOST: usize = 400;

/// The code that the kernel maps into every process.
const VDSO: &str = "[vdso]";

/// A place in code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) space: Space,
    pub(super) module: String,
    pub(super) symbol: Option<String>,
    /// Only where there is no symbol.
    pub(super) address: Option<u64>,
}

/// Finds functions.
pub(super) struct Symbols {
    root: Root,
    kernel: Kallsyms,
    processes: BTreeMap<u32, Process>,
    /// Where the file of a device and number can be read.
    files: BTreeMap<(String, u64), Option<PathBuf>>,
    /// Where the kernel's own code lies in this process.
    vdso: Option<u64>,
    elf: Symbolizer,
}

#[derive(Debug, Default)]
struct Process {
    mappings: Vec<Mapping>,
    looked_ns: u64,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols")
            .field("processes", &self.processes.len())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    /// Reads the kernel's functions.
    pub(super) fn load(root: &Root) -> Self {
        let kallsyms = root.long_bytes("proc/kallsyms", KALLSYMS_MOST);
        let kallsyms = kallsyms.unwrap_or_default();
        Self {
            root: root.clone(),
            kernel: Kallsyms::parse(&String::from_utf8_lossy(&kallsyms)),
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            vdso: own_vdso(root),
            elf: Symbolizer::builder()
                .enable_auto_reload(false)
                .enable_code_info(false)
                .enable_inlined_fns(false)
                .build(),
        }
    }

    /// Whether functions of the kernel can be named.
    pub(super) fn knows_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// Forgets a process: its number may be another's from now on.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Looks at a process while it is there.
    pub(super) fn meet(&mut self, pid: u32, now_ns: u64) {
        let known = self.processes.entry(pid).or_default();
        if known.looked_ns == 0 {
            known.look(&self.root, pid, now_ns);
        }
    }

    /// A function of the kernel.
    pub(super) fn kernel(&self, address: u64) -> Place {
        let function = self.kernel.find(address);
        Place {
            space: Space::Kernel,
            module: function.map_or("kernel", |it| it.module).to_owned(),
            symbol: function.map(|it| it.name.to_owned()),
            address: function.is_none().then_some(address),
        }
    }

    /// A function of a process; `None` if no code lies at the address.
    pub(super) fn user(&mut self, pid: u32, address: u64, now_ns: u64) -> Option<Place> {
        let process = self.processes.entry(pid).or_default();
        if maps::find(&process.mappings, address).is_none()
            && now_ns.saturating_sub(process.looked_ns) >= LOOK_AGAIN_NS
        {
            process.look(&self.root, pid, now_ns);
        }
        let mapping = maps::find(&process.mappings, address)?.clone();
        let offset = mapping.offset.wrapping_add(address - mapping.start);
        let symbol = self.function(pid, &mapping, offset);
        Some(Place {
            space: Space::User,
            address: symbol.is_none().then_some(offset),
            module: mapping.path,
            symbol,
        })
    }

    fn function(&mut self, pid: u32, mapping: &Mapping, offset: u64) -> Option<String> {
        if mapping.path == VDSO {
            return self.shared(offset);
        }
        if !mapping.is_file() {
            return None;
        }
        let key = (mapping.device.clone(), mapping.inode);
        let root = &self.root;
        let path = self
            .files
            .entry(key)
            .or_insert_with(|| readable(root, pid, mapping));
        let source = Source::Elf(Elf::new(path.as_ref()?));
        // A file of somebody else's: what its reader trips over must not end the recording.
        let found = catch_unwind(AssertUnwindSafe(|| {
            let found = self
                .elf
                .symbolize_single(&source, Input::FileOffset(offset));
            let found = found.ok()?;
            Some(shortened(&found.as_sym()?.name))
        }));
        let Ok(name) = found else {
            *path = None;
            return None;
        };
        name
    }
}

impl Symbols {
    /// A function of the code that the kernel gives to every process alike: it is ours too. (Not quite
    /// alike to processes of 32 bits, whose functions may be named wrongly.)
    fn shared(&self, offset: u64) -> Option<String> {
        let address = self.vdso?.checked_add(offset)?;
        let source = Source::Process(blazesym::symbolize::source::Process::new(Pid::Slf));
        let found = self
            .elf
            .symbolize_single(&source, Input::AbsAddr(address))
            .ok()?;
        Some(shortened(&found.as_sym()?.name))
    }
}

/// Where the kernel put its code into this process.
fn own_vdso(root: &Root) -> Option<u64> {
    let maps = root.text("proc/self/maps").ok()?;
    let mappings = maps::parse(&maps);
    let vdso = mappings.iter().find(|mapping| mapping.path == VDSO)?;
    Some(vdso.start)
}

impl Process {
    fn look(&mut self, root: &Root, pid: u32, now_ns: u64) {
        self.looked_ns = now_ns;
        // Gone: what was known of it stays.
        if let Ok(bytes) = root.long_bytes(format!("proc/{pid}/maps"), KALLSYMS_MOST) {
            self.mappings = maps::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// Where a mapped file can be read: by its own path if that is the same file, else as its process
/// sees it.
fn readable(root: &Root, pid: u32, mapping: &Mapping) -> Option<PathBuf> {
    let path = root.path(&mapping.path);
    let is_same = |path: &PathBuf| {
        let file = std::fs::metadata(path);
        file.is_ok_and(|file| file.is_file() && file.ino() == mapping.inode)
    };
    let (start, end) = (mapping.start, mapping.end);
    let others = [
        root.path(format!("proc/{pid}/root{}", mapping.path)),
        root.path(format!("proc/{pid}/map_files/{start:x}-{end:x}")),
    ];
    std::iter::once(path).chain(others).find(is_same)
}

fn shortened(name: &str) -> String {
    let mut end = name.len().min(NAME_MOST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
