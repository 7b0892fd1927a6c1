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

/// A function is no longer than this; what lies further behind the last one belongs to none.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Kallsyms {
    /// Sorted by their addresses; each once.
    functions: Vec<Known>,
    names: String,
    modules: Vec<String>,
}

/// A function: its address, where its name lies in the names, and its module.
#[derive(Debug)]
struct Known {
    start: u64,
    name: [u32; 2],
    module: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// `kernel`, or the name of a module.
    pub(super) module: &'a str,
}

impl Kallsyms {
    /// Reads lines `address type name [module]`. Others are left out, and so are hidden addresses (0).
    pub(super) fn parse(text: &str) -> Self {
        let mut lines: Vec<Line<'_>> = text.lines().filter_map(line).collect();
        // The best readable of several names of one address.
        lines.sort_by_key(|line| (line.start, awkward(line.name), line.name.len(), line.name));
        lines.dedup_by_key(|line| line.start);
        let mut made = Self::default();
        let mut modules = BTreeMap::new();
        for line in lines {
            let next = u16::try_from(modules.len()).unwrap_or(u16::MAX);
            let module = *modules.entry(line.module).or_insert_with(|| {
                made.modules.push(line.module.to_owned());
                next
            });
            let end = |names: &String| u32::try_from(names.len()).unwrap_or(u32::MAX);
            let begin = end(&made.names);
            made.names.push_str(line.name);
            made.functions.push(Known {
                start: line.start,
                name: [begin, end(&made.names)],
                module,
            });
        }
        made
    }

    /// Whether it has no function: the file was not there, or hides its addresses.
    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(super) fn find(&self, address: u64) -> Option<Function<'_>> {
        let at = self.functions.partition_point(|it| it.start <= address);
        let known = &self.functions[at.checked_sub(1)?];
        if address - known.start >= LONGEST {
            return None;
        }
        let [begin, end] = known.name.map(|at| at as usize);
        Some(Function {
            name: plain(self.names.get(begin..end)?),
            module: self.modules.get(usize::from(known.module))?,
        })
    }
}

struct Line<'a> {
    start: u64,
    name: &'a str,
    module: &'a str,
}

fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    let module = match words.next() {
        Some(module) => module.strip_prefix('[')?.strip_suffix(']')?,
        None => "kernel",
    };
    (is_code && start > 0).then_some(Line {
        start,
        name,
        module,
    })
}

/// How little a name says: padding before a function, the ends of sections, names with dots.
fn awkward(name: &str) -> u8 {
    match name {
        name if name.starts_with("__pfx_") => 3,
        "_text" | "_stext" | "_etext" | "_sinittext" => 2,
        name if name.contains('.') => 1,
        _ => 0,
    }
}

/// A name without what a compiler appends: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

#[cfg(test)]
mod test;
