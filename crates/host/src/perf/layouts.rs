//! Where the fields of tracepoints lie: as the running kernel's format files say, and nothing else.

use crate::collector::CollectError;
use crate::tracefs::{EventFormat, Field, FormatError};

pub(super) trait Kind: Copy {
    fn fields(self) -> &'static [&'static str];

    /// Fields that not all kernels have, which come after the others.
    fn optional(self) -> &'static [&'static str] {
        &[]
    }
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
    fields: Vec<Option<Field>>,
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
        let needed = kind.fields().iter();
        let needed = needed.map(|field| number(format, field).map(Some));
        let optional = kind.optional().iter();
        let optional = optional.map(|field| Ok(format.number(field).ok()));
        self.all.push(Layout {
            id: format.id,
            kind,
            fields: needed.chain(optional).collect::<Result<_, _>>()?,
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

    fn field(&self, at: usize) -> Option<&Field> {
        self.layout.fields.get(at)?.as_ref()
    }

    /// Whether this kernel has a field.
    pub(super) fn has(&self, at: usize) -> bool {
        self.field(at).is_some()
    }

    /// A field by its place among those of its kind; `None` where the bytes end before.
    pub(super) fn read(&self, at: usize) -> Option<u64> {
        self.field(at)?.read(self.raw)
    }

    pub(super) fn read_u32(&self, at: usize) -> Option<u32> {
        self.field(at)?.read_u32(self.raw)
    }

    pub(super) fn is_set(&self, at: usize) -> Option<bool> {
        Some(self.read(at)? != 0)
    }
}

fn number(format: &EventFormat, field: &str) -> Result<Field, CollectError> {
    let unsupported = |error: FormatError| CollectError::unsupported(error.to_string());
    format.number(field).map_err(unsupported)
}
