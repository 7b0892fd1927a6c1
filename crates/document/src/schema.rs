//! The JSON Schema of declared figures.

use serde_json::{Map, Value, json};

use crate::figure::{Figure, Unit};

/// The JSON Schema (draft 2020-12) of a result.
pub fn json_schema(title: &str, figures: &[Figure]) -> Value {
    let mut schema = object(figures);
    if let Value::Object(fields) = &mut schema {
        fields.insert(
            "$schema".into(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
        fields.insert("title".into(), title.into());
    }
    schema
}

fn object(figures: &[Figure]) -> Value {
    let figures = flat(figures);
    let mut properties = Map::new();
    for figure in &figures {
        properties.insert(figure.name.into(), property(figure));
    }
    let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn property(figure: &Figure) -> Value {
    let mut schema = match figure.unit {
        Unit::Count
        | Unit::Nanos
        | Unit::Amount
        | Unit::Number
        | Unit::Bytes
        | Unit::Microjoules => json!({ "type": "integer", "minimum": 0 }),
        Unit::MeanNanos | Unit::Share | Unit::PerSecond | Unit::CpuPercent => {
            json!({ "type": "number", "minimum": 0 })
        }
        Unit::Real => json!({ "type": ["number", "null"] }),
        Unit::Flag => json!({ "type": "boolean" }),
        Unit::Word | Unit::Name | Unit::Shown | Unit::Drawn => json!({ "type": "string" }),
        Unit::Words => json!({ "type": "array" }),
        Unit::Object | Unit::Buckets => json!({ "type": "object" }),
        Unit::Record(inner) | Unit::Flat(inner) => object(inner),
        Unit::List(inner) => json!({ "type": "array", "items": object(inner) }),
    };
    if let Value::Object(fields) = &mut schema {
        if figure.nullable
            && figure.unit != Unit::Real
            && let Some(kind) = fields.remove("type")
        {
            fields.insert("type".into(), json!([kind, "null"]));
        }
        fields.insert("description".into(), figure.meaning().into());
        if let Some(unit) = unit(figure.unit) {
            fields.insert("x-unit".into(), unit.into());
        }
    }
    schema
}

/// Figures as they stand in JSON: flattened ones beside the others.
pub(crate) fn flat(figures: &[Figure]) -> Vec<Figure> {
    let one = |figure: &Figure| match figure.unit {
        Unit::Flat(inner) => flat(inner),
        _ => vec![*figure],
    };
    figures.iter().flat_map(one).collect()
}

fn unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Nanos | Unit::MeanNanos => Some("ns"),
        Unit::Share => Some("0 to 1"),
        Unit::PerSecond => Some("1/s"),
        Unit::CpuPercent => Some("% of one CPU"),
        Unit::Bytes => Some("bytes"),
        Unit::Microjoules => Some("uJ"),
        Unit::Count => Some("count"),
        _ => None,
    }
}

pub(crate) fn kind(figure: &Figure) -> String {
    let kind = match figure.unit {
        Unit::Amount => "amount",
        Unit::Number => "number",
        Unit::Real => "number of either sign",
        Unit::Flag => "true or false",
        Unit::Word | Unit::Name => "text",
        Unit::Words => "list",
        Unit::Buckets => "histogram",
        Unit::Record(..) | Unit::Flat(_) | Unit::Object => "object",
        Unit::List(_) => "list of objects",
        other => unit(other).unwrap_or_default(),
    };
    let or_null = if figure.nullable { ", or null" } else { "" };
    format!("{kind}{or_null}")
}
