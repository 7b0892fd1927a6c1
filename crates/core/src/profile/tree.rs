//! Which symbols are hot, and stacks as a tree: what flame graphs are drawn from, and what folded stacks are lines of.
//!
//! A path goes from the VM over its thread and the exit being handled to the frames of the stack, the
//! outermost first.

use std::collections::{BTreeMap, BTreeSet};

use super::account::{ExitOf, Site, Sum, Who, sums};
use super::sample::{Book, Hit, Space};
use crate::exit::names::Names;
use crate::ids::VmIndex;
use crate::stats::Fold;

/// A function, or what stands for one where no stack is walked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its name, or module and address.
    pub name: String,
    pub module: String,
    /// Owner of the code; `None` of a guest.
    pub space: Option<Space>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heat {
    /// Samples that hit it.
    pub own: Sum,
    /// Samples that hit it or what it called.
    pub all: Sum,
}

/// Symbol of a hit without a frame: in the guest, and where the stack could not be walked.
pub fn hit_symbol(hit: Hit) -> Symbol {
    let name = match hit {
        Hit::GuestKernel => "[guest kernel]",
        Hit::GuestUser => "[guest user]",
        Hit::Kernel => "[kernel]",
        Hit::User => "[user]",
        Hit::Hypervisor => "[hypervisor]",
        Hit::Unknown => "[unknown]",
    };
    let module = if hit.is_guest() { "guest" } else { "" };
    Symbol {
        name: name.to_owned(),
        module: module.to_owned(),
        space: None,
    }
}

/// The heat of every symbol of these sites, the hottest by itself first.
pub fn symbols<'a>(
    sites: impl Iterator<Item = (&'a Site, &'a Sum)>,
    book: &Book,
) -> Vec<(Symbol, Heat)> {
    let mut heats = BTreeMap::<Symbol, Heat>::new();
    for ((stack, hit), sum) in sums(sites, |site| (site.stack, site.hit)) {
        let frames = book.frames(stack).map(|frame| Symbol {
            name: frame.name(),
            module: frame.module_name().to_owned(),
            space: Some(frame.space),
        });
        let mut frames: Vec<Symbol> = frames.collect();
        if frames.is_empty() || hit.is_guest() {
            frames.insert(0, hit_symbol(hit));
        }
        if let Some(own) = frames.first() {
            heats.entry(own.clone()).or_default().own.fold(&sum);
        }
        // A function that calls itself counts once.
        for symbol in frames.into_iter().collect::<BTreeSet<_>>() {
            heats.entry(symbol).or_default().all.fold(&sum);
        }
    }
    let mut heats: Vec<(Symbol, Heat)> = heats.into_iter().collect();
    heats.sort_by(|(a, x), (b, y)| {
        let key = |heat: &Heat| (heat.own.weight, heat.all.weight);
        key(y).cmp(&key(x)).then_with(|| a.cmp(b))
    });
    heats
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Root,
    Vm,
    /// A vCPU or another thread.
    Thread,
    Exit,
    Guest,
    User,
    Kernel,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    pub name: String,
    pub kind: Kind,
    /// The module of a function; else empty.
    pub module: String,
}

impl Step {
    fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            module: String::new(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    pub book: &'a Book,
    pub reasons: &'a Names,
    pub vms: &'a BTreeMap<VmIndex, String>,
}

impl Naming<'_> {
    pub fn vm(&self, vm: Option<VmIndex>) -> String {
        let name = vm.and_then(|vm| self.vms.get(&vm));
        name.map_or_else(|| "unknown VM".to_owned(), Clone::clone)
    }

    pub fn thread(&self, site: &Site) -> String {
        match site.who {
            Who::Vcpu(vcpu) => format!("vCPU {vcpu}"),
            Who::Thread(tid) => match self.book.name(site.vm, tid) {
                Some(name) => format!("{name} ({tid})"),
                None => format!("thread {tid}"),
            },
        }
    }

    /// The path of a site, from the VM inwards.
    pub fn path(&self, site: &Site) -> Vec<Step> {
        let mut path = vec![
            Step::new(Kind::Vm, self.vm(site.vm)),
            Step::new(Kind::Thread, self.thread(site)),
        ];
        if !matches!(site.exit, ExitOf::NoVcpu | ExitOf::Guest) {
            path.push(Step::new(Kind::Exit, site.exit.name(self.reasons)));
        }
        let before = path.len();
        let frames = self.book.frames(site.stack).rev().map(|frame| Step {
            name: frame.name(),
            kind: match frame.space {
                Space::User => Kind::User,
                Space::Kernel => Kind::Kernel,
            },
            module: frame.module_name().to_owned(),
        });
        path.extend(frames);
        if path.len() == before || site.hit.is_guest() {
            let kind = if site.hit.is_guest() {
                Kind::Guest
            } else {
                Kind::Unknown
            };
            path.push(Step::new(kind, hit_symbol(site.hit).name));
        }
        path
    }
}

/// A step and what lies behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub step: Step,
    pub own: Sum,
    /// Samples that ended here or further in.
    pub all: Sum,
    /// Steps further in, by name.
    pub children: Vec<Node>,
}

pub fn tree<'a>(sites: impl Iterator<Item = (&'a Site, &'a Sum)>, naming: &Naming<'_>) -> Node {
    let paths: Vec<(Vec<Step>, Sum)> = sums(sites, |site| naming.path(site)).into_iter().collect();
    node(Step::new(Kind::Root, "all"), &paths, 0)
}

/// The node at so much depth of these paths, which are sorted and share everything before it. A path
/// is no longer than a stack that [`Book`] keeps.
fn node(step: Step, paths: &[(Vec<Step>, Sum)], depth: usize) -> Node {
    let mut node = Node {
        step,
        own: Sum::default(),
        all: Sum::default(),
        children: Vec::new(),
    };
    let mut rest = paths;
    while let Some((path, sum)) = rest.first() {
        let Some(next) = path.get(depth) else {
            node.own.fold(sum);
            node.all.fold(sum);
            rest = &rest[1..];
            continue;
        };
        let same = rest
            .iter()
            .take_while(|(path, _)| path.get(depth) == Some(next));
        let (these, others) = rest.split_at(same.count());
        let child = self::node(next.clone(), these, depth + 1);
        node.all.fold(&child.all);
        node.children.push(child);
        rest = others;
    }
    node
}

/// The tree as lines `a;b;c samples`, as `stackcollapse` tools write them, sorted.
pub fn folded(root: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    for child in &root.children {
        fold(child, "", &mut lines);
    }
    lines
}

fn fold(node: &Node, before: &str, lines: &mut Vec<String>) {
    // A semicolon parts steps and a line ends a path: in a name they would make others of it.
    let plain = |c: char| match c {
        ';' => ',',
        c if c.is_control() => '?',
        // Line separators, and marks that turn the writing direction.
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
        c => c,
    };
    let name: String = node.step.name.chars().map(plain).collect();
    let path = if before.is_empty() {
        name
    } else {
        format!("{before};{name}")
    };
    if node.own.samples > 0 {
        lines.push(format!("{path} {}", node.own.samples));
    }
    for child in &node.children {
        fold(child, &path, lines);
    }
}
