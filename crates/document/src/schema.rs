//! The JSON Schema of declared figures, and the page of documentation of a result as Markdown (tables as GitHub has them).

use std::fmt::Write as _;

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
    let (kind, unit) = form(figure.unit);
    let mut schema = match figure.unit {
        Unit::Record(inner) | Unit::Flat(inner) => object(inner),
        Unit::List(inner) => json!({ "type": kind, "items": object(inner) }),
        _ => json!({ "type": kind }),
    };
    if let Value::Object(fields) = &mut schema {
        let is_number = matches!(kind, "integer" | "number");
        if is_number && figure.unit != Unit::Real {
            fields.insert("minimum".into(), 0.into());
        }
        if figure.nullable || figure.unit == Unit::Real {
            fields.insert("type".into(), json!([kind, "null"]));
        }
        fields.insert("description".into(), figure.meaning().into());
        if is_number && !matches!(figure.unit, Unit::Amount | Unit::Number | Unit::Real) {
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

/// Type in JSON, and the unit, or a word where there is none.
pub(crate) fn form(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::Count => ("integer", "count"),
        Unit::Nanos => ("integer", "ns"),
        Unit::MeanNanos => ("number", "ns"),
        Unit::Share => ("number", "0 to 1"),
        Unit::PerSecond => ("number", "1/s"),
        Unit::CpuPercent => ("number", "% of one CPU"),
        Unit::Bytes => ("integer", "bytes"),
        Unit::Microjoules => ("integer", "uJ"),
        Unit::Amount => ("integer", "amount"),
        Unit::Number => ("integer", "number"),
        Unit::Real => ("number", "number of either sign"),
        Unit::Flag => ("boolean", "true or false"),
        Unit::Word | Unit::Name => ("string", "text"),
        Unit::Shown | Unit::Drawn | Unit::Linked => ("string", ""),
        Unit::Words => ("array", "list"),
        Unit::Buckets => ("object", "histogram"),
        Unit::Record(_) | Unit::Flat(_) | Unit::Object => ("object", "object"),
        Unit::List(_) => ("array", "list of objects"),
    }
}

fn kind(figure: &Figure) -> String {
    let or_null = if figure.nullable { ", or null" } else { "" };
    format!("{}{or_null}", form(figure.unit).1)
}

/// A page: what the result is, notes, and a section for each kind of object.
pub fn page(title: &str, opening: &str, notes: &[&str], figures: &[Figure]) -> String {
    let mut text = format!("# {title}\n\n{opening}\n");
    if !notes.is_empty() {
        text.push('\n');
    }
    // Writing to a String cannot fail.
    for note in notes {
        let _ = writeln!(text, "* {note}");
    }
    let mut sections = vec![(vec!["Top level".to_owned()], flat(figures))];
    collect(figures, "", &mut sections);
    for (paths, figures) in &sections {
        let _ = writeln!(text, "\n## {}\n", paths.join(", "));
        text.push_str("| field | kind | meaning |\n| --- | --- | --- |\n");
        for figure in figures {
            let meaning = figure.meaning().replace('|', "\\|");
            let _ = writeln!(text, "| `{}` | {} | {meaning} |", figure.name, kind(figure));
        }
    }
    text
}

/// Where objects of one kind stand, and their figures.
type Section = (Vec<String>, Vec<Figure>);

fn collect(figures: &[Figure], at: &str, sections: &mut Vec<Section>) {
    for figure in flat(figures) {
        let (inner, list) = match figure.unit {
            Unit::Record(inner) => (flat(inner), ""),
            Unit::List(inner) => (flat(inner), "[]"),
            _ => continue,
        };
        let path = format!("{at}{}{list}", figure.name);
        let known = sections.iter_mut().find(|(_, known)| *known == inner);
        if let Some((paths, _)) = known {
            paths.push(format!("`{path}`"));
        } else {
            sections.push((vec![format!("`{path}`")], inner.clone()));
            collect(&inner, &format!("{path}."), sections);
        }
    }
}
