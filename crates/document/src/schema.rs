//! What is published of declared figures: their JSON Schema, and their page of documentation.

use serde_json::{Map, Value, json};

use crate::block::Document;
use crate::figure::{Figure, Unit};
use crate::table::{Column, Table};

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
fn flat(figures: &[Figure]) -> Vec<Figure> {
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

fn kind(figure: &Figure) -> String {
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

/// The page of documentation of a result: its title, what it is, notes, then a table for each kind of object.
pub fn page(
    title: &'static str,
    opening: String,
    notes: &[&'static str],
    figures: &[Figure],
) -> Document {
    let mut page = Document::new();
    page.heading(title);
    page.prose(opening);
    for text in notes {
        page.note(*text);
    }
    let mut sections = vec![(vec!["Top level".to_owned()], flat(figures))];
    collect(figures, "", &mut sections);
    for (paths, figures) in sections {
        page.heading(paths.join(", "));
        page.table(table(&figures));
    }
    page
}

/// Where objects of one kind stand, and their figures.
type Section = (Vec<String>, Vec<Figure>);

fn collect(figures: &[Figure], at: &str, sections: &mut Vec<Section>) {
    for figure in flat(figures) {
        let (Unit::Record(inner) | Unit::List(inner)) = figure.unit else {
            continue;
        };
        let list = if matches!(figure.unit, Unit::List(_)) {
            "[]"
        } else {
            ""
        };
        let path = format!("`{at}{}{list}`", figure.name);
        let inner = flat(inner);
        let known = sections.iter_mut().find(|(_, known)| *known == inner);
        if let Some((paths, _)) = known {
            paths.push(path);
        } else {
            let at = format!("{}.", path.trim_matches('`'));
            sections.push((vec![path], inner.clone()));
            collect(&inner, &at, sections);
        }
    }
}

fn table(figures: &[Figure]) -> Table {
    let column = |title: &str| Column {
        title: title.to_owned(),
        meaning: "",
        unit: Unit::Word,
        spare: None,
        bar: None,
    };
    let row = |figure: &Figure| {
        let name = format!("`{}`", figure.name);
        vec![name.into(), kind(figure).into(), figure.meaning().into()]
    };
    Table {
        caption: "Fields",
        id: None,
        columns: ["field", "kind", "meaning"].map(column).into(),
        rows: figures.iter().map(row).collect(),
        more: 0,
    }
}
