//! Where the fields of tracepoints lie: as the running kernel's format files say, and nothing else.

use crate::collector::CollectError;
use crate::tracefs::{EventFormat, Field, FormatError};

pub(super) trait Kind: Copy {
    fn fields(self) -> &'static [&'static str];
}

/// The tracepoints that this kernel has, the one that is indispensable first.
#[derive(Debug)]
pub(super) struct Layouts<K> {
    common_type: Field,
    all: Vec<Layout<K>>,
}

#[derive(Debug)]
pub(super) struct Layout<K> {
    pub(super) id: u64,
    pub(super) kind: K,
    fields: Vec<Field>,
}

pub(super) struct Values<'a, K> {
    raw: &'a [u8],
    layout: &'a Layout<K>,
}

impl<K: Kind> Layouts<K> {
    pub(super) fn new(first: K, format: &EventFormat) -> Result<Self, CollectError> {
        let mut layouts = Self {
            common_type: number(format, "common_type")?,
            all: Vec::new(),
        };
        layouts.add(first, format)?;
        Ok(layouts)
    }

    pub(super) fn add(&mut self, kind: K, format: &EventFormat) -> Result<(), CollectError> {
        let fields = kind.fields().iter().map(|field| number(format, field));
        self.all.push(Layout {
            id: format.id,
            kind,
            fields: fields.collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    pub(super) fn all(&self) -> &[Layout<K>] {
        &self.all
    }

    /// `None` of bytes that are no event of these.
    pub(super) fn of<'a>(&'a self, raw: &'a [u8]) -> Option<Values<'a, K>> {
        let id = self.common_type.read(raw)?;
        let layout = self.all.iter().find(|layout| layout.id == id)?;
        Some(Values { raw, layout })
    }
}

impl<K: Kind> Values<'_, K> {
    pub(super) fn kind(&self) -> K {
        self.layout.kind
    }

    /// A field by its place among those of its kind; `None` where the bytes end before.
    pub(super) fn read(&self, at: usize) -> Option<u64> {
        self.layout.fields.get(at)?.read(self.raw)
    }

    pub(super) fn read_u32(&self, at: usize) -> Option<u32> {
        self.layout.fields.get(at)?.read_u32(self.raw)
    }

    pub(super) fn is_set(&self, at: usize) -> Option<bool> {
        Some(self.read(at)? != 0)
    }
}

fn number(format: &EventFormat, field: &str) -> Result<Field, CollectError> {
    let unsupported = |error: FormatError| CollectError::unsupported(error.to_string());
    format.number(field).map_err(unsupported)
}
