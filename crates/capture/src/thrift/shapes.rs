//! The structures of Parquet that the decoder reads: a footer and the header of a page.
//!
//! Names, numbers and types: parquet-format, src/main/thrift/parquet.thrift. A field that parquet 60.1
//! knows and this table does not would be read unchecked, so a new release of that crate means a look
//! at its `thrift_struct!` definitions; a field that only this table knows does no harm.

use std::ops::RangeInclusive;

use super::Kind::{Bool, Byte, Bytes, Double, List, Number, Struct};
use super::{Kind, Shape};

pub(crate) const FOOTER: Shape = shape(
    "FileMetaData",
    &[
        (1..=1, Number),
        (2..=2, List(&Struct(&SCHEMA_ELEMENT))),
        (3..=3, Number),
        (4..=4, List(&Struct(&ROW_GROUP))),
        (5..=5, List(&Struct(&KEY_VALUE))),
        (6..=6, Bytes),
        (7..=7, List(&Struct(&UNION_OF_EMPTY))),
    ],
);

pub(crate) const PAGE_HEADER: Shape = shape(
    "PageHeader",
    &[
        (1..=4, Number),
        (5..=5, Struct(&DATA_PAGE)),
        (6..=6, Struct(&EMPTY)),
        (7..=7, Struct(&DICTIONARY_PAGE)),
        (8..=8, Struct(&DATA_PAGE_V2)),
    ],
);

pub(crate) const DATA_PAGE: Shape = shape(
    "DataPageHeader",
    &[(1..=4, Number), (5..=5, Struct(&STATISTICS))],
);

pub(crate) const DATA_PAGE_V2: Shape = shape(
    "DataPageHeaderV2",
    &[(1..=6, Number), (7..=7, Bool), (8..=8, Struct(&STATISTICS))],
);

pub(crate) const DICTIONARY_PAGE: Shape =
    shape("DictionaryPageHeader", &[(1..=2, Number), (3..=3, Bool)]);

const EMPTY: Shape = shape("an empty structure", &[]);

/// A union whose variants hold nothing. The decoder takes one byte for whatever the variant is.
const UNION_OF_EMPTY: Shape = shape("ColumnOrder", &[(1..=3, Struct(&EMPTY))]);

const SCHEMA_ELEMENT: Shape = shape(
    "SchemaElement",
    &[
        (1..=3, Number),
        (4..=4, Bytes),
        (5..=9, Number),
        (10..=10, Struct(&LOGICAL_TYPE)),
    ],
);

const LOGICAL_TYPE: Shape = shape(
    "LogicalType",
    &[
        (1..=4, Struct(&EMPTY)),
        (5..=5, Struct(&DECIMAL)),
        (6..=6, Struct(&EMPTY)),
        (7..=8, Struct(&TIME)),
        (10..=10, Struct(&INT)),
        (11..=15, Struct(&EMPTY)),
        (16..=16, Struct(&VARIANT)),
        (17..=18, Struct(&GEO)),
        (19..=19, Struct(&EMPTY)),
    ],
);

const DECIMAL: Shape = shape("DecimalType", &[(1..=2, Number)]);
const TIME: Shape = shape(
    "TimestampType",
    &[(1..=1, Bool), (2..=2, Struct(&TIME_UNIT))],
);
const TIME_UNIT: Shape = shape("TimeUnit", &[(1..=3, Struct(&EMPTY))]);
const INT: Shape = shape("IntType", &[(1..=1, Byte), (2..=2, Bool)]);
const VARIANT: Shape = shape("VariantType", &[(1..=1, Byte)]);
const GEO: Shape = shape("GeographyType", &[(1..=1, Bytes), (2..=2, Number)]);

const ROW_GROUP: Shape = shape(
    "RowGroup",
    &[
        (1..=1, List(&Struct(&COLUMN_CHUNK))),
        (2..=3, Number),
        (4..=4, List(&Struct(&SORTING_COLUMN))),
        (5..=7, Number),
    ],
);

const SORTING_COLUMN: Shape = shape("SortingColumn", &[(1..=1, Number), (2..=3, Bool)]);

const COLUMN_CHUNK: Shape = shape(
    "ColumnChunk",
    &[
        (1..=1, Bytes),
        (2..=2, Number),
        (3..=3, Struct(&COLUMN)),
        (4..=7, Number),
    ],
);

const COLUMN: Shape = shape(
    "ColumnMetaData",
    &[
        (1..=1, Number),
        (2..=2, List(&Number)),
        (3..=3, List(&Bytes)),
        (4..=7, Number),
        (8..=8, List(&Struct(&KEY_VALUE))),
        (9..=11, Number),
        (12..=12, Struct(&STATISTICS)),
        (13..=13, List(&Struct(&PAGE_ENCODING))),
        (14..=15, Number),
        (16..=16, Struct(&SIZES)),
        (17..=17, Struct(&GEO_STATISTICS)),
    ],
);

const KEY_VALUE: Shape = shape("KeyValue", &[(1..=2, Bytes)]);
const PAGE_ENCODING: Shape = shape("PageEncodingStats", &[(1..=3, Number)]);

const STATISTICS: Shape = shape(
    "Statistics",
    &[
        (1..=2, Bytes),
        (3..=4, Number),
        (5..=6, Bytes),
        (7..=8, Bool),
        (9..=9, Number),
    ],
);

const SIZES: Shape = shape("SizeStatistics", &[(1..=1, Number), (2..=3, List(&Number))]);
const GEO_STATISTICS: Shape = shape(
    "GeospatialStatistics",
    &[(1..=1, Struct(&BOUNDING_BOX)), (2..=2, List(&Number))],
);
const BOUNDING_BOX: Shape = shape("BoundingBox", &[(1..=8, Double)]);

const fn shape(name: &'static str, fields: &'static [(RangeInclusive<i16>, Kind)]) -> Shape {
    Shape { name, fields }
}
