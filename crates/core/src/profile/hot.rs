//! Which symbols are hot: by themselves, and with all that they call.

use std::collections::{BTreeMap, BTreeSet};

use super::account::{Site, sums};
use super::book::Book;
use super::sample::Hit;
use super::share::Sum;
use super::stack::Space;
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

/// How hot a symbol is.
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
