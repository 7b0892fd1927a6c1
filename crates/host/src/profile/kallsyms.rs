//! `/proc/kallsyms`: the functions of the kernel, its modules and its BPF programs. Pure.

use std::collections::BTreeMap;

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
    /// Reads the file: lines `address type name [module]`. Other lines are left out, and so are hidden
    /// addresses (0).
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
