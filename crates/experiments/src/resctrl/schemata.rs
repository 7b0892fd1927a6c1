//! Resources that a class may use, in resctrl's format, and the split of a machine between two classes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The cache that can be split, as `info/L3` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// All ways, a bit each (`cbm_mask`).
    pub cbm_mask: u64,
    /// The fewest that a class may have (`min_cbm_bits`).
    pub min_cbm_bits: u32,
    /// Classes that the hardware knows, the default one included (`num_closids`).
    pub num_closids: u32,
}

/// The memory bandwidth that can be limited, as `info/MB` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth {
    /// The least, in percent (`min_bandwidth`).
    pub min_bandwidth: u32,
    /// Steps, in percent (`bandwidth_gran`).
    pub bandwidth_gran: u32,
    pub num_closids: u32,
}

/// Features that a root offers. A missing feature is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    pub cache: Option<Cache>,
    pub bandwidth: Option<Bandwidth>,
    pub schemata: Schemata,
}

/// Resources that a class may use: the value as written, by resource (`L3`, `MB`) and domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schemata(pub BTreeMap<String, BTreeMap<u32, String>>);

/// Not lines of `RESOURCE:DOMAIN=VALUE;…`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no line of a schemata file")]
pub struct NotSchemata(String);

impl FromStr for Schemata {
    type Err = NotSchemata;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut schemata = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let wrong = || NotSchemata(line.to_owned());
            let (resource, domains) = line.split_once(':').ok_or_else(wrong)?;
            let domain = |text: &str| {
                let (id, value) = text.split_once('=')?;
                Some((id.trim().parse().ok()?, value.trim().to_owned()))
            };
            let domains: Option<BTreeMap<u32, String>> = domains.split(';').map(domain).collect();
            schemata.insert(resource.trim().to_owned(), domains.ok_or_else(wrong)?);
        }
        Ok(Self(schemata))
    }
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, domains) in &self.0 {
            let domains: Vec<_> = domains
                .iter()
                .map(|(id, value)| format!("{id}={value}"))
                .collect();
            writeln!(f, "{resource}:{}", domains.join(";"))?;
        }
        Ok(())
    }
}

impl Schemata {
    /// The same with what another says of resources that both have.
    pub fn overlay(&mut self, other: &Self) {
        for (resource, domains) in &other.0 {
            if let Some(mine) = self.0.get_mut(resource) {
                mine.extend(domains.iter().map(|(id, value)| (*id, value.clone())));
            }
        }
    }
}

impl Found {
    /// A class for a VM and one for its neighbours: the upper and the lower half of the ways, in one piece each as
    /// Intel's hardware wants them, and half of the bandwidth for the neighbours. `None` if there is
    /// nothing to split, or too little of it.
    pub fn split(&self) -> Option<[Schemata; 2]> {
        let (mut vm, mut neighbours) = (Schemata::default(), Schemata::default());
        let domains = |resource: &str| self.schemata.0.get(resource).map(BTreeMap::keys);
        if let (Some(cache), Some(ids)) = (self.cache, domains("L3")) {
            let [upper, lower] = cache.halves()?;
            for id in ids {
                set(&mut vm, "L3", *id, format!("{upper:x}"));
                set(&mut neighbours, "L3", *id, format!("{lower:x}"));
            }
        }
        if let (Some(bandwidth), Some(ids)) = (self.bandwidth, domains("MB")) {
            for id in ids {
                set(&mut vm, "MB", *id, "100".to_owned());
                set(&mut neighbours, "MB", *id, bandwidth.half().to_string());
            }
        }
        // The default class and these two.
        let classes = [
            self.cache.map(|c| c.num_closids),
            self.bandwidth.map(|b| b.num_closids),
        ];
        let enough = classes.into_iter().flatten().all(|classes| classes >= 3);
        (enough && !vm.0.is_empty()).then_some([vm, neighbours])
    }
}

fn set(schemata: &mut Schemata, resource: &str, id: u32, value: String) {
    let domains = schemata.0.entry(resource.to_owned()).or_default();
    domains.insert(id, value);
}

impl Cache {
    /// The upper and the lower half of the lowest ways that lie in one piece.
    fn halves(self) -> Option<[u64; 2]> {
        let low = self.cbm_mask.trailing_zeros().min(63);
        let ways = (self.cbm_mask >> low).trailing_ones();
        let half = ways / 2;
        if half < self.min_cbm_bits.max(1) {
            return None;
        }
        let lower = ((1_u64 << half) - 1) << low;
        let all = u64::MAX >> (64 - ways) << low;
        Some([all & !lower, lower])
    }
}

impl Bandwidth {
    fn half(self) -> u32 {
        let steps = 50_u32.div_ceil(self.bandwidth_gran.max(1));
        let half = steps.saturating_mul(self.bandwidth_gran.max(1));
        half.max(self.min_bandwidth).min(100)
    }
}
