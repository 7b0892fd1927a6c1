//! Addresses as functions: the kernel's from `/proc/kallsyms`, user space's from the ELF files that a
//! process has mapped, read by a child while it is there to ask.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;

use haltwise_core::ids::Pid;
use haltwise_core::profile::{Frame, Space};
use haltwise_core::recording::Missing;

use super::elf::Functions;
use super::files::{self, Ask, Mapping, written_name};
use super::kallsyms::Kallsyms;
use super::namer::Namer;
use crate::opaque::Opaque;
use crate::process_files;
use crate::root::Root;

/// `/proc/kallsyms` is read up to here: some ten times what kernels have.
const KALLSYMS_MOST: u64 = 64 << 20;

/// Between two looks at the mappings of a process that has an address they do not hold.
const LOOK_AGAIN_NS: u64 = 200_000_000;

/// The code that the kernel maps into every process.
const VDSO: &str = "[vdso]";

#[derive(Debug)]
pub(super) struct Symbols {
    root: Root,
    kernel: Opaque<Kallsyms>,
    processes: BTreeMap<u32, Process>,
    vdso: Option<Vdso>,
    namer: Namer,
}

#[derive(Debug, Default)]
struct Process {
    mappings: Vec<Mapping>,
    looked_ns: u64,
}

impl Symbols {
    pub(super) fn load(root: &Root) -> Self {
        let kallsyms = root.long_bytes("proc/kallsyms", KALLSYMS_MOST);
        let kallsyms = kallsyms.unwrap_or_default();
        Self {
            root: root.clone(),
            kernel: Opaque(Kallsyms::parse(&String::from_utf8_lossy(&kallsyms))),
            processes: BTreeMap::new(),
            vdso: Vdso::own(root),
            namer: Namer::new(root),
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

    pub(super) fn meet(&mut self, pid: u32, now_ns: u64) {
        let known = self.processes.entry(pid).or_default();
        if known.looked_ns == 0 {
            known.look(&self.root, pid, now_ns);
        }
    }

    /// A function of the kernel, not yet numbered.
    pub(super) fn kernel(&self, address: u64) -> Frame {
        let function = self.kernel.find(address);
        Frame {
            id: 0,
            space: Space::Kernel,
            module: function.map_or("kernel", |it| it.module).to_owned(),
            symbol: function.map(|it| it.name.to_owned()),
            address: function.is_none().then_some(address),
        }
    }

    /// A function of a process; `None` if no code lies at the address.
    pub(super) fn user(&mut self, pid: u32, address: u64, now_ns: u64) -> Option<Frame> {
        let process = self.processes.entry(pid).or_default();
        if files::find_mapping(&process.mappings, address).is_none()
            && now_ns.saturating_sub(process.looked_ns) >= LOOK_AGAIN_NS
        {
            process.look(&self.root, pid, now_ns);
        }
        let mapping = files::find_mapping(&process.mappings, address)?.clone();
        let offset = mapping.offset.wrapping_add(address - mapping.start);
        let symbol = self.function(pid, &mapping, offset);
        Some(Frame {
            id: 0,
            space: Space::User,
            address: symbol.is_none().then_some(offset),
            module: mapping.path,
            symbol,
        })
    }

    fn function(&mut self, pid: u32, mapping: &Mapping, offset: u64) -> Option<String> {
        if mapping.path == VDSO {
            return self.vdso.as_ref()?.name(offset);
        }
        if !mapping.is_file() {
            return None;
        }
        self.namer.name(&Ask {
            pid,
            mapping: mapping.clone(),
            offset,
        })
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        self.namer.missing()
    }
}

/// The code that the kernel gives to every process alike: it is ours too. (Not quite alike to processes of
/// 32 bits, whose functions may be named wrongly.)
#[derive(Debug)]
struct Vdso {
    code: Vec<u8>,
    functions: Functions,
}

impl Vdso {
    fn own(root: &Root) -> Option<Self> {
        let maps = root.text("proc/self/maps").ok()?;
        let mappings = files::parse_maps(&maps);
        let vdso = mappings.iter().find(|mapping| mapping.path == VDSO)?;
        let mut code = vec![0; usize::try_from(vdso.end - vdso.start).ok()?];
        let memory = File::open(root.path("proc/self/mem")).ok()?;
        memory.read_exact_at(&mut code, vdso.start).ok()?;
        let functions = Functions::read(&Cursor::new(&code)).ok()?;
        Some(Self { code, functions })
    }

    fn name(&self, offset: u64) -> Option<String> {
        let symbol = self.functions.find(&Cursor::new(&self.code), offset)?;
        Some(written_name(&symbol))
    }
}

impl Process {
    fn look(&mut self, root: &Root, pid: u32, now_ns: u64) {
        self.looked_ns = now_ns;
        // Gone: what was known of it stays.
        let maps = process_files::look(root, Pid(pid), move |root| {
            root.long_bytes(format!("proc/{pid}/maps"), KALLSYMS_MOST)
        });
        if let Ok(Ok(bytes)) = maps {
            self.mappings = files::parse_maps(&String::from_utf8_lossy(&bytes));
        }
    }
}
